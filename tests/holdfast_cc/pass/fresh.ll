; An object that was allocated in this transaction goes with it: stores to it are not logged, as long as the
; transaction may be the same.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @inside(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @inside(ptr %pool) {
  %n = call ptr @nvm_alloc(ptr %pool, i32 1, i64 16)
  %last = getelementptr i8, ptr %n, i64 8
  store i64 4, ptr %n
  store i64 5, ptr %last
  ret void
}
; CHECK-LABEL: define void @array(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @array(ptr %pool) {
  %n = call ptr @nvm_calloc(ptr %pool, i32 1, i64 4, i64 16)
  %last = getelementptr i8, ptr %n, i64 56
  store i64 5, ptr %last
  ret void
}
; Not all of it is the object.
; CHECK-LABEL: define void @beyond(
; CHECK: call void @__nvm_log(ptr %{{.*}}, i64 8)
define void @beyond(ptr %pool) {
  %n = call ptr @nvm_alloc(ptr %pool, i32 1, i64 15)
  %last = getelementptr i8, ptr %n, i64 8
  store i64 5, ptr %last
  ret void
}
; CHECK-LABEL: define void @another_transaction(
; CHECK: call i32 @nvm_tx_commit
; CHECK: call void @__nvm_log(ptr %n, i64 8)
define void @another_transaction(ptr %pool) {
  %n = call ptr @nvm_alloc(ptr %pool, i32 1, i64 16)
  %c = call i32 @nvm_tx_commit(ptr %pool)
  store i64 5, ptr %n
  ret void
}
; Another allocation changes nothing.
; CHECK-LABEL: define void @two(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @two(ptr %pool) {
  %n = call ptr @nvm_alloc(ptr %pool, i32 1, i64 16)
  %m = call ptr @nvm_alloc(ptr %pool, i32 1, i64 16)
  store ptr %m, ptr %n
  store ptr %n, ptr %m
  ret void
}
declare ptr @nvm_alloc(ptr, i32, i64)
declare ptr @nvm_calloc(ptr, i32, i64, i64)
declare i32 @nvm_tx_commit(ptr)

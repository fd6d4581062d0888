; A precompiled function that calls functions of the program may end a transaction and begin another.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @sorts(
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: call void @qsort
; CHECK: call void @__nvm_log(ptr %p, i64 8)
define void @sorts(ptr %p, ptr %q, i64 %n, ptr %f) {
  store i64 1, ptr %p
  call void @qsort(ptr %q, i64 %n, i64 8, ptr %f)
  store i64 2, ptr %p
  ret void
}
; CHECK-LABEL: define void @copies(
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: call ptr @strcpy
; CHECK-NOT: call void @__nvm_log(ptr %p
; CHECK: ret void
define void @copies(ptr %p, ptr %q, ptr %r) {
  store i64 1, ptr %p
  %x = call ptr @strcpy(ptr %q, ptr %r)
  store i64 2, ptr %p
  ret void
}
declare void @qsort(ptr, i64, i64, ptr)
declare ptr @strcpy(ptr, ptr)

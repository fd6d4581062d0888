; Stores of a straight line to touching bytes: one range, before the first; a gap is not closed.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @fields(
; CHECK: call void @__nvm_log(ptr %p, i64 24)
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @fields(ptr %p) {
  %b = getelementptr i8, ptr %p, i64 8
  %c = getelementptr i8, ptr %p, i64 16
  store i64 1, ptr %b
  store i64 2, ptr %p
  store i64 3, ptr %c
  ret void
}
; CHECK-LABEL: define void @gap(
; CHECK-NOT: i64 24
; CHECK: call void @__nvm_log_many(ptr %{{.*}}, i64 2)
; CHECK-NOT: i64 24
; CHECK: ret void
define void @gap(ptr %p) {
  %c = getelementptr i8, ptr %p, i64 16
  store i64 2, ptr %p
  store i64 3, ptr %c
  ret void
}
; A call that may not come back: the second store is not certain.
; CHECK-LABEL: define void @interrupted(
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: call void @anything()
; CHECK: call void @__nvm_log(ptr %{{.*}}, i64 8)
define void @interrupted(ptr %p) {
  %b = getelementptr i8, ptr %p, i64 8
  store i64 1, ptr %p
  call void @anything()
  store i64 2, ptr %b
  ret void
}
declare void @anything()

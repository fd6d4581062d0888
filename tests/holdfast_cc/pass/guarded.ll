; A store through a pointer from anywhere: one shift, one compare, and the call only after them.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @store(
; CHECK: %[[A:.*]] = ptrtoint ptr %p to i64
; CHECK: %[[W:.*]] = lshr i64 %[[A]], 45
; CHECK: %[[D:.*]] = icmp eq i64 %[[W]], 1
; CHECK: br i1 %[[D]]
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: store i64 7, ptr %p
define void @store(ptr %p) {
  store i64 7, ptr %p
  ret void
}
; CHECK-LABEL: define i32 @atomics(
; CHECK: call void @__nvm_log(ptr %p, i64 4)
; CHECK: atomicrmw add ptr %p
define i32 @atomics(ptr %p) {
  %v = atomicrmw add ptr %p, i32 1 seq_cst
  ret i32 %v
}
; CHECK-LABEL: define void @copy(
; CHECK: call void @__nvm_log(ptr %d, i64 %n)
; CHECK: call void @llvm.memcpy
define void @copy(ptr %d, ptr %s, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %d, ptr %s, i64 %n, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

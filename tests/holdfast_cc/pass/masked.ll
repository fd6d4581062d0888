; A masked vector store logs the lanes that it writes.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @masked(
; CHECK: %[[B:.*]] = bitcast <4 x i1> %m to i4
; CHECK: %[[W:.*]] = zext i4 %[[B]] to i64
; CHECK: call void @__nvm_log_masked(ptr %p, i64 4, i64 %[[W]])
define void @masked(<4 x i32> %v, ptr %p, <4 x i1> %m) {
  call void @llvm.masked.store.v4i32.p0(<4 x i32> %v, ptr %p, i32 4, <4 x i1> %m)
  ret void
}
declare void @llvm.masked.store.v4i32.p0(<4 x i32>, ptr, i32 immarg, <4 x i1>)

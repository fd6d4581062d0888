; What the logging pass knows that an intrinsic writes is recorded as well: the two share it.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"
define void @counted(<4 x i32> %v, ptr %p, <4 x i1> %m, i32 %n) {
; CHECK-LABEL: define void @counted(
; CHECK: call void @llvm.vp.store
; CHECK: icmp ult <4 x i32> <i32 0, i32 1, i32 2, i32 3>
; CHECK: call void @__nvm_rec_masked(ptr %p, i64 4,
  call void @llvm.vp.store.v4i32.p0(<4 x i32> %v, ptr %p, <4 x i1> %m, i32 %n)
  ret void
}
define void @strided(<2 x i64> %v, ptr %p, i64 %s, <2 x i1> %m, i32 %n) {
; CHECK-LABEL: define void @strided(
; CHECK: call void @llvm.experimental.vp.strided.store
; CHECK: call void @__nvm_rec_store(
; CHECK: call void @__nvm_rec_store(
  call void @llvm.experimental.vp.strided.store.v2i64.p0.i64(<2 x i64> %v, ptr %p, i64 %s, <2 x i1> %m, i32 %n)
  ret void
}
define void @many(<128 x i8> %v, ptr %p, <128 x i1> %m) {
; CHECK-LABEL: define void @many(
; CHECK: call void @__nvm_rec_masked(ptr %p, i64 1, i64
; CHECK: %[[Q:.*]] = getelementptr i8, ptr %p, i64 64
; CHECK: call void @__nvm_rec_masked(ptr %[[Q]], i64 1, i64
  call void @llvm.masked.store.v128i8.p0(<128 x i8> %v, ptr %p, i32 1, <128 x i1> %m)
  ret void
}
define void @state(ptr %p) {
; CHECK-LABEL: define void @state(
; CHECK: call void @llvm.x86.fxsave
; CHECK: call void @__nvm_rec_store(ptr %p, i64 512,
; CHECK: call void @llvm.x86.sse.stmxcsr
; CHECK: call void @__nvm_rec_store(ptr %p, i64 4,
  call void @llvm.x86.fxsave(ptr %p)
  call void @llvm.x86.sse.stmxcsr(ptr %p)
  ret void
}
define void @arithmetic(ptr %p, i32 %n) {
; CHECK-LABEL: define void @arithmetic(
; CHECK: call void @llvm.x86.aadd32
; CHECK: call void @__nvm_rec_store(ptr %p, i64 4,
; CHECK: call i32 @llvm.x86.cmpccxadd32
; CHECK: call void @__nvm_rec_rmw(ptr %p, i64 4,
  call void @llvm.x86.aadd32(ptr %p, i32 %n)
  %old = call i32 @llvm.x86.cmpccxadd32(ptr %p, i32 %n, i32 %n, i32 0)
  ret void
}
define void @arguments(ptr %p, ptr %q) {
; CHECK-LABEL: define void @arguments(
; CHECK: call void @llvm.va_copy
; CHECK: call void @__nvm_rec_store(ptr %p, i64 24,
  call void @llvm.va_copy.p0(ptr %p, ptr %q)
  ret void
}
define void @tile(ptr %p, i64 %s) {
; CHECK-LABEL: define void @tile(
; CHECK: call void @llvm.x86.tilestored64
; CHECK: call void @llvm.x86.sttilecfg
; CHECK-COUNT-16: call void @__nvm_rec_store(
  call void @llvm.x86.tilestored64(i8 2, ptr %p, i64 %s)
  ret void
}

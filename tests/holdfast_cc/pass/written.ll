; What intrinsics write is logged: lanes by their mask, ranges by their size, and what nobody knows as a whole object.
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
; More than 64 lanes: two calls.
; CHECK-LABEL: define void @many(
; CHECK: call void @__nvm_log_masked(ptr %p, i64 1, i64
; CHECK: %[[Q:.*]] = getelementptr i8, ptr %p, i64 64
; CHECK: lshr i128 {{.*}}, 64
; CHECK: call void @__nvm_log_masked(ptr %[[Q]], i64 1, i64
define void @many(<128 x i8> %v, ptr %p, <128 x i1> %m) {
  call void @llvm.masked.store.v128i8.p0(<128 x i8> %v, ptr %p, i32 1, <128 x i1> %m)
  ret void
}
; CHECK-LABEL: define void @scattered(
; CHECK: %[[N:.*]] = ptrtoint <4 x ptr> %p to <4 x i64>
; CHECK: lshr <4 x i64> %[[N]], <i64 45, i64 45, i64 45, i64 45>
; CHECK: and <4 x i1> %m,
; CHECK: call i1 @llvm.vector.reduce.or.v4i1(
; CHECK: store <4 x ptr> %p, ptr %[[L:[0-9]+]]
; CHECK: call void @__nvm_log_scattered(ptr %[[L]], i64 4, i64
define void @scattered(<4 x i32> %v, <4 x ptr> %p, <4 x i1> %m) {
  call void @llvm.masked.scatter.v4i32.v4p0(<4 x i32> %v, <4 x ptr> %p, i32 4, <4 x i1> %m)
  ret void
}
; CHECK-LABEL: define void @into_a_variable(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @into_a_variable(<4 x i32> %v, <4 x i64> %i, <4 x i1> %m) {
  %a = alloca [64 x i32]
  %p = getelementptr i32, ptr %a, <4 x i64> %i
  call void @llvm.masked.scatter.v4i32.v4p0(<4 x i32> %v, <4 x ptr> %p, i32 4, <4 x i1> %m)
  ret void
}
; CHECK-LABEL: define void @compressed(
; CHECK: call i64 @llvm.ctpop.i64(
; CHECK: %[[S:.*]] = mul i64 {{.*}}, 2
; CHECK: call void @__nvm_log(ptr %p, i64 %[[S]])
define void @compressed(<8 x i16> %v, ptr %p, <8 x i1> %m) {
  call void @llvm.masked.compressstore.v8i16(<8 x i16> %v, ptr %p, <8 x i1> %m)
  ret void
}
; CHECK-LABEL: define void @counted(
; CHECK: icmp ult <4 x i32> <i32 0, i32 1, i32 2, i32 3>
; CHECK: call void @__nvm_log_masked(ptr %p, i64 4, i64
; CHECK: getelementptr i8, ptr %p, <4 x i64>
; CHECK: call void @__nvm_log_scattered(
define void @counted(<4 x i32> %v, ptr %p, <4 x i1> %m, i64 %stride, i32 %n) {
  call void @llvm.vp.store.v4i32.p0(<4 x i32> %v, ptr %p, <4 x i1> %m, i32 %n)
  call void @llvm.experimental.vp.strided.store.v4i32.p0.i64(<4 x i32> %v, ptr %p, i64 %stride, <4 x i1> %m, i32 %n)
  ret void
}
; CHECK-LABEL: define void @by_sign(
; CHECK: icmp slt <4 x i32> %m, zeroinitializer
; CHECK: call void @__nvm_log_masked(ptr %p, i64 4, i64
define void @by_sign(<4 x float> %v, ptr %p, <4 x i32> %m) {
  call void @llvm.x86.avx.maskstore.ps(ptr %p, <4 x i32> %m, <4 x float> %v)
  ret void
}
; Two lanes of the mask's eight bits.
; CHECK-LABEL: define void @narrowed(
; CHECK: shufflevector <8 x i1> {{.*}}, <2 x i32> <i32 0, i32 1>
; CHECK: call void @__nvm_log_masked(ptr %p, i64 1, i64
define void @narrowed(<2 x i64> %v, ptr %p, i8 %m) {
  call void @llvm.x86.avx512.mask.pmov.qb.mem.128(ptr %p, <2 x i64> %v, i8 %m)
  ret void
}
; CHECK-LABEL: define void @of_known_size(
; CHECK: call void @__nvm_log(ptr %p, i64 512)
; CHECK: call void @__nvm_log(ptr %q, i64 24)
define void @of_known_size(ptr %p, ptr %q, ...) {
  call void @llvm.x86.fxsave(ptr %p)
  call void @llvm.va_start.p0(ptr %q)
  call void @llvm.va_end.p0(ptr %q)
  ret void
}
; CHECK-LABEL: define void @whole_object(
; CHECK: call void @__nvm_log_object(ptr %p)
define void @whole_object(ptr %p) {
  call void @llvm.x86.xsave(ptr %p, i32 0, i32 7)
  ret void
}
; CHECK-LABEL: define void @only_read(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @only_read(ptr %p) {
  call void @llvm.x86.fxrstor(ptr %p)
  call void @llvm.prefetch.p0(ptr %p, i32 1, i32 3, i32 1)
  call void @llvm.x86.clwb(ptr %p)
  ret void
}
; The rows of a matrix register, where its configuration says how many there are.
; CHECK-LABEL: define void @tile(
; CHECK: call void @llvm.x86.sttilecfg(ptr %{{[0-9]+}})
; CHECK: call void @__nvm_log_scattered(
define void @tile(ptr %p, i64 %stride) {
  call void @llvm.x86.tilestored64(i8 3, ptr %p, i64 %stride)
  ret void
}
; A structure that a function of another file returns.
; CHECK-LABEL: define void @returned(
; CHECK: call void @__nvm_log(ptr %p, i64 40)
; CHECK: call void @elsewhere(
define void @returned(ptr %p) {
  call void @elsewhere(ptr sret([5 x i64]) %p)
  ret void
}
declare void @elsewhere(ptr sret([5 x i64]))

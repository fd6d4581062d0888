; Of masked accesses the active lanes count; gathered and scattered lanes are an access each.
declare <4 x i32> @llvm.masked.load.v4i32.p0(ptr, i32, <4 x i1>, <4 x i32>)
declare void @llvm.masked.store.v4i32.p0(<4 x i32>, ptr, i32, <4 x i1>)
declare <2 x i64> @llvm.masked.gather.v2i64.v2p0(<2 x ptr>, i32, <2 x i1>, <2 x i64>)
define <4 x i32> @masked(ptr %p, <4 x i1> %m, <4 x i32> %v) {
; CHECK-LABEL: define <4 x i32> @masked(
; CHECK: %[[N:.*]] = call i64 @llvm.ctpop.i64(
; CHECK: mul i64 %{{.*}}, 4
; CHECK: call preserve_allcc void @__nvm_prof_load(ptr %p, i64 %
; CHECK: call <4 x i32> @llvm.masked.load
; CHECK: call preserve_allcc void @__nvm_prof_store(ptr %p, i64 %
; CHECK: call void @llvm.masked.store
  %a = call <4 x i32> @llvm.masked.load.v4i32.p0(ptr %p, i32 4, <4 x i1> %m, <4 x i32> %v)
  call void @llvm.masked.store.v4i32.p0(<4 x i32> %v, ptr %p, i32 4, <4 x i1> %m)
  ret <4 x i32> %a
}
define <2 x i64> @gathered(<2 x ptr> %p, <2 x i1> %m, <2 x i64> %v) {
; CHECK-LABEL: define <2 x i64> @gathered(
; CHECK: %[[P0:.*]] = extractelement <2 x ptr> %p, i64 0
; CHECK: select i1 %{{.*}}, i64 8, i64 0
; CHECK: call preserve_allcc void @__nvm_prof_load(ptr %[[P0]], i64 %
; CHECK: extractelement <2 x ptr> %p, i64 1
; CHECK: call preserve_allcc void @__nvm_prof_load(
; CHECK: call <2 x i64> @llvm.masked.gather
  %a = call <2 x i64> @llvm.masked.gather.v2i64.v2p0(<2 x ptr> %p, i32 8, <2 x i1> %m, <2 x i64> %v)
  ret <2 x i64> %a
}

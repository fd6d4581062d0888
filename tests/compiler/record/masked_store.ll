; Of a masked store exactly the lanes that were stored are reported; of a compressing one, as many as the mask has ones.
declare void @llvm.masked.store.v4i32.p0(<4 x i32>, ptr, i32, <4 x i1>)
declare void @llvm.masked.scatter.v2i64.v2p0(<2 x i64>, <2 x ptr>, i32, <2 x i1>)
declare void @llvm.masked.compressstore.v4i32(<4 x i32>, ptr, <4 x i1>)
declare void @llvm.x86.avx2.maskstore.d.256(ptr, <8 x i32>, <8 x i32>)
define void @masked(ptr %p, <4 x i32> %v, <4 x i1> %m) {
; CHECK-LABEL: define void @masked(
; CHECK: call void @llvm.masked.store
; CHECK: %[[I:.*]] = bitcast <4 x i1> %m to i4
; CHECK: %[[B:.*]] = zext i4 %[[I]] to i64
; CHECK: call void @__nvm_rec_masked(ptr %p, i64 4, i64 %[[B]],
  call void @llvm.masked.store.v4i32.p0(<4 x i32> %v, ptr %p, i32 4, <4 x i1> %m)
  ret void
}
define void @scattered(<2 x ptr> %p, <2 x i64> %v, <2 x i1> %m) {
; CHECK-LABEL: define void @scattered(
; CHECK: call void @llvm.masked.scatter
; CHECK: %[[P0:.*]] = extractelement <2 x ptr> %p, i64 0
; CHECK: %[[M0:.*]] = extractelement <2 x i1> %m, i64 0
; CHECK: %[[N0:.*]] = select i1 %[[M0]], i64 8, i64 0
; CHECK: call void @__nvm_rec_store(ptr %[[P0]], i64 %[[N0]],
; CHECK: extractelement <2 x ptr> %p, i64 1
; CHECK: call void @__nvm_rec_store(
  call void @llvm.masked.scatter.v2i64.v2p0(<2 x i64> %v, <2 x ptr> %p, i32 8, <2 x i1> %m)
  ret void
}
define void @compressed(ptr %p, <4 x i32> %v, <4 x i1> %m) {
; CHECK-LABEL: define void @compressed(
; CHECK: %[[C:.*]] = call i64 @llvm.ctpop.i64(
; CHECK: %[[N:.*]] = mul i64 %[[C]], 4
; CHECK: call void @__nvm_rec_store(ptr %p, i64 %[[N]],
  call void @llvm.masked.compressstore.v4i32(<4 x i32> %v, ptr %p, <4 x i1> %m)
  ret void
}
define void @by_sign(ptr %p, <8 x i32> %m, <8 x i32> %v) #0 {
; CHECK-LABEL: define void @by_sign(
; CHECK: icmp slt <8 x i32> %m, zeroinitializer
; CHECK: call void @__nvm_rec_masked(ptr %p, i64 4, i64
  call void @llvm.x86.avx2.maskstore.d.256(ptr %p, <8 x i32> %m, <8 x i32> %v)
  ret void
}
attributes #0 = { "target-features"="+avx2" }

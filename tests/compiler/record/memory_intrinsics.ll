; memcpy, memmove and memset are reported with their length, of kind 5: bytes in no order.
; CHECK: @nvm.site = private constant {{.*}} i32 5, i32 0 }
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i32(ptr, ptr, i32, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @copy(ptr %d, ptr %s, i64 %n) {
; CHECK-LABEL: define void @copy(
; CHECK: call void @llvm.memcpy.p0.p0.i64(ptr %d
; CHECK: call void @__nvm_rec_store(ptr %d, i64 %n, ptr @nvm.site)
  call void @llvm.memcpy.p0.p0.i64(ptr %d, ptr %s, i64 %n, i1 false)
  ret void
}
define void @move(ptr %d, ptr %s, i32 %n) {
; CHECK-LABEL: define void @move(
; CHECK: call void @llvm.memmove.p0.p0.i32(ptr %d
; CHECK: %[[N:.*]] = zext i32 %n to i64
; CHECK: call void @__nvm_rec_store(ptr %d, i64 %[[N]],
  call void @llvm.memmove.p0.p0.i32(ptr %d, ptr %s, i32 %n, i1 false)
  ret void
}
define void @fill(ptr %d) {
; CHECK-LABEL: define void @fill(
; CHECK: call void @llvm.memset.p0.i64(ptr %d
; CHECK: call void @__nvm_rec_store(ptr %d, i64 96,
  call void @llvm.memset.p0.i64(ptr %d, i8 0, i64 96, i1 false)
  ret void
}

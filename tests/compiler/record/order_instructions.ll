; Write-backs and fences are reported while something is attached; a fence that costs the processor nothing is none.
declare void @llvm.x86.clwb(ptr)
declare void @llvm.x86.sse.sfence()
define void @f(ptr %p) #0 {
; CHECK-LABEL: define void @f(
; CHECK: call void @llvm.x86.clwb(ptr %p)
; CHECK: call void @__nvm_rec_flush(ptr %p,
; CHECK: call void @llvm.x86.sse.sfence()
; CHECK: call void @__nvm_rec_fence(
; CHECK: fence seq_cst
; CHECK: call void @__nvm_rec_fence(
; CHECK: fence release
; CHECK-NOT: __nvm_rec_fence
; CHECK: ret void
  call void @llvm.x86.clwb(ptr %p)
  call void @llvm.x86.sse.sfence()
  fence seq_cst
  fence release
  ret void
}
attributes #0 = { "target-features"="+clwb" }

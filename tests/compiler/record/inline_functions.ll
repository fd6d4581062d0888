; An inline function becomes this module's own, so that the linker cannot choose a copy that is not instrumented.
$inlined = comdat any
; CHECK-NOT: comdat
define linkonce_odr void @inlined(ptr %p) comdat {
; CHECK: define internal void @inlined(ptr %p)
; CHECK: @__nvm_rec_store
  store i32 1, ptr %p
  ret void
}
define void @f(ptr %p) {
  call void @inlined(ptr %p)
  ret void
}

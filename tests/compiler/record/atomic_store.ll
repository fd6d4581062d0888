; An atomic store is reported with kind 1, which the commit rule asks for.
; CHECK: @nvm.site = private constant {{.*}} i32 1, i32 0 }
define void @f(ptr %p, i64 %v) {
; CHECK-LABEL: define void @f(
; CHECK: store atomic i64 %v, ptr %p release
; CHECK: call void @__nvm_rec_store(ptr %p, i64 8, ptr @nvm.site)
  store atomic i64 %v, ptr %p release, align 8
  ret void
}

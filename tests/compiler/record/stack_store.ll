; Stores to the function's own stack are never in the watched range and cost nothing.
define void @f(i32 %v, i64 %i) {
; CHECK-LABEL: define void @f(
; CHECK-NOT: __nvm_rec_store
; CHECK: ret void
  %a = alloca [8 x i32]
  %p = getelementptr [8 x i32], ptr %a, i64 0, i64 %i
  store volatile i32 %v, ptr %p
  ret void
}

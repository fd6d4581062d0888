; With the plugin that records loads, each load is reported before it happens.
define i32 @f(ptr %p) {
; CHECK-LABEL: define i32 @f(
; CHECK: call void @__nvm_rec_load(ptr %p, i64 4,
; CHECK: load i32, ptr %p
  %v = load i32, ptr %p
  ret i32 %v
}

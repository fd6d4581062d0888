; With the plugin that records loads, each load is reported before it happens, and each atomic access wherever it is.
define i32 @f(ptr %p) {
; CHECK-LABEL: define i32 @f(
; CHECK: call void @__nvm_rec_load(ptr %p, i64 4,
; CHECK: load i32, ptr %p
  %v = load i32, ptr %p
  ret i32 %v
}
define i32 @g(ptr %p) {
; CHECK-LABEL: define i32 @g(
; CHECK: call void @__nvm_rec_access(ptr %p,
; CHECK: call void @__nvm_rec_load(ptr %p, i64 4,
; CHECK: load atomic i32, ptr %p acquire
  %v = load atomic i32, ptr %p acquire, align 4
  ret i32 %v
}
define void @h(ptr %p) {
; CHECK-LABEL: define void @h(
; CHECK: call void @__nvm_rec_access(ptr %p,
; CHECK: atomicrmw add ptr %p
; CHECK: call void @__nvm_rec_rmw(ptr %p, i64 4,
  %v = atomicrmw add ptr %p, i32 1 seq_cst
  ret void
}
declare i32 @memcmp(ptr, ptr, i64)
define i32 @compare(ptr %p, ptr %q, i64 %n) {
; CHECK-LABEL: define i32 @compare(
; CHECK: call void @__nvm_rec_load(ptr %p, i64 %n,
; CHECK: call void @__nvm_rec_load(ptr %q, i64 %n,
; CHECK: call i32 @memcmp(
  %v = call i32 @memcmp(ptr %p, ptr %q, i64 %n)
  ret i32 %v
}

; Calls of the C library that store are reported after they return; a function of that name with a body is the program's own.
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @__memset_chk(ptr, i32, i64, i64)
declare ptr @strcpy(ptr, ptr)
declare i64 @pread(i32, ptr, i64, i64)
declare void @__atomic_store_16(ptr, i128, i32)
declare i32 @__gxx_personality_v0(...)
define void @calls(ptr %d, ptr %s, i64 %n, i128 %w) {
; CHECK-LABEL: define void @calls(
; CHECK: call ptr @memcpy(
; CHECK: call void @__nvm_rec_store(ptr %d, i64 %n,
; CHECK: call ptr @__memset_chk(
; CHECK: call void @__nvm_rec_store(ptr %d, i64 %n,
; CHECK: call ptr @strcpy(
; CHECK: call void @__nvm_rec_string(ptr %d,
; CHECK: call i64 @pread(
; CHECK: call void @__nvm_rec_store(ptr %d, i64 %n,
; CHECK: call void @__atomic_store_16(
; CHECK: call void @__nvm_rec_store(ptr %d, i64 16,
  %1 = call ptr @memcpy(ptr %d, ptr %s, i64 %n)
  %2 = call ptr @__memset_chk(ptr %d, i32 0, i64 %n, i64 -1)
  %3 = call ptr @strcpy(ptr %d, ptr %s)
  %4 = call i64 @pread(i32 3, ptr %d, i64 %n, i64 0)
  call void @__atomic_store_16(ptr %d, i128 %w, i32 5)
  ret void
}
define void @invoked(ptr %d, ptr %s, i64 %n) personality ptr @__gxx_personality_v0 {
; CHECK-LABEL: define void @invoked(
; CHECK: invoke ptr @memcpy
; CHECK: good:
; CHECK: call void @__nvm_rec_store(ptr %d, i64 %n,
entry:
  %1 = invoke ptr @memcpy(ptr %d, ptr %s, i64 %n) to label %good unwind label %bad
good:
  ret void
bad:
  %l = landingpad { ptr, i32 } cleanup
  ret void
}
define internal ptr @memmove(ptr %d, ptr %s, i64 %n) noinline {
  ret ptr %d
}
define void @own(ptr %d, ptr %s, i64 %n) {
; CHECK-LABEL: define void @own(
; CHECK-NOT: __nvm_rec_store
; CHECK: ret void
  %1 = call ptr @memmove(ptr %d, ptr %s, i64 %n)
  ret void
}

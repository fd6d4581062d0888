; Blocks of memory, and of functions of the C library.
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @read(i32, ptr, i64)
declare i64 @strlen(ptr)
declare ptr @fgets(ptr, i32, ptr)
declare i32 @stat(ptr, ptr)
define void @copies(ptr %to, ptr %from, i64 %n) {
; CHECK-LABEL: define void @copies(
; CHECK: call void @__nvm_prof_read(ptr %from, i64 %n)
; CHECK: call void @__nvm_prof_write(ptr %to, i64 %n)
; CHECK: call void @llvm.memcpy
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}
; As many bytes as the call says, which is known after it; none where it failed.
define void @reads(ptr %to, i64 %n) {
; CHECK-LABEL: define void @reads(
; CHECK: %[[R:.*]] = notail call i64 @read(
; CHECK: %[[B:.*]] = call i64 @llvm.smax.i64(i64 %[[R]], i64 0)
; CHECK: call void @__nvm_prof_write(ptr %to, i64 %[[B]])
  %r = notail call i64 @read(i32 0, ptr %to, i64 %n)
  ret void
}
; A text that is read is looked at before the call, one that is written after it.
define void @texts(ptr %a, ptr %b) {
; CHECK-LABEL: define void @texts(
; CHECK: call void @__nvm_prof_read_text(ptr %a)
; CHECK: call i64 @strlen(ptr %a)
; CHECK: notail call ptr @fgets(ptr %b
; CHECK: call void @__nvm_prof_write_text(ptr %b)
  %n = call i64 @strlen(ptr %a)
  %r = call ptr @fgets(ptr %b, i32 100, ptr null)
  ret void
}
; What libc.unsafe says: 144 bytes.
define void @described(ptr %name, ptr %to) {
; CHECK-LABEL: define void @described(
; CHECK: call void @__nvm_prof_write(ptr %to, i64 144)
; CHECK: notail call i32 @stat(
  %r = call i32 @stat(ptr %name, ptr %to)
  ret void
}

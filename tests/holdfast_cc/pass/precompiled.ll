; Functions of the C library are logged for, by what libc.unsafe says; lengths are asked for after the guard only.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @copy(
; CHECK: br i1
; CHECK: %[[L:.*]] = call i64 @strlen(ptr %s)
; CHECK: %[[N:.*]] = call i64 @llvm.uadd.sat.i64(i64 %[[L]], i64 1)
; CHECK: call void @__nvm_log(ptr %d, i64 %[[N]])
; CHECK: call ptr @strcpy
define void @copy(ptr %d, ptr %s) {
  %x = call ptr @strcpy(ptr %d, ptr %s)
  ret void
}
; CHECK-LABEL: define void @append(
; CHECK: %[[O:.*]] = call i64 @strlen(ptr %d)
; CHECK: %[[E:.*]] = getelementptr i8, ptr %d, i64 %[[O]]
; CHECK: call void @__nvm_log(ptr %[[E]], i64 %{{.*}})
; CHECK: call ptr @strcat
define void @append(ptr %d, ptr %s) {
  %x = call ptr @strcat(ptr %d, ptr %s)
  ret void
}
; CHECK-LABEL: define void @to_a_variable(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @to_a_variable(ptr %s) {
  %a = alloca [64 x i8]
  %x = call ptr @strcpy(ptr %a, ptr %s)
  ret void
}
; CHECK-LABEL: define void @from_a_file(
; CHECK: call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %n, i64 %m)
; CHECK: %[[R:.*]] = call i64 @__nvm_room(ptr %d, i64
; CHECK: call void @__nvm_log(ptr %d, i64 %[[R]])
; CHECK: call i64 @fread
define void @from_a_file(ptr %d, i64 %n, i64 %m, ptr %f) {
  %x = call i64 @fread(ptr %d, i64 %n, i64 %m, ptr %f)
  ret void
}
; A format is looked at where it may store.
; CHECK-LABEL: define void @formats(
; CHECK-NOT: call void (ptr, ptr, ...) @__nvm_written_printf
; CHECK: %[[P:.*]] = call i64 (ptr, ...) @__nvm_printed(ptr @plain, i32 %n)
; CHECK: call i64 @llvm.umin.i64(i64 %room,
; CHECK: call i32 (ptr, i64, ptr, ...) @snprintf
; CHECK: call void (ptr, ptr, ...) @__nvm_written_printf(ptr null, ptr @counts, ptr %d)
; CHECK: call i32 (ptr, ...) @printf(ptr @counts
; CHECK: call void (ptr, ptr, ...) @__nvm_written_scanf(ptr null, ptr @plain, ptr %d)
; CHECK: call i32 (ptr, ptr, ...) @__isoc99_sscanf
; CHECK-NOT: __nvm_written_scanf
; CHECK: ret void
define void @formats(ptr %d, i64 %room, i32 %n, ptr %s) {
  %a = alloca i32
  %x = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %d, i64 %room, ptr @plain, i32 %n)
  %y = call i32 (ptr, ...) @printf(ptr @counts, ptr %d)
  %z = call i32 (ptr, ptr, ...) @__isoc99_sscanf(ptr %s, ptr @plain, ptr %d)
  %w = call i32 (ptr, ptr, ...) @__isoc99_sscanf(ptr %s, ptr @plain, ptr %a)
  ret void
}
; What stands in memory, NULL or not; a function that is called without its prototype.
; CHECK-LABEL: define void @in_memory(
; CHECK: %[[N:.*]] = icmp eq ptr %p, null
; CHECK: %[[A:.*]] = select i1 %[[N]], ptr @__nvm_zero, ptr %p
; CHECK: load i64, ptr %[[A]]
; CHECK: call i64 @getline
; CHECK: call void @__nvm_log(ptr %d, i64 %n)
; CHECK: call i32 (...) @memset
define void @in_memory(ptr %p, ptr %l, ptr %f, ptr %d, i64 %n) {
  %x = call i64 @getline(ptr %p, ptr %l, ptr %f)
  %y = call i32 (...) @memset(ptr %d, i32 0, i64 %n)
  ret void
}
@plain = private constant [3 x i8] c"%d\00"
@counts = private constant [6 x i8] c"%%n%n\00"
declare ptr @memset(ptr, i32, i64)
declare i64 @getline(ptr, ptr, ptr)
declare i32 @snprintf(ptr, i64, ptr, ...)
declare i32 @printf(ptr, ...)
declare i32 @__isoc99_sscanf(ptr, ptr, ...)
declare ptr @strcpy(ptr, ptr)
declare ptr @strcat(ptr, ptr)
declare i64 @fread(ptr, i64, i64, ptr)

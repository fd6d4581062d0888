; Functions of the C library are logged for, by what libc.unsafe says; lengths are asked for behind the guard only.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @copy(
; CHECK: br i1
; CHECK: %[[L:.*]] = call i64 @strlen(ptr %s)
; CHECK: %[[N:.*]] = add i64 %[[L]], 1
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
; CHECK: %[[M:.*]] = mul i64 %n, %m
; CHECK: call void @__nvm_log(ptr %d, i64 %[[M]])
; CHECK: call i64 @fread
define void @from_a_file(ptr %d, i64 %n, i64 %m, ptr %f) {
  %x = call i64 @fread(ptr %d, i64 %n, i64 %m, ptr %f)
  ret void
}
declare ptr @strcpy(ptr, ptr)
declare ptr @strcat(ptr, ptr)
declare i64 @fread(ptr, i64, i64, ptr)

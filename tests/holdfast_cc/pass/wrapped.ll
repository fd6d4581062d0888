; Where the address of a precompiled function that writes is taken, a function takes its place that logs and calls it.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK: $__nvm_safe_strcpy = comdat any
; CHECK: @table = global [2 x ptr] [ptr @__nvm_safe_strcpy, ptr @strlen]
@table = global [2 x ptr] [ptr @strcpy, ptr @strlen]
; CHECK-LABEL: define ptr @chosen(
; CHECK: select i1 %c, ptr @__nvm_safe_strcpy, ptr @other
define ptr @chosen(i1 %c) {
  %f = select i1 %c, ptr @strcpy, ptr @other
  ret ptr %f
}
; CHECK-LABEL: define void @given(
; CHECK: call void @other(ptr @__nvm_safe_strcpy)
define void @given() {
  call void @other(ptr @strcpy)
  ret void
}
; Called by its name it stays as it is.
; CHECK-LABEL: define void @called(
; CHECK: call ptr @strcpy
define void @called(ptr %d, ptr %s) {
  %x = call ptr @strcpy(ptr %d, ptr %s)
  ret void
}
; CHECK-LABEL: define linkonce_odr ptr @__nvm_safe_strcpy(
; CHECK: call i64 @strlen
; CHECK: call void @__nvm_log(ptr %0
; CHECK: call ptr @strcpy(ptr %0, ptr %1)
; CHECK: ret ptr
declare ptr @strcpy(ptr, ptr)
declare i64 @strlen(ptr)
declare void @other(ptr)

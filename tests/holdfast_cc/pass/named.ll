; A function of the program is logged for whatever its name is: only calls of the library's own functions are left alone.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @nvm_of_the_program(
; CHECK: call void @__nvm_log(ptr %p, i64 8)
define void @nvm_of_the_program(ptr %p) {
  store i64 7, ptr %p
  ret void
}
; What it is called for may end a transaction.
; CHECK-LABEL: define void @caller(
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: call void @nvm_of_the_program
; CHECK: call void @__nvm_log(ptr %p, i64 8)
define void @caller(ptr %p) {
  store i64 1, ptr %p
  call void @nvm_of_the_program(ptr %p)
  store i64 2, ptr %p
  ret void
}

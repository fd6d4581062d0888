; A function that only the program declares may be its own, with a name of the C library: what memory says is not looked
; at, and afterwards nothing is known of transactions.  What does not fit is not described at all.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @own(
; CHECK-NOT: __nvm_written
; CHECK: call void (ptr, ...) @warn(ptr %p)
; CHECK-NOT: load
; CHECK: call i32 @insque(i64 5, i64 6)
; CHECK: call i64 @__nvm_room(ptr %p, i64 %n)
; CHECK: call i64 @read(i32 0, ptr %p, i64 %n)
define void @own(ptr %p, i64 %n) {
  call void (ptr, ...) @warn(ptr %p)
  %x = call i32 @insque(i64 5, i64 6)
  %y = call i64 @read(i32 0, ptr %p, i64 %n)
  ret void
}
; CHECK-LABEL: define void @twice(
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: call void (ptr, ...) @warn(ptr %p)
; CHECK: call void @__nvm_log(ptr %p, i64 8)
define void @twice(ptr %p) {
  store i64 1, ptr %p
  call void (ptr, ...) @warn(ptr %p)
  store i64 2, ptr %p
  ret void
}
declare void @warn(ptr, ...) #0
declare i32 @insque(i64, i64) #0
declare i64 @read(i32, ptr, i64) #0
attributes #0 = { "llvm.assume"="nvm_program" }

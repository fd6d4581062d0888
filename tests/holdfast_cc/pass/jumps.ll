; setjmp: what is open is remembered; when it returns again the run-time comes back to that.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define i32 @lands(
; CHECK: %[[M:.*]] = alloca [9 x i64]
; CHECK: call void @__nvm_jump_mark(ptr %[[M]])
; CHECK: call void @__nvm_log(ptr %b, i64 200)
; CHECK: %r = call i32 @_setjmp(ptr %b)
; CHECK: %[[A:.*]] = icmp ne i32 %r, 0
; CHECK: br i1 %[[A]]
; CHECK: call void @__nvm_jump_landed(ptr %[[M]], ptr @__nvm_site
; What was logged before the jump is not known to be logged when it lands.
; CHECK: call void @__nvm_log(ptr %p, i64 8)
define i32 @lands(ptr %b, ptr %p) {
  store i64 1, ptr %p
  %r = call i32 @_setjmp(ptr %b) returns_twice
  store i64 2, ptr %p
  ret i32 %r
}
declare i32 @_setjmp(ptr) returns_twice

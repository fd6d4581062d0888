; What inline assembly names as an output in memory is a store like another.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @named(
; CHECK: call void @__nvm_log(ptr %p, i64 4)
; CHECK: call void asm
define void @named(ptr %p) {
  call void asm sideeffect "incl $0", "=*m,*m,~{flags}"(ptr elementtype(i32) %p, ptr elementtype(i32) %p)
  ret void
}
; CHECK-LABEL: define void @barrier(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @barrier(ptr %p) {
  call void asm sideeffect "", "~{memory},~{dirflag},~{fpsr},~{flags}"()
  ret void
}
; CHECK-LABEL: define void @variable(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @variable() {
  %a = alloca i32
  call void asm sideeffect "incl $0", "=*m,*m,~{flags}"(ptr elementtype(i32) %a, ptr elementtype(i32) %a)
  ret void
}
; It says that it writes other memory: the objects around the addresses that it gets, also where they are numbers.
; CHECK-LABEL: define void @anywhere(
; CHECK: call void @__nvm_log_object(ptr %p)
; CHECK: inttoptr i64 %n to ptr
; CHECK: call void @__nvm_log_object(
; CHECK: call void asm
define void @anywhere(ptr %p, i64 %n) {
  call void asm sideeffect "movl $$1, ($0)", "r,r,~{memory},~{flags}"(ptr %p, i64 %n)
  ret void
}

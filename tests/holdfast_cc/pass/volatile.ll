; Variables and fresh memory of malloc cannot be durable; a choice between one of them and anything can.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

@g = global i64 0
; CHECK-LABEL: define void @variables(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @variables(i1 %c) {
  %a = alloca [4 x i64]
  %b = alloca i64
  %p = getelementptr [4 x i64], ptr %a, i64 0, i64 2
  store i64 1, ptr %p
  store i64 2, ptr @g
  %m = call noalias ptr @malloc(i64 16)
  %q = getelementptr i8, ptr %m, i64 8
  store i64 3, ptr %q
  %r = select i1 %c, ptr %a, ptr %b
  store i64 4, ptr %r
  ret void
}
; CHECK-LABEL: define void @either(
; CHECK: call void @__nvm_log(ptr %r, i64 8)
define void @either(i1 %c, ptr %p) {
  %a = alloca i64
  %r = select i1 %c, ptr %a, ptr %p
  store i64 4, ptr %r
  ret void
}
; CHECK-LABEL: define void @heap(
; CHECK: call void @__nvm_log(ptr %n, i64 8)
define void @heap(ptr %pool, i64 %size) {
  %n = call ptr @nvm_alloc(ptr %pool, i32 1, i64 %size)
  store i64 4, ptr %n
  ret void
}
declare noalias ptr @malloc(i64) allockind("alloc,uninitialized") allocsize(0) "alloc-family"="malloc"
declare ptr @nvm_alloc(ptr, i32, i64)

; OPTIONS: -nvm-log-check
; A checked build: each store with its place, also those whose log call was left out; pointers; functions whose code is
; elsewhere.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @dominated(
; CHECK: call void @__nvm_log_at(ptr %p, i64 8, ptr @__nvm_site
; CHECK: store i64 1
; CHECK: call void @__nvm_expect_logged(ptr %p, i64 4, ptr @__nvm_site
; CHECK: store i32 2
define void @dominated(ptr %p, i1 %c) {
  store i64 1, ptr %p
  br i1 %c, label %a, label %b
a:
  store i32 2, ptr %p
  br label %b
b:
  ret void
}
; CHECK-LABEL: define void @volatile(
; CHECK: call void @__nvm_expect_volatile(ptr %v, ptr @__nvm_site
define void @volatile(i64 %n) {
  %v = alloca i64
  store i64 %n, ptr %v
  call void @elsewhere(ptr %v)
  ret void
}
; CHECK-LABEL: define void @watched(
; CHECK: %[[W:.*]] = call ptr @__nvm_watch(ptr %p, i64 0)
; CHECK: call void @elsewhere(ptr %p)
; CHECK: call void @__nvm_watched(ptr %[[W]], ptr @{{.*}}, ptr @__nvm_site
define void @watched(ptr %p) {
  call void @elsewhere(ptr %p)
  ret void
}
; Also where it may throw, through a pointer, and what a variable points to.
; CHECK-LABEL: define void @watched_elsewhere(
; CHECK: call ptr @__nvm_watch(ptr %p, i64 0)
; CHECK: invoke void @elsewhere(ptr %p)
; CHECK: call void @__nvm_watched(
; CHECK: call ptr @__nvm_watch(ptr %v, i64 16)
; CHECK: call void %f(ptr %v)
; CHECK: call void @__nvm_watched(
define void @watched_elsewhere(ptr %p, ptr %f) personality ptr @personality {
  %v = alloca { ptr, i64 }
  invoke void @elsewhere(ptr %p) to label %on unwind label %out
on:
  call void %f(ptr %v)
  ret void
out:
  %l = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %l
}
; What nobody can say is reported where it is durable.
; CHECK-LABEL: define void @refused(
; CHECK: call void @__nvm_refused(ptr %p, ptr @{{.*}}, ptr @__nvm_site
; CHECK: call i32 @putenv
define void @refused(ptr %p) {
  %x = call i32 @putenv(ptr %p)
  ret void
}
declare i32 @putenv(ptr)
declare i32 @personality(...)
declare void @elsewhere(ptr)

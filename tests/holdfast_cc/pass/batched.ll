; Stores of a straight line to bytes that do not touch share one call, where their addresses are known before the first.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @two(
; CHECK: %[[L:.*]] = alloca [2 x { ptr, i64 }]
; CHECK: %[[P:.*]] = icmp eq i64 %{{.*}}, 1
; CHECK: %[[Q:.*]] = icmp eq i64 %{{.*}}, 1
; CHECK: %[[E:.*]] = or i1 %[[P]], %[[Q]]
; CHECK: br i1 %[[E]]
; CHECK: call void @__nvm_log_many(ptr %[[L]], i64 2)
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @two(ptr %p, ptr %q) {
  store i64 1, ptr %p
  store i64 2, ptr %q
  ret void
}
; One guard for fields of one object.
; CHECK-LABEL: define void @gap(
; CHECK: icmp eq
; CHECK-NOT: icmp eq
; CHECK: call void @__nvm_log_many(ptr %{{.*}}, i64 2)
; CHECK: ret void
define void @gap(ptr %p) {
  %c = getelementptr i8, ptr %p, i64 16
  store i64 2, ptr %p
  store i64 3, ptr %c
  ret void
}
; The second address is known only after the first store.
; CHECK-LABEL: define void @late(
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: load ptr
; CHECK: call void @__nvm_log(ptr %q, i64 8)
; CHECK: ret void
define void @late(ptr %p, ptr %where) {
  store i64 1, ptr %p
  %q = load ptr, ptr %where
  store i64 2, ptr %q
  ret void
}
; The second store is not certain.
; CHECK-LABEL: define void @interrupted(
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: call void @anything()
; CHECK: call void @__nvm_log(ptr %q, i64 8)
define void @interrupted(ptr %p, ptr %q) {
  store i64 1, ptr %p
  call void @anything()
  store i64 2, ptr %q
  ret void
}
declare void @anything()

; A counted loop that fills memory is logged as one range before it; one that may stop early, or skips, is not.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @fill(
; CHECK: entry:
; CHECK: call void @__nvm_log(ptr %p, i64 800)
; CHECK: body:
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @fill(ptr %p) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %at = getelementptr i64, ptr %p, i64 %i
  store i64 %i, ptr %at
  %next = add nuw nsw i64 %i, 1
  %more = icmp ne i64 %next, 100
  br i1 %more, label %body, label %end
end:
  ret void
}
; CHECK-LABEL: define void @every_other(
; CHECK: body:
; CHECK: call void @__nvm_log(ptr %at, i64 8)
define void @every_other(ptr %p) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %at = getelementptr [2 x i64], ptr %p, i64 %i
  store i64 %i, ptr %at
  %next = add nuw nsw i64 %i, 1
  %more = icmp ne i64 %next, 100
  br i1 %more, label %body, label %end
end:
  ret void
}
; CHECK-LABEL: define void @sometimes(
; CHECK: yes:
; CHECK: call void @__nvm_log(ptr %at, i64 8)
define void @sometimes(ptr %p, ptr %q) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %v = load i8, ptr %q
  %c = icmp eq i8 %v, 0
  br i1 %c, label %yes, label %latch
yes:
  %at = getelementptr i64, ptr %p, i64 %i
  store i64 %i, ptr %at
  br label %latch
latch:
  %next = add nuw nsw i64 %i, 1
  %more = icmp ne i64 %next, 100
  br i1 %more, label %body, label %end
end:
  ret void
}
; Each turn waits for the thread that has what it stores to.
; CHECK-LABEL: define void @with_an_acquire(
; CHECK: body:
; CHECK: load atomic
; CHECK: call void @__nvm_log(ptr %at, i64 8)
define void @with_an_acquire(ptr %p, ptr %q) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %v = load atomic i64, ptr %q acquire, align 8
  %at = getelementptr i64, ptr %p, i64 %i
  store i64 %v, ptr %at
  %next = add nuw nsw i64 %i, 1
  %more = icmp ne i64 %next, 100
  br i1 %more, label %body, label %end
end:
  ret void
}
; CHECK-LABEL: define void @with_a_call(
; CHECK: body:
; CHECK: call void @__nvm_log(ptr %at, i64 8)
define void @with_a_call(ptr %p) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  call void @anything()
  %at = getelementptr i64, ptr %p, i64 %i
  store i64 %i, ptr %at
  %next = add nuw nsw i64 %i, 1
  %more = icmp ne i64 %next, 100
  br i1 %more, label %body, label %end
end:
  ret void
}
declare void @anything()

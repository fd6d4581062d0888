; Each loop iteration and each entry of a function that calls others counts as a step.
declare void @g()
define void @loop(i64 %n) {
; CHECK-LABEL: define void @loop(
; CHECK: body:
; CHECK: %[[S:.*]] = load i64, ptr @__nvm_rec_steps
; CHECK: %[[L:.*]] = sub i64 %[[S]], 1
; CHECK: store i64 %[[L]], ptr @__nvm_rec_steps
; CHECK: icmp slt i64 %[[L]], 0
; CHECK: call void @__nvm_rec_step_limit()
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %j = add i64 %i, 1
  %c = icmp ult i64 %j, %n
  br i1 %c, label %body, label %end
end:
  ret void
}
define void @caller() {
; CHECK-LABEL: define void @caller(
; CHECK: @__nvm_rec_steps
; CHECK: call void @g()
  call void @g()
  ret void
}

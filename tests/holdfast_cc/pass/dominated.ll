; Bytes that are logged on every way here are not logged again, unless a call may have begun or ended a transaction.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

; CHECK-LABEL: define void @below(
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @below(ptr %p, i1 %c) {
  store i64 1, ptr %p
  br i1 %c, label %a, label %b
a:
  store i64 2, ptr %p
  br label %b
b:
  store i32 3, ptr %p
  ret void
}
; CHECK-LABEL: define void @one_way_only(
; CHECK: a:
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: b:
; CHECK: call void @__nvm_log(ptr %p, i64 4)
define void @one_way_only(ptr %p, i1 %c) {
  br i1 %c, label %a, label %b
a:
  store i64 2, ptr %p
  br label %b
b:
  store i32 3, ptr %p
  ret void
}
; CHECK-LABEL: define void @other_transaction(
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: call i32 @nvm_tx_commit
; CHECK: call i32 @nvm_tx_begin
; CHECK: call void @__nvm_log(ptr %p, i64 8)
define void @other_transaction(ptr %pool, ptr %p) {
  store i64 1, ptr %p
  %x = call i32 @nvm_tx_commit(ptr %pool)
  %y = call i32 @nvm_tx_begin(ptr %pool)
  store i64 2, ptr %p
  ret void
}
; A loop may come round with another transaction open.
; CHECK-LABEL: define void @in_a_loop(
; CHECK: body:
; CHECK: call void @__nvm_log(ptr %p, i64 8)
define void @in_a_loop(ptr %p, ptr %pool) {
  br label %body
body:
  store i64 1, ptr %p
  %x = call i32 @nvm_tx_commit(ptr %pool)
  %y = call i32 @nvm_tx_begin(ptr %pool)
  %again = icmp eq i32 %x, %y
  br i1 %again, label %body, label %end
end:
  ret void
}
; The block is its own predecessor: what was logged before the loop is not what each turn has logged.
; CHECK-LABEL: define void @in_a_loop_after_a_store(
; CHECK: entry:
; CHECK: call void @__nvm_log(ptr %p, i64 8)
; CHECK: body:
; CHECK: call void @__nvm_log(ptr %p, i64 8)
define void @in_a_loop_after_a_store(ptr %p, ptr %pool) {
entry:
  store i64 0, ptr %p
  br label %body
body:
  store i64 1, ptr %p
  %x = call i32 @nvm_tx_commit(ptr %pool)
  %y = call i32 @nvm_tx_begin(ptr %pool)
  %again = icmp eq i32 %x, %y
  br i1 %again, label %body, label %end
end:
  ret void
}
declare i32 @nvm_tx_begin(ptr)
declare i32 @nvm_tx_commit(ptr)

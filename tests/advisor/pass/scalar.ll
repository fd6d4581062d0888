; A load and a store are preceded by the comparison with the window and, under it, the call with address and size.
define i32 @f(ptr %p, ptr %q) {
; CHECK-LABEL: define i32 @f(
; CHECK: %[[A:.*]] = ptrtoint ptr %p to i64
; CHECK-NEXT: %[[O:.*]] = sub i64 %[[A]], 26388279066624
; CHECK-NEXT: %[[C:.*]] = icmp ult i64 %[[O]], 43980465111040
; CHECK-NEXT: br i1 %[[C]], label %[[IN:.*]], label %[[ON:.*]]
; CHECK: [[IN]]:
; CHECK-NEXT: call preserve_allcc void @__nvm_prof_load_4(ptr %p)
; CHECK: [[ON]]:
; CHECK-NEXT: load i32, ptr %p
; CHECK: call preserve_allcc void @__nvm_prof_store_2(ptr %q)
; CHECK: store i16 7, ptr %q
  %v = load i32, ptr %p
  store i16 7, ptr %q
  ret i32 %v
}

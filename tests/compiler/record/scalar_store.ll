; A scalar store is followed by the range check and, under it, the report of its address and size.
; CHECK: @nvm.site = private constant { ptr, ptr, i32, i32, i32, i32 } { ptr @nvm.text{{.*}}, ptr @nvm.text{{.*}}, i32 0, i32 0, i32 0, i32 0 }
define void @f(ptr %p, i32 %v) {
; CHECK-LABEL: define void @f(
; CHECK: store i32 %v, ptr %p
; CHECK-NEXT: %[[A:.*]] = ptrtoint ptr %p to i64
; CHECK-NEXT: %[[B:.*]] = load i64, ptr @__nvm_rec_base
; CHECK-NEXT: %[[O:.*]] = sub i64 %[[A]], %[[B]]
; CHECK-NEXT: %[[N:.*]] = load i64, ptr @__nvm_rec_bytes
; CHECK-NEXT: %[[C:.*]] = icmp ult i64 %[[O]], %[[N]]
; CHECK-NEXT: br i1 %[[C]], label %[[IN:.*]], label %{{.*}}, !prof
; CHECK: [[IN]]:
; CHECK-NEXT: call void @__nvm_rec_store(ptr %p, i64 4, ptr @nvm.site)
  store i32 %v, ptr %p
  ret void
}

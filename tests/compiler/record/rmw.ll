; A locked operation is reported wherever it is, because it orders write-backs; a failed exchange stores nothing.
; CHECK: @nvm.site = private constant {{.*}} i32 2, i32 0 }
define i64 @add(ptr %p) {
; CHECK-LABEL: define i64 @add(
; CHECK: %[[R:.*]] = atomicrmw add ptr %p, i64 1 seq_cst
; CHECK: %[[N:.*]] = load i64, ptr @__nvm_rec_bytes
; CHECK: icmp ne i64 %[[N]], 0
; CHECK: call void @__nvm_rec_rmw(ptr %p, i64 8, ptr @nvm.site)
  %r = atomicrmw add ptr %p, i64 1 seq_cst
  ret i64 %r
}
define i1 @exchange(ptr %p, i32 %a, i32 %b) {
; CHECK-LABEL: define i1 @exchange(
; CHECK: %[[X:.*]] = cmpxchg ptr %p, i32 %a, i32 %b acq_rel acquire
; CHECK: %[[OK:.*]] = extractvalue { i32, i1 } %[[X]], 1
; CHECK: %[[BYTES:.*]] = select i1 %[[OK]], i64 4, i64 0
; CHECK: call void @__nvm_rec_rmw(ptr %p, i64 %[[BYTES]],
  %x = cmpxchg ptr %p, i32 %a, i32 %b acq_rel acquire
  %ok = extractvalue { i32, i1 } %x, 1
  ret i1 %ok
}

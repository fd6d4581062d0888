; A read-modify-write is a load and a store; a compare-exchange stores where it succeeds.
define void @rmw(ptr %p) {
; CHECK-LABEL: define void @rmw(
; CHECK: call preserve_allcc void @__nvm_prof_load_8(ptr %p)
; CHECK: call preserve_allcc void @__nvm_prof_store_8(ptr %p)
; CHECK: atomicrmw
  %v = atomicrmw add ptr %p, i64 1 seq_cst
  ret void
}
define void @exchange(ptr %p) {
; CHECK-LABEL: define void @exchange(
; CHECK: call preserve_allcc void @__nvm_prof_load_4(ptr %p)
; CHECK: %[[X:.*]] = cmpxchg
; CHECK: %[[S:.*]] = extractvalue { i32, i1 } %[[X]], 1
; CHECK-NEXT: %[[B:.*]] = select i1 %[[S]], i64 4, i64 0
; CHECK: call preserve_allcc void @__nvm_prof_store(ptr %p, i64 %[[B]])
  %v = cmpxchg ptr %p, i32 0, i32 1 seq_cst seq_cst
  ret void
}

; Vector stores are reported in full width; a non-temporal one with bit 16 set.
; CHECK-DAG: @[[V:nvm.site.*]] = private constant {{.*}} i32 3, i32 0 }
; CHECK-DAG: @[[NT:nvm.site.*]] = private constant {{.*}} i32 19, i32 0 }
define void @f(ptr %p, <8 x i64> %v) {
; CHECK-LABEL: define void @f(
; CHECK: store <8 x i64> %v, ptr %p, align 64
; CHECK: call void @__nvm_rec_store(ptr %p, i64 64, ptr @[[V]])
; CHECK: store <8 x i64> %v, ptr %p, align 64, !nontemporal
; CHECK: call void @__nvm_rec_store(ptr %p, i64 64, ptr @[[NT]])
  store <8 x i64> %v, ptr %p, align 64
  store <8 x i64> %v, ptr %p, align 64, !nontemporal !0
  ret void
}
!0 = !{i32 1}

; A function annotated nvm_no_record is left alone; the run-time's own functions are, too.
@.str = private unnamed_addr constant [14 x i8] c"nvm_no_record\00", section "llvm.metadata"
@.file = private unnamed_addr constant [4 x i8] c"a.c\00", section "llvm.metadata"
@llvm.global.annotations = appending global [1 x { ptr, ptr, ptr, i32, ptr }] [{ ptr, ptr, ptr, i32, ptr } { ptr @quiet, ptr @.str, ptr @.file, i32 1, ptr null }], section "llvm.metadata"
define void @quiet(ptr %p) {
; CHECK-LABEL: define void @quiet(
; CHECK-NOT: __nvm_rec
; CHECK: ret void
  store i32 1, ptr %p
  ret void
}
define void @__nvm_rec_own(ptr %p) {
; CHECK-LABEL: define void @__nvm_rec_own(
; CHECK-NOT: call
; CHECK: ret void
  store i32 1, ptr %p
  ret void
}

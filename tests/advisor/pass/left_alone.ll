; Variables, globals and other address spaces are never allocated memory; a leaf keeps no record.
@g = global i32 0
define i32 @f(ptr addrspace(1) %far) {
; CHECK-LABEL: define i32 @f(
; CHECK-NOT: call
; CHECK-NOT: nvm.prof.frame
; CHECK: ret i32
  %x = alloca i32
  store i32 1, ptr %x
  store i32 2, ptr @g
  store i32 3, ptr addrspace(1) %far
  %v = load i32, ptr %x
  ret i32 %v
}
; CHECK-LABEL: define void @naked(
; CHECK-NEXT: store i32 1, ptr %p
define void @naked(ptr %p) naked {
  store i32 1, ptr %p
  ret void
}

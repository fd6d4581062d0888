; A function that makes calls keeps a record: the caller's, and the place of the call that is running. It is taken away
; where the function returns, and is the innermost one again where another function has been left in between.
; CHECK: @__nvm_prof_top = external thread_local(initialexec) global ptr
; CHECK: @nvm.prof.place = private constant {{.*}} section "nvm_prof_places", align 8
; CHECK: @llvm.global_ctors = {{.*}} @nvm.prof.announce
declare ptr @malloc(i64)
declare i32 @setjmp(ptr) returns_twice
declare i32 @__gxx_personality_v0(...)
define ptr @makes(i64 %n) {
; CHECK-LABEL: define ptr @makes(
; CHECK: %[[F:.*]] = alloca { ptr, ptr }
; CHECK: %[[T:.*]] = call {{.*}}ptr @llvm.threadlocal.address.p0(ptr {{.*}}@__nvm_prof_top)
; CHECK: %[[C:.*]] = load ptr, ptr %[[T]]
; CHECK: store ptr %[[C]], ptr %[[F]]
; CHECK: store ptr %[[F]], ptr %[[T]]
; CHECK: store ptr @nvm.prof.place, ptr %
; CHECK-NEXT: notail call ptr @malloc
; CHECK: %[[B:.*]] = load ptr, ptr %[[F]]
; CHECK: store ptr %[[B]], ptr %
; CHECK-NEXT: ret ptr
  %p = tail call ptr @malloc(i64 %n)
  ret ptr %p
}
define ptr @hands_on(i64 %n) {
; CHECK-LABEL: define ptr @hands_on(
; CHECK: store ptr @nvm.prof.place{{.*}}, ptr %
; CHECK-NEXT: %[[B:.*]] = load ptr, ptr %nvm.prof.frame
; CHECK: store ptr %[[B]]
; CHECK-NEXT: musttail call ptr @makes
; CHECK-NEXT: ret ptr
  %p = musttail call ptr @makes(i64 %n)
  ret ptr %p
}
define void @jumps(ptr %b) {
; CHECK-LABEL: define void @jumps(
; CHECK: call i32 @setjmp
; CHECK: store ptr %nvm.prof.frame, ptr %
; CHECK: ret void
  %r = call i32 @setjmp(ptr %b)
  ret void
}
define void @catches() personality ptr @__gxx_personality_v0 {
; CHECK-LABEL: define void @catches(
; CHECK: invoke ptr @malloc
; CHECK: landingpad
; CHECK: store ptr %nvm.prof.frame, ptr %
; CHECK: %[[B:.*]] = load ptr, ptr %nvm.prof.frame
; CHECK: resume
  %p = invoke ptr @malloc(i64 1) to label %good unwind label %bad
good:
  ret void
bad:
  %e = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %e
}

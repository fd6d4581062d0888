; Fields that need no log: stores to them alone are left out, what ends or lies outside of them is not.
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

@four = private constant [12 x i8] c"nvm_reset:4\00", section "llvm.metadata"
@stale = private constant [15 x i8] c"nvm_stale_ok:4\00", section "llvm.metadata"
@array = private constant [15 x i8] c"nvm_reset:16[]\00", section "llvm.metadata"
@bytes = private constant [15 x i8] c"nvm_reset:64[]\00", section "llvm.metadata"
@stale_array = private constant [18 x i8] c"nvm_stale_ok:16[]\00", section "llvm.metadata"
@open = private constant [32 x i8] c"nvm_reset:9223372036854775807[]\00", section "llvm.metadata"
@unknown = private constant [10 x i8] c"nvm_reset\00", section "llvm.metadata"
@file = private constant [2 x i8] c"f\00", section "llvm.metadata"

; CHECK-LABEL: define void @inside(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @inside(ptr %p, ptr %q, i64 %k) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @four, ptr @file, i32 1, ptr null)
  store i32 1, ptr %m
  %high = getelementptr i8, ptr %m, i64 2
  store i16 1, ptr %high
  %s = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @stale, ptr @file, i32 1, ptr null)
  store i32 1, ptr %s
  %a = call ptr @llvm.ptr.annotation.p0.p0(ptr %q, ptr @array, ptr @file, i32 1, ptr null)
  call void @llvm.memset.p0.i64(ptr %a, i8 0, i64 16, i1 false)
  %e = getelementptr [4 x i32], ptr %a, i64 0, i64 %k
  store i32 1, ptr %e
  %r = getelementptr i32, ptr %a, i64 %k
  store i32 1, ptr %r
  call void @llvm.memset.p0.i64(ptr %e, i8 0, i64 4, i1 false)
  call void @llvm.memset.p0.i64(ptr %r, i8 0, i64 4, i1 false)
  store <4 x i32> zeroinitializer, ptr %e
  ret void
}
; CHECK-LABEL: define void @over_the_end(
; CHECK: call void @__nvm_log(ptr %m, i64 8)
define void @over_the_end(ptr %p) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @four, ptr @file, i32 1, ptr null)
  call void @llvm.memset.p0.i64(ptr %m, i8 0, i64 8, i1 false)
  ret void
}
; CHECK-LABEL: define void @stale_over_the_end(
; CHECK: call void @__nvm_log(ptr %m, i64 8)
define void @stale_over_the_end(ptr %p) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @stale, ptr @file, i32 1, ptr null)
  call void @llvm.memset.p0.i64(ptr %m, i8 0, i64 8, i1 false)
  ret void
}
; CHECK-LABEL: define void @after(
; CHECK: call void @__nvm_log(ptr %{{[a-z0-9]+}}, i64 8)
define void @after(ptr %p) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @four, ptr @file, i32 1, ptr null)
  %v = getelementptr i8, ptr %m, i64 4
  store i64 1, ptr %v
  ret void
}
; CHECK-LABEL: define void @before(
; CHECK: call void @__nvm_log(ptr %{{[a-z0-9]+}}, i64 4)
define void @before(ptr %p) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @four, ptr @file, i32 1, ptr null)
  %v = getelementptr i8, ptr %m, i64 -4
  store i32 1, ptr %v
  ret void
}
; CHECK-LABEL: define void @somewhere(
; CHECK: call void @__nvm_log(ptr %{{[a-z0-9]+}}, i64 1)
define void @somewhere(ptr %p, i64 %k) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @four, ptr @file, i32 1, ptr null)
  %v = getelementptr i8, ptr %m, i64 %k
  store i8 1, ptr %v
  ret void
}
; CHECK-LABEL: define void @from_an_element(
; CHECK: call void @__nvm_log(ptr %e, i64 8)
define void @from_an_element(ptr %p, i64 %k) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @array, ptr @file, i32 1, ptr null)
  %e = getelementptr [4 x i32], ptr %m, i64 0, i64 %k
  call void @llvm.memset.p0.i64(ptr %e, i8 0, i64 8, i1 false)
  ret void
}
; CHECK-LABEL: define void @around_an_element(
; CHECK: call void @__nvm_log(ptr %{{[a-z0-9]+}}, i64 4)
define void @around_an_element(ptr %p, i64 %k) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @array, ptr @file, i32 1, ptr null)
  %e = getelementptr [4 x i32], ptr %m, i64 0, i64 %k
  %v = getelementptr i8, ptr %e, i64 16
  store i32 1, ptr %v
  ret void
}
; CHECK-LABEL: define void @of_unknown_size(
; CHECK: call void @__nvm_log(ptr %m, i64 4)
define void @of_unknown_size(ptr %p) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @unknown, ptr @file, i32 1, ptr null)
  store i32 1, ptr %m
  ret void
}
; CHECK-LABEL: define void @in_arrays(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @in_arrays(ptr %p, ptr %q, ptr %r, i64 %k, i64 %j) {
  %a = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @bytes, ptr @file, i32 1, ptr null)
  %byte = getelementptr [64 x i8], ptr %a, i64 0, i64 %k
  store i8 1, ptr %byte
  store <16 x i8> zeroinitializer, ptr %byte
  %row = getelementptr [4 x [4 x i32]], ptr %a, i64 0, i64 %k
  %cell = getelementptr [4 x i32], ptr %row, i64 0, i64 %j
  store i32 1, ptr %cell
  %s = getelementptr [4 x { i64, i32, i32 }], ptr %a, i64 0, i64 %k, i32 2
  store i32 1, ptr %s
  %o = call ptr @llvm.ptr.annotation.p0.p0(ptr %q, ptr @open, ptr @file, i32 1, ptr null)
  %ob = getelementptr [0 x i8], ptr %o, i64 0, i64 %k
  store i8 1, ptr %ob
  %or = getelementptr [0 x [4 x i32]], ptr %o, i64 0, i64 %k
  %oc = getelementptr [4 x i32], ptr %or, i64 0, i64 %j
  store i32 1, ptr %oc
  ret void
}
; CHECK-LABEL: define void @in_turns(
; CHECK-NOT: __nvm_log
; CHECK: ret void
define void @in_turns(ptr %p, i64 %n) {
  %a = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @bytes, ptr @file, i32 1, ptr null)
  br label %loop
loop:
  %k = phi i64 [ 0, %0 ], [ %next, %loop ]
  %e = getelementptr [16 x i32], ptr %a, i64 0, i64 %k
  store <4 x i32> zeroinitializer, ptr %e
  %further = getelementptr i8, ptr %e, i64 16
  store <4 x i32> zeroinitializer, ptr %further
  %next = add nuw i64 %k, 8
  %all = icmp eq i64 %next, %n
  br i1 %all, label %done, label %loop
done:
  ret void
}
; The structure around an element whose index is no constant: the way back may have any length.
; CHECK-LABEL: define void @back_by_bytes(
; CHECK: call void @__nvm_log(ptr %v, i64 1)
define void @back_by_bytes(ptr %p, i64 %k, i64 %back) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @array, ptr @file, i32 1, ptr null)
  %e = getelementptr [4 x i32], ptr %m, i64 0, i64 %k
  %v = getelementptr i8, ptr %e, i64 %back
  store i8 1, ptr %v
  ret void
}
; CHECK-LABEL: define void @stale_back_by_bytes(
; CHECK: call void @__nvm_log(ptr %v, i64 1)
define void @stale_back_by_bytes(ptr %p, i64 %k, i64 %back) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @stale_array, ptr @file, i32 1, ptr null)
  %e = getelementptr [4 x i32], ptr %m, i64 0, i64 %k
  %v = getelementptr i8, ptr %e, i64 %back
  store i8 1, ptr %v
  ret void
}
; CHECK-LABEL: define void @back_to_a_long_one(
; CHECK: call void @__nvm_log(ptr %v, i64 16)
define void @back_to_a_long_one(ptr %p, i64 %k, i64 %back) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @array, ptr @file, i32 1, ptr null)
  %e = getelementptr [4 x i32], ptr %m, i64 0, i64 %k
  %v = getelementptr i8, ptr %e, i64 %back
  store i128 1, ptr %v
  ret void
}
; CHECK-LABEL: define void @back_to_some_words(
; CHECK: call void @__nvm_log(ptr %v, i64 16)
define void @back_to_some_words(ptr %p, i64 %k, i64 %back) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @array, ptr @file, i32 1, ptr null)
  %e = getelementptr i32, ptr %m, i64 %k
  %v = getelementptr i32, ptr %e, i64 %back
  store <2 x i64> zeroinitializer, ptr %v
  ret void
}
; CHECK-LABEL: define void @some_byte_of_an_array(
; CHECK: call void @__nvm_log(ptr %v, i64 1)
define void @some_byte_of_an_array(ptr %p, i64 %k) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @array, ptr @file, i32 1, ptr null)
  %v = getelementptr i8, ptr %m, i64 %k
  store i8 1, ptr %v
  ret void
}
; From an element that is the third one, as the program knows: the field after the array.
; CHECK-LABEL: define void @from_a_known_element(
; CHECK: call void @__nvm_log(ptr %{{[a-z0-9]+}}, i64 4)
define void @from_a_known_element(ptr %p, i64 %k) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @array, ptr @file, i32 1, ptr null)
  %e = getelementptr [4 x i32], ptr %m, i64 0, i64 %k
  %v = getelementptr i8, ptr %e, i64 8
  store i32 1, ptr %v
  ret void
}
; CHECK-LABEL: define void @a_long_one_from_a_known_element(
; CHECK: call void @__nvm_log(ptr %{{[a-z0-9]+}}, i64 16)
define void @a_long_one_from_a_known_element(ptr %p, i64 %k) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @bytes, ptr @file, i32 1, ptr null)
  %e = getelementptr [16 x i32], ptr %m, i64 0, i64 %k
  %v = getelementptr i8, ptr %e, i64 32
  store i128 1, ptr %v
  ret void
}
; CHECK-LABEL: define void @words_from_a_known_element(
; CHECK: call void @__nvm_log(ptr %{{[a-z0-9]+}}, i64 16)
define void @words_from_a_known_element(ptr %p, i64 %k) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @bytes, ptr @file, i32 1, ptr null)
  %e = getelementptr [16 x i32], ptr %m, i64 0, i64 %k
  %v = getelementptr i8, ptr %e, i64 32
  store <2 x i64> zeroinitializer, ptr %v
  ret void
}
; CHECK-LABEL: define void @ints_from_a_known_element(
; CHECK: call void @__nvm_log(ptr %{{[a-z0-9]+}}, i64 16)
define void @ints_from_a_known_element(ptr %p, i64 %k) {
  %m = call ptr @llvm.ptr.annotation.p0.p0(ptr %p, ptr @bytes, ptr @file, i32 1, ptr null)
  %e = getelementptr [16 x i32], ptr %m, i64 0, i64 %k
  %v = getelementptr i8, ptr %e, i64 32
  store <4 x i32> zeroinitializer, ptr %v
  ret void
}
declare ptr @llvm.ptr.annotation.p0.p0(ptr, ptr, ptr, i32, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

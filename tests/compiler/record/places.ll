; The site names the innermost place that is not in a system header, with its function.
; CHECK-DAG: c"src/own.cpp\00"
; CHECK-DAG: c"outer\00"
; CHECK: @nvm.site = private constant { ptr, ptr, i32, i32, i32, i32 } { {{.*}}, i32 12, i32 5, i32 0, i32 0 }
define void @outer(ptr %p) !dbg !5 {
  store i32 1, ptr %p, !dbg !9
  ret void, !dbg !10
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!3}
!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus_14, file: !1, isOptimized: true, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "src/own.cpp", directory: "/")
!2 = !DIFile(filename: "/usr/include/c++/12/bits/atomic_base.h", directory: "")
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = !DISubroutineType(types: !{})
!5 = distinct !DISubprogram(name: "outer", scope: !1, file: !1, line: 10, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!6 = distinct !DISubprogram(name: "store", scope: !2, file: !2, line: 400, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!8 = distinct !DILocation(line: 12, column: 5, scope: !5)
!9 = !DILocation(line: 404, column: 2, scope: !6, inlinedAt: !8)
!10 = !DILocation(line: 13, column: 1, scope: !5)

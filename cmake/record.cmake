# Record mode: code compiled with our pass reports each of its stores, flushes and fences.
#
# The pass is a plugin for Clang 19, built first by src/compiler/pass as the MODULE target
# nvm_record_pass. A target asks for instrumentation by name; nothing else is instrumented, so the
# explorer itself is not.
#
# An inline function compiled both with and without the pass is one symbol to the linker, which
# keeps either. Hence code that is not instrumented must not instantiate the core's templates when
# it is linked into a recorded program.

# Plugins, known before they are built so that objects can depend on the files. The second one records
# loads and atomic accesses too, for tests that schedule threads.
set(HOLDFAST_RECORD_PASS ${CMAKE_BINARY_DIR}/plugin/nvm_record_pass.so)
set(HOLDFAST_RECORD_LOADS_PASS ${CMAKE_BINARY_DIR}/plugin/nvm_record_loads_pass.so)

# Adds the folder that builds the plugin.
macro(holdfast_add_record_pass)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR NOT CMAKE_CXX_COMPILER_VERSION MATCHES "^19\\.")
    message(FATAL_ERROR "NVM_RECORD needs Clang 19, found ${CMAKE_CXX_COMPILER_ID} "
      "${CMAKE_CXX_COMPILER_VERSION}; use `cmake --preset record`")
  endif()
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/compiler/pass/CMakeLists.txt)
    find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19)
    add_subdirectory(src/compiler/pass)
    if(TARGET nvm_record_pass)
      set_target_properties(nvm_record_pass PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugin PREFIX "" OUTPUT_NAME nvm_record_pass)
    endif()
  endif()
endmacro()

# holdfast_instrument(<target> [LOADS]): compiles all sources of an existing target with the pass.
function(holdfast_instrument target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LOADS" "" "")
  if(NOT TARGET nvm_record_pass)
    message(FATAL_ERROR "holdfast_instrument(${target}): there is no target nvm_record_pass; "
      "configure with NVM_RECORD=ON")
  endif()
  set(pass ${HOLDFAST_RECORD_PASS})
  if(arg_LOADS)
    set(pass ${HOLDFAST_RECORD_LOADS_PASS})
  endif()
  cmake_path(GET pass STEM plugin)
  add_dependencies(${target} ${plugin})
  # Line tables name the source line of each recorded store.
  target_compile_options(${target} PRIVATE -fpass-plugin=${pass} -g1)
  target_compile_definitions(${target} PRIVATE NVM_RECORDED=1)
  # A changed plugin makes every object stale: for ninja by the dependencies that the compiler writes, since a source
  # may be compiled by both plugins in one folder, and for the compiler cache.
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fdepfile-entry=${pass}")
  if(HOLDFAST_CCACHE)
    set(launcher ${HOLDFAST_CACHE_ENVIRONMENT} CCACHE_EXTRAFILES=${pass} ${HOLDFAST_CCACHE})
    set_target_properties(${target} PROPERTIES
      C_COMPILER_LAUNCHER "${launcher}" CXX_COMPILER_LAUNCHER "${launcher}")
  endif()
endfunction()

# holdfast_recorded_library(<name> LAYERS <layer>... [LINK <library>...] [LOADS])
#
# A static library with the sources of these layers compiled once more, instrumented. A test program
# links it in place of the plain holdfast_<layer> targets, and calls holdfast_instrument() on itself.
function(holdfast_recorded_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LOADS" "" "LAYERS;LINK")
  holdfast_layer_sources(files ${arg_LAYERS})
  if(NOT files)
    message(FATAL_ERROR "holdfast_recorded_library(${name}): no sources in ${arg_LAYERS}")
  endif()
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${files})
  holdfast_read_layers_as_one(${name} ${arg_LAYERS})
  target_link_libraries(${name} PUBLIC holdfast_headers Threads::Threads ${arg_LINK})
  set(loads "")
  if(arg_LOADS)
    set(loads LOADS)
  endif()
  holdfast_instrument(${name} ${loads})
endfunction()

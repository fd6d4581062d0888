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

# Headers that most instrumented sources begin with, compiled once. Reading them takes half of a compiler's time.
function(holdfast_add_recorded_headers)
  if(NOT HOLDFAST_TESTS)
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/recorded_headers.cpp CONTENT "")
  add_library(holdfast_recorded_headers OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/recorded_headers.cpp)
  target_link_libraries(holdfast_recorded_headers PRIVATE holdfast_headers GTest::gtest Threads::Threads)
  target_compile_options(holdfast_recorded_headers PRIVATE -g1)
  target_compile_definitions(holdfast_recorded_headers PRIVATE NVM_RECORDED=1)
  target_precompile_headers(holdfast_recorded_headers PRIVATE <gtest/gtest.h> <algorithm> <array> <atomic> <cstdio> <cstdlib>
    <cstring> <functional> <map> <memory> <mutex> <optional> <set> <span> <string> <thread> <vector>
    ${CMAKE_SOURCE_DIR}/src/explore/explore.hpp ${CMAKE_SOURCE_DIR}/src/tx/tx.hpp)
  holdfast_cache_with_headers(holdfast_recorded_headers)
endfunction()

# holdfast_instrument(<target> [LOADS] [ALONE]): compiles all sources of an existing target with the pass. ALONE: with
# options of its own, so that it has no headers in common with others.
function(holdfast_instrument target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LOADS;ALONE" "" "")
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
  if(TARGET holdfast_recorded_headers AND NOT arg_ALONE)
    target_precompile_headers(${target} REUSE_FROM holdfast_recorded_headers)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>)
  endif()
  if(HOLDFAST_CCACHE)
    set(launcher ${HOLDFAST_CACHE_ENVIRONMENT} CCACHE_EXTRAFILES=${pass} CCACHE_SLOPPINESS=pch_defines,time_macros
      ${HOLDFAST_CCACHE})
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

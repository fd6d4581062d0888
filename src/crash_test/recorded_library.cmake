# libholdfast_record.so: the library once more, compiled by Clang with the recording pass, and the run-time that writes
# the trace.  `holdfast-cc -fnvm-record` links it in place of libholdfast.so.
#
# The compiler of this build may be another one, hence custom commands.  The run-time goes without the pass: it must not
# report itself.
find_program(HOLDFAST_CLANGXX_19 NAMES clang++-19 HINTS /usr/lib/llvm-19/bin)
if(NOT TARGET nvm_record_pass OR NOT HOLDFAST_CLANGXX_19 OR NVM_RECORD)
  message(STATUS "libholdfast_record is not built: it needs clang-19 and llvm-19-dev")
  return()
endif()

holdfast_layer_sources(recorded_sources ${HOLDFAST_LIBRARY_LAYERS})
# recorded_pool.cpp has what opens pools; baselines are not recorded.
list(FILTER recorded_sources EXCLUDE REGEX "/src/engine/(direct|baselines_any|[a-z_]*_direct)[.]cpp$")
list(APPEND recorded_sources ${CMAKE_SOURCE_DIR}/src/engine/direct_as_any.cpp)
list(APPEND recorded_sources ${CMAKE_CURRENT_SOURCE_DIR}/runtime/recorded_pool.cpp)
set(plain_sources ${CMAKE_CURRENT_SOURCE_DIR}/runtime/tracer.cpp ${CMAKE_CURRENT_SOURCE_DIR}/runtime/judge.cpp)

set(pass $<TARGET_FILE:nvm_record_pass>)
# What takes time here is writing the trace.
set(flags
  -std=c++20 -O1 -g1 -fPIC -DNDEBUG -fvisibility=hidden -fvisibility-inlines-hidden -fno-strict-aliasing -Wall -Wextra
  -DNVM_INLINES_LITTLE=1
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -D_GNU_SOURCE
  -DNVM_WINDOW_BASE=${NVM_WINDOW_BASE} -DNVM_WINDOW_BITS=${NVM_WINDOW_BITS}
  -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_BINARY_DIR}/generated)
set(with_pass -fplugin=${pass} -fpass-plugin=${pass} -mllvm -nvm-record-library -mllvm -nvm-record-steps=false)
set(launcher "")
if(HOLDFAST_CCACHE)
  set(launcher ${HOLDFAST_CACHE_ENVIRONMENT} CCACHE_EXTRAFILES=${pass} CCACHE_SLOPPINESS=pch_defines,time_macros
    ${HOLDFAST_CCACHE})
endif()

# Sources are read several as one, also those of several layers: all are compiled alike here, and inline little. One of
# templates over media counts for four, as it takes that much longer. Those with a name in common with another source of
# their layer go where no other source of it is.
set(HOLDFAST_RECORDED_AS_ONE 20)
set(units "")
set(apart "")
set(weight 0)
foreach(layer IN LISTS HOLDFAST_LIBRARY_LAYERS)
  get_property(files GLOBAL PROPERTY HOLDFAST_SOURCES_${layer})
  foreach(file IN LISTS files)
    if(NOT file IN_LIST recorded_sources OR file MATCHES "checksum_avx2")
      continue()
    endif()
    get_source_file_property(is_apart ${file} DIRECTORY ${CMAKE_SOURCE_DIR}/src/${layer} SKIP_UNITY_BUILD_INCLUSION)
    if(is_apart)
      list(APPEND apart ${layer}:${file})
      continue()
    endif()
    math(EXPR group "${weight} / ${HOLDFAST_RECORDED_AS_ONE}")
    math(EXPR weight "${weight} + 1")
    if(file MATCHES "/engine/.*_(any|image)[.]cpp$")
      math(EXPR weight "${weight} + 3")
    endif()
    string(APPEND includes_of_${group} "#include \"${file}\"\n")
    list(APPEND layers_of_${group} ${layer})
    list(REMOVE_ITEM recorded_sources ${file})
  endforeach()
endforeach()
list(APPEND apart crash_test:${CMAKE_CURRENT_SOURCE_DIR}/runtime/recorded_pool.cpp)
foreach(entry IN LISTS apart)
  string(REGEX REPLACE ":.*" "" layer "${entry}")
  string(REGEX REPLACE "^[^:]*:" "" file "${entry}")
  foreach(number RANGE ${group})
    if(NOT layer IN_LIST layers_of_${number})
      string(APPEND includes_of_${number} "#include \"${file}\"\n")
      list(APPEND layers_of_${number} ${layer})
      list(REMOVE_ITEM recorded_sources ${file})
      break()
    endif()
  endforeach()
endforeach()
foreach(number RANGE ${group})
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/recorded/unit_${number}.cpp)
  file(GENERATE OUTPUT ${unit} CONTENT "${includes_of_${number}}")
  list(APPEND units ${unit})
endforeach()

# Headers that most of its sources begin with, compiled once.
set(headers ${CMAKE_CURRENT_BINARY_DIR}/recorded/headers.hpp)
set(compiled_headers ${headers}.pch)
file(CONFIGURE OUTPUT ${headers} CONTENT "#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include \"tx/tx.hpp\"
")
add_custom_command(
  OUTPUT ${compiled_headers}
  COMMAND ${HOLDFAST_CLANGXX_19} ${flags} -Xclang -fno-pch-timestamp -x c++-header -MD -MF ${compiled_headers}.d
    -MT ${compiled_headers} -c ${headers} -o ${compiled_headers}
  DEPENDS ${headers} DEPFILE ${compiled_headers}.d
  COMMENT "Compiling headers of libholdfast_record.so"
  VERBATIM)

set(objects "")
foreach(source IN LISTS units recorded_sources plain_sources)
  set(base ${CMAKE_SOURCE_DIR})
  if(source IN_LIST units)
    set(base ${CMAKE_CURRENT_BINARY_DIR}/recorded)
  endif()
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${base} OUTPUT_VARIABLE name)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/recorded/${name}.o)
  cmake_path(GET object PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  set(own ${with_pass} -include-pch ${compiled_headers} -Xclang -fno-pch-timestamp)
  set(needs ${source} ${compiled_headers} nvm_record_pass)
  if(source IN_LIST plain_sources)
    set(own "")
    set(needs ${source})
  endif()
  if(name MATCHES "checksum_avx2")
    set(own ${with_pass} -mavx2)
    set(needs ${source} nvm_record_pass)
  endif()
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${launcher} ${HOLDFAST_CLANGXX_19} ${flags} ${own} -MD -MF ${object}.d -MT ${object} -c ${source}
      -o ${object}
    DEPENDS ${needs} DEPFILE ${object}.d
    COMMENT "Recording ${name}"
    VERBATIM)
  list(APPEND objects ${object})
endforeach()

set(library ${HOLDFAST_LIBRARY_FOLDER}/libholdfast_record.so)
add_custom_command(
  OUTPUT ${library}
  COMMAND ${HOLDFAST_CLANGXX_19} -shared -Wl,-soname,libholdfast_record.so
    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/runtime/exports.map -Wl,-z,now -Wl,-z,relro
    ${objects} -o ${library} -lpthread -ldl
  DEPENDS ${objects} ${CMAKE_CURRENT_SOURCE_DIR}/runtime/exports.map
  COMMENT "Linking libholdfast_record.so"
  VERBATIM)
add_custom_target(holdfast_record ALL DEPENDS ${library})
install(FILES ${library} DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Layers and the functions that declare targets of them.
#
# The table below is the one of src/README.md; tests/repo compares the two. A layer may use only
# layers of a smaller number; holdfast_layer() refuses anything else while configuring, and
# tests/repo refuses an #include that the targets would not reveal.

set(HOLDFAST_LAYER_TABLE
  base:0
  platform:1
  media:2 sync:2
  pool:3
  log:4
  space:5 isolation:5
  tx:6 region:6 lockfree:6
  logheap:7 stm:7 object:7 store:7 tier:7
  engine:8
  api:9
  kv:10
  care:11
  compiler:12 explore:12 advisor:12 server:12
  crash_test:13
  cli:14)

# Layers that make up the library itself, in link order from the bottom; the rest are programs and
# tools on top of it.
set(HOLDFAST_LIBRARY_LAYERS
  base platform media sync pool log space isolation tx region lockfree logheap stm object store
  tier engine api kv care)

# Sources of a layer are read several as one where nothing is measured and hardly anything is built twice: most of the
# time goes into headers that they share. What is measured is read apart where benchmarks are (the preset measure), so that
# no more is inlined than its sources say; the presets debug, fuzz and coverage read all apart, so that none leans on another's includes.
set(HOLDFAST_SOURCES_AS_ONE 0)
if(NVM_SANITIZE MATCHES "^(address|thread)$" OR NVM_RECORD)
  set(HOLDFAST_SOURCES_AS_ONE 16)
endif()
set(HOLDFAST_TOOLS_AS_ONE ${HOLDFAST_SOURCES_AS_ONE})
set(HOLDFAST_COLD_AS_ONE 0)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT NVM_SANITIZE)
  set(HOLDFAST_TOOLS_AS_ONE 16)
  if(HOLDFAST_BENCHMARKS_UNMEASURED)
    set(HOLDFAST_COLD_AS_ONE 12)
  endif()
endif()

# holdfast_read_as_one(<target> [TOOL]): sources with compile options of their own stay apart, and so do those
# with the property SKIP_UNITY_BUILD_INCLUSION, which have a name in common with others. TOOL: in a release build, too.
function(holdfast_read_as_one target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TOOL" "" "")
  set(most ${HOLDFAST_SOURCES_AS_ONE})
  if(arg_TOOL)
    set(most ${HOLDFAST_TOOLS_AS_ONE})
  endif()
  if(most)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${most})
  endif()
endfunction()

# holdfast_read_cold_as_one(<target> <file>...): these sources of a layer, in a release build; its others stay apart.
function(holdfast_read_cold_as_one target)
  list(LENGTH ARGN count)
  if(NOT HOLDFAST_COLD_AS_ONE OR count EQUAL 0)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  math(EXPR units "(${count} + ${HOLDFAST_COLD_AS_ONE} - 1) / ${HOLDFAST_COLD_AS_ONE}")
  set(number 0)
  foreach(file IN LISTS ARGN)
    math(EXPR unit "${number} * ${units} / ${count}")
    math(EXPR number "${number} + 1")
    set_source_files_properties(${file} PROPERTIES UNITY_GROUP cold_${unit})
  endforeach()
endfunction()

# Headers that most sources of layers begin with, compiled once under the sanitizers, where no source is read by itself either.
# Without optimisation for layers that say so: a compiler takes no such headers that were compiled in another way.
function(holdfast_add_layer_headers)
  if(NOT NVM_SANITIZE MATCHES "^(address|thread)$")
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/layer_headers.cpp CONTENT "")
  foreach(variant usual plain)
    set(headers holdfast_layer_headers_${variant})
    add_library(${headers} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/layer_headers.cpp)
    set_target_properties(${headers} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(${headers} PRIVATE holdfast_headers Threads::Threads)
    if(variant STREQUAL "plain")
      target_compile_options(${headers} PRIVATE ${HOLDFAST_PROGRAM_OPTIONS})
    endif()
    target_precompile_headers(${headers} PRIVATE <algorithm> <array> <atomic> <cstdio> <cstdlib> <cstring> <functional>
      <map> <memory> <mutex> <optional> <set> <span> <string> <thread> <vector> ${CMAKE_SOURCE_DIR}/src/tx/tx.hpp)
    holdfast_cache_with_headers(${headers})
  endforeach()
endfunction()

# holdfast_take_layer_headers(<target> <usual or plain>): but sources with compile options or definitions of their own.
function(holdfast_take_layer_headers target variant)
  if(NOT TARGET holdfast_layer_headers_${variant})
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM holdfast_layer_headers_${variant})
  holdfast_cache_with_headers(${target})
  # When the folder's CMakeLists.txt has said what these are.
  cmake_language(EVAL CODE "cmake_language(DEFER CALL holdfast_spare_from_headers ${target})")
endfunction()

function(holdfast_spare_from_headers target)
  get_target_property(files ${target} SOURCES)
  foreach(file IN LISTS files)
    foreach(reason COMPILE_OPTIONS COMPILE_DEFINITIONS)
      get_source_file_property(own ${file} ${reason})
      if(own)
        set_source_files_properties(${file} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
      endif()
    endforeach()
  endforeach()
endfunction()

# holdfast_read_layers_as_one(<target> <layer>...): of a target of this folder that has the sources of layers once more,
# also several layers as one; those that a layer keeps apart stay apart here.
function(holdfast_read_layers_as_one target)
  if(NOT HOLDFAST_SOURCES_AS_ONE)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set(count 0)
  foreach(layer IN LISTS ARGN)
    get_property(files GLOBAL PROPERTY HOLDFAST_SOURCES_${layer})
    foreach(file IN LISTS files)
      foreach(reason SKIP_UNITY_BUILD_INCLUSION COMPILE_OPTIONS COMPILE_DEFINITIONS)
        get_source_file_property(${reason} ${file} DIRECTORY ${CMAKE_SOURCE_DIR}/src/${layer} ${reason})
      endforeach()
      if(NOT SKIP_UNITY_BUILD_INCLUSION AND NOT COMPILE_OPTIONS AND NOT COMPILE_DEFINITIONS)
        math(EXPR group "${count} / ${HOLDFAST_SOURCES_AS_ONE}")
        math(EXPR count "${count} + 1")
        set_source_files_properties(${file} PROPERTIES UNITY_GROUP layers_${group})
      endif()
    endforeach()
  endforeach()
endfunction()

# Sets <out> to the number of a layer, or stops the configuration.
function(holdfast_layer_number out layer)
  foreach(entry IN LISTS HOLDFAST_LAYER_TABLE)
    if(entry MATCHES "^${layer}:([0-9]+)$")
      set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "'${layer}' is no layer; cmake/layers.cmake lists them")
endfunction()

# holdfast_layer(<name> [SOURCES <file>...] [COLD <file>...] [USES <lower layer>...] [LINK <library>...] [TOOL] [PLAIN])
#
# Declares the target holdfast_<name>: a position-independent static library, or an interface
# library when no sources are given. Sources are a written list, relative to the calling folder.
# USES names layers of a smaller number only; their targets are linked publicly.
# The objects stay available as holdfast_<name>_objects: the shared and the static holdfast library
# are made of them. TOOL: no program is measured by it, so that a release build may read its sources as one. COLD: more
# sources, of a layer by which programs are measured, that transactions and look-ups do not run through: opening and
# closing, settings, reports, collection, relocation. The preset release reads these as one. PLAIN: not optimised under the sanitizers.
function(holdfast_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TOOL;PLAIN" "" "SOURCES;COLD;USES;LINK")
  if(arg_UNPARSED_ARGUMENTS OR (arg_TOOL AND arg_COLD))
    message(FATAL_ERROR "holdfast_layer(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}, or COLD in a TOOL")
  endif()
  list(APPEND arg_SOURCES ${arg_COLD})
  holdfast_layer_number(own ${name})
  foreach(lower IN LISTS arg_USES)
    holdfast_layer_number(number ${lower})
    if(NOT number LESS own)
      message(FATAL_ERROR
        "layer ${name} (${own}) may not use ${lower} (${number}): layers point down only")
    endif()
    if(NOT TARGET holdfast_${lower})
      # Not fatal: whoever works on another layer can still build it. Linking ${name} will fail.
      message(WARNING "layer ${name} uses ${lower}, which has no src/${lower}/CMakeLists.txt")
    endif()
  endforeach()
  list(TRANSFORM arg_USES PREPEND holdfast_ OUTPUT_VARIABLE lower_targets)

  set(target holdfast_${name})
  if(arg_SOURCES)
    add_library(${target}_objects OBJECT ${arg_SOURCES})
    set_target_properties(${target}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
    set(tool "")
    if(arg_TOOL)
      set(tool TOOL)
    endif()
    holdfast_read_as_one(${target}_objects ${tool})
    holdfast_read_cold_as_one(${target}_objects ${arg_COLD})
    set(variant usual)
    if(arg_PLAIN AND NVM_SANITIZE MATCHES "^(address|thread)$")
      set(variant plain)
      target_compile_options(${target}_objects PRIVATE ${HOLDFAST_PROGRAM_OPTIONS})
    endif()
    holdfast_take_layer_headers(${target}_objects ${variant})
    target_link_libraries(${target}_objects PUBLIC holdfast_headers ${lower_targets} ${arg_LINK})
    add_library(${target} STATIC $<TARGET_OBJECTS:${target}_objects>)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(${target} PUBLIC holdfast_headers ${lower_targets} ${arg_LINK})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE holdfast_headers ${lower_targets} ${arg_LINK})
  endif()

  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  set_property(GLOBAL PROPERTY HOLDFAST_SOURCES_${name} "${files}")
  set_property(GLOBAL APPEND PROPERTY HOLDFAST_LAYERS_PRESENT ${name})
endfunction()

# Sets <out> to the absolute source files of the layers named (header-only layers have none), for a
# target that compiles them again with other flags.
function(holdfast_layer_sources out)
  set(files "")
  foreach(layer IN LISTS ARGN)
    holdfast_layer_number(number ${layer})
    get_property(own GLOBAL PROPERTY HOLDFAST_SOURCES_${layer})
    list(APPEND files ${own})
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# holdfast_program(<name> SOURCES <file>... [LINK <library>...])
#
# An executable with the project's include paths; link `holdfast` for a program that sees public
# headers only, holdfast_<layer> or `holdfast_all` for one that looks inside.
function(holdfast_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "holdfast_program(${name} SOURCES ... [LINK ...])")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${HOLDFAST_PROGRAM_OPTIONS})
  target_link_libraries(${name} PRIVATE holdfast_headers ${arg_LINK} Threads::Threads)
endfunction()

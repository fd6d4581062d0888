# How a test program is declared and registered.
#
# Labels that ./dev and CI select by:
#   unit     every test, unless it carries one of the next two; runs in release
#   memory   every unit test but those with `kills` or `races`; runs under ASan
#   kills    kills processes and looks at what is left, which tells nothing about addresses
#   explore  explores crash states; runs in the record preset
#   slow     not part of ./dev test
#   threads  concurrent code; also runs under TSan
#   races    of these, what threads do to each other and nothing else; TSan sees use of freed memory as well
#   repo     rules about the tree itself; runs once
#
# The targets tests_unit, tests_memory, tests_explore and tests_threads build the programs with that label only.
#
# Turns. All of `./dev test` runs every test in release and, by the day, one of four parts under a sanitizer: memory_0 to
# memory_2 (the thirds of memory) or threads. Most of a sanitizer's time is one more copy of the library, so a day has
# one. The targets tests_memory_0 to tests_memory_2 build no more than these tests need.

foreach(label unit memory memory_0 memory_1 memory_2 explore threads)
  add_custom_target(tests_${label})
endforeach()

# holdfast_turn_of(<what> <out>): 0 or 1, by its name.
function(holdfast_turn_of what out)
  string(MD5 sum "100 ${what}") # with this number before names, halves are of like size
  if(sum MATCHES "^[0-7]")
    set(${out} 0 PARENT_SCOPE)
  else()
    set(${out} 1 PARENT_SCOPE)
  endif()
endfunction()

# holdfast_third_of(<what> <out>): 0, 1 or 2, by its name.
function(holdfast_third_of what out)
  string(MD5 sum "100 ${what}")
  string(SUBSTRING ${sum} 0 3 first)
  math(EXPR third "0x${first} % 3")
  set(${out} ${third} PARENT_SCOPE)
endfunction()

set(HOLDFAST_TEST_TIMEOUT 120)  # seconds, for a release build
if(NVM_SANITIZE)
  set(HOLDFAST_TIMEOUT_FACTOR 5)
else()
  set(HOLDFAST_TIMEOUT_FACTOR 1)
endif()

# Sets properties that every registered test has. <labels> and <timeout> (seconds) may be empty; the
# targets that follow are what the test runs.
function(holdfast_test_properties name labels timeout)
  if(NOT "explore" IN_LIST labels AND NOT "slow" IN_LIST labels AND NOT "repo" IN_LIST labels)
    list(APPEND labels unit)
  endif()
  if("unit" IN_LIST labels AND NOT "kills" IN_LIST labels AND NOT "races" IN_LIST labels)
    list(APPEND labels memory)
  endif()
  # Tests that share a program made for them have one turn, so that the program is built on its days only.
  set(what ${name})
  if(ARGC EQUAL 4 AND TARGET "${ARGV3}")
    get_target_property(made_for_tests ${ARGV3} HOLDFAST_VARIANT)
    if(made_for_tests)
      set(what ${ARGV3})
    endif()
  endif()
  holdfast_turn_of(${what} turn)
  holdfast_third_of(${what} third)
  if("memory" IN_LIST labels)
    list(APPEND labels memory_${third})
  endif()
  if(NOT timeout)
    set(timeout ${HOLDFAST_TEST_TIMEOUT})
  endif()
  set(cost ${timeout})  # ctest begins with the dearest, so that none is left for the end alone
  math(EXPR timeout "${timeout} * ${HOLDFAST_TIMEOUT_FACTOR}")
  list(JOIN labels "," joined)
  set_property(GLOBAL APPEND PROPERTY HOLDFAST_TESTS_KNOWN "${name}")
  set_property(GLOBAL PROPERTY HOLDFAST_TEST_${name} ${CMAKE_CURRENT_SOURCE_DIR} "${joined}" ${ARGN})
  foreach(label IN LISTS labels)
    if(TARGET tests_${label} AND ARGN)
      add_dependencies(tests_${label} ${ARGN})
    endif()
  endforeach()
  set(environment
    "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
    "TSAN_OPTIONS=second_deadlock_stack=1")
  if(NVM_SANITIZE MATCHES "^(address|thread)$")
    list(APPEND environment "RC_PARAMS=max_success=25")  # of random cases; 100 elsewhere
  endif()
  set_tests_properties(${name} PROPERTIES
    LABELS "${labels}" TIMEOUT ${timeout} COST ${cost} ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
endfunction()

# Called last: leaves programs_of_tests.txt for tools/quick_tests.py, a line for each test with its name, folder, labels
# and what it runs: files below the build folder, or names of targets that make something else.
function(holdfast_write_programs_of_tests)
  get_property(names GLOBAL PROPERTY HOLDFAST_TESTS_KNOWN)
  set(lines "")
  foreach(name IN LISTS names)
    get_property(line GLOBAL PROPERTY HOLDFAST_TEST_${name})
    list(POP_FRONT line folder labels)
    string(APPEND lines "${name};${folder};${labels}")
    foreach(target IN LISTS line)
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "UTILITY")
        string(APPEND lines ";${target}")
      else()
        string(APPEND lines ";$<PATH:RELATIVE_PATH,$<TARGET_FILE:${target}>,${CMAKE_BINARY_DIR}>")
      endif()
    endforeach()
    string(APPEND lines "\n")
  endforeach()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/programs_of_tests.txt CONTENT "${lines}")
endfunction()

# What most tests begin with, compiled once as they are compiled. The record preset takes neither this nor -O0, which its
# explorers are too slow with; so tests of the label `explore` are seen without it, and other tests are not.
if(NVM_RECORD OR NVM_SANITIZE STREQUAL "fuzz" OR NOT HOLDFAST_TESTS)
  set(HOLDFAST_TEST_HEADERS OFF)
else()
  set(HOLDFAST_TEST_HEADERS ON)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/test_headers.cpp CONTENT "")
endif()

# Of a target in C++: so that the compiler cache takes what is compiled with such headers.
function(holdfast_cache_with_headers target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>)
  else()
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
  if(HOLDFAST_CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${HOLDFAST_CACHE_ENVIRONMENT};CCACHE_SLOPPINESS=pch_defines,time_macros;${HOLDFAST_CCACHE}")
  endif()
endfunction()

# What tests are compiled with. Optimised ones are so a little, and inline little: what they run does not change by more,
# and a compiler takes half as long.
set(HOLDFAST_TEST_OPTIONS_plain -O0)
set(HOLDFAST_TEST_OPTIONS_optimised "")
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT NVM_SANITIZE AND NOT NVM_RECORD)
  set(HOLDFAST_TEST_OPTIONS_optimised -O1 -DNVM_INLINES_LITTLE=1)
endif()

foreach(variant plain optimised)
  if(HOLDFAST_TEST_HEADERS)
    set(headers holdfast_test_headers_${variant})
    add_library(${headers} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/test_headers.cpp)
    target_link_libraries(${headers} PRIVATE holdfast_headers GTest::gtest Threads::Threads)
    target_compile_options(${headers} PRIVATE ${HOLDFAST_TEST_OPTIONS_${variant}})
    target_precompile_headers(${headers} PRIVATE <gtest/gtest.h> <algorithm> <array> <atomic> <chrono> <cstring>
      <filesystem> <fstream> <functional> <map> <mutex> <random> <set> <string> <thread> <vector>)
    holdfast_cache_with_headers(${headers})
  endif()
endforeach()

# Clang links with lld already; GNU's linker takes five times as long for each of some hundred test programs.
if(HOLDFAST_TESTS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  find_program(HOLDFAST_LLD ld.lld HINTS /usr/lib/llvm-19/bin)
endif()

# holdfast_link_quickly(<program>): one that is only tested.
function(holdfast_link_quickly target)
  if(HOLDFAST_LLD)
    cmake_path(GET HOLDFAST_LLD PARENT_PATH folder)
    target_link_options(${target} PRIVATE -B${folder} -fuse-ld=lld)
  endif()
endfunction()

# Sources of a test program are read several as one in every preset but that of fuzzers: most of the time goes into headers
# that they share. Those with a name in common say SKIP_UNITY_BUILD_INCLUSION.
set(HOLDFAST_TEST_SOURCES_AS_ONE 8)

# holdfast_read_test_as_one(<target>)
function(holdfast_read_test_as_one target)
  if(NOT NVM_SANITIZE STREQUAL "fuzz")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${HOLDFAST_TEST_SOURCES_AS_ONE})
  endif()
endfunction()

# main() of all programs of tests.
if(HOLDFAST_TESTS)
  add_library(holdfast_tests_main STATIC EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/tests_main.cpp)
  target_link_libraries(holdfast_tests_main PUBLIC GTest::gtest)
  target_compile_options(holdfast_tests_main PRIVATE -O0)
endif()

# holdfast_test(<name> SOURCES <file>... [LINK <library>...] [LABELS <label>...] [TIMEOUT <s>]
#               [ARGS <argument>...] [OPTIMISED] [IN <program>])
#
# A GoogleTest program with the library's main(), one ctest entry. Exit code 77 means skipped. OPTIMISED: for one
# that has layers' templates in itself and runs them for longer than it takes to compile; others are not optimised, but
# for those of threads in a build that is not sanitized.
#
# IN: the sources are part of a program that several entries share, so that they are fewer objects and one link; each
# entry runs the tests of its own sources. They must be compiled alike.
function(holdfast_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIMISED" "TIMEOUT;IN" "SOURCES;LINK;LABELS;ARGS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR
      "holdfast_test(${name} SOURCES ... [LINK ...] [LABELS ...] [TIMEOUT s] [ARGS ...] [OPTIMISED] [IN program])")
  endif()
  if(NOT HOLDFAST_TESTS)
    return()
  endif()
  # Threads that are to meet are optimised where no sanitizer keeps them apart anyway.
  set(variant plain)
  if(arg_OPTIMISED OR NVM_RECORD OR NVM_SANITIZE STREQUAL "fuzz" OR (NOT NVM_SANITIZE AND "threads" IN_LIST arg_LABELS))
    set(variant optimised)
  endif()
  set(program ${name})
  if(arg_IN)
    set(program ${arg_IN})
    list(TRANSFORM arg_SOURCES REPLACE ".*/" "" OUTPUT_VARIABLE files)
    list(FILTER files INCLUDE REGEX "_test[.]cpp$")
    list(JOIN files "," files)
    list(PREPEND arg_ARGS --files=${files})
  endif()
  if(TARGET ${program})
    get_target_property(first ${program} HOLDFAST_VARIANT)
    if(NOT variant STREQUAL first)
      message(FATAL_ERROR "holdfast_test(${name}): ${program} is ${first}, and this test ${variant}")
    endif()
    target_sources(${program} PRIVATE ${arg_SOURCES})
    target_link_libraries(${program} PRIVATE ${arg_LINK})
  else()
    add_executable(${program} ${arg_SOURCES})
    set_target_properties(${program} PROPERTIES HOLDFAST_VARIANT ${variant})
    list(LENGTH arg_SOURCES count)
    if(arg_IN OR count GREATER 1)
      holdfast_read_test_as_one(${program})
    endif()
    target_compile_options(${program} PRIVATE ${HOLDFAST_TEST_OPTIONS_${variant}})
    if(HOLDFAST_TEST_HEADERS AND NOT arg_SOURCES MATCHES "[.]c(;|$)")
      target_precompile_headers(${program} REUSE_FROM holdfast_test_headers_${variant})
      holdfast_cache_with_headers(${program})
    endif()
    target_link_libraries(${program}
      PRIVATE holdfast_headers ${arg_LINK} GTest::gtest GTest::gmock holdfast_tests_main Threads::Threads)
    holdfast_link_quickly(${program})
  endif()
  if(arg_IN)
    add_custom_target(${name} DEPENDS ${program}) # whoever builds a test need not know where it is
  endif()
  add_test(NAME ${name} COMMAND ${program} ${arg_ARGS})
  holdfast_test_properties(${name} "${arg_LABELS}" "${arg_TIMEOUT}" ${program})
endfunction()

# holdfast_script_test(<name> COMMAND <argument>... [PROGRAMS <target>...] [LABELS <label>...]
#                      [TIMEOUT <s>])
#
# The same for a script or another program; the exit code decides. PROGRAMS are the targets that the
# script runs.
function(holdfast_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "COMMAND;PROGRAMS;LABELS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_COMMAND)
    message(FATAL_ERROR
      "holdfast_script_test(${name} COMMAND ... [PROGRAMS ...] [LABELS ...] [TIMEOUT s])")
  endif()
  if(NOT HOLDFAST_TESTS)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  holdfast_test_properties(${name} "${arg_LABELS}" "${arg_TIMEOUT}" ${arg_PROGRAMS})
endfunction()

# holdfast_inject_faults(<test>)
#
# Its system calls and allocations, and those of the library in it, can be made to fail (tests/fault_injection.hpp).
function(holdfast_inject_faults name)
  if(NOT TARGET ${name})
    return()
  endif()
  if(NOT TARGET holdfast_fault_injection)
    add_library(holdfast_fault_injection OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/fault_injection.cpp)
    target_link_libraries(holdfast_fault_injection PUBLIC holdfast_headers)
    target_compile_options(holdfast_fault_injection PRIVATE -O0)
  endif()
  target_link_libraries(${name} PRIVATE holdfast_fault_injection)
  foreach(call malloc calloc realloc aligned_alloc mmap munmap madvise mprotect msync open close pread pwrite fdatasync fsync
      fallocate ftruncate fstat fstatfs fcntl rename link renameat2
      linkat)
    target_link_options(${name} PRIVATE -Wl,--wrap=${call})
  endforeach()
endfunction()

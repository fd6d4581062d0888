#!/usr/bin/env bash
# cmake_test.sh <holdfast-cc>: a CMake project that does not know what compiles it.
set -euo pipefail
cc=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/holdfast_cc/testing.sh
. "$here/testing.sh"
export CCACHE_DISABLE=1
quietly cmake -G Ninja -S "$here/project" -B "$work/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$(dirname "$cc")/holdfast-c++"
quietly cmake --build "$work/build"
counts "$work/build/main"
# A file of precompiled functions that changes makes objects stale, by the prerequisites that the compiler wrote.
printf 'nothing={nargs:1,wr_set:{}}\n' >"$work/own.unsafe"
quietly cmake -DCMAKE_C_FLAGS="-fnvm-unsafe=$work/own.unsafe" "$work/build"
quietly cmake --build "$work/build"
says 'no work to do' 0 ninja -C "$work/build"
sleep 0.01
printf '# nothing else\n' >>"$work/own.unsafe"
says 'counter.c.o' 0 ninja -C "$work/build" -v

#!/usr/bin/env bash
# install_test.sh <build folder>: an installation works after a move, and refers to no other place.
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/holdfast_cc/testing.sh
. "$here/testing.sh"

quietly cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/moved"
cc=$(find "$work/moved" -name holdfast-cc -type f -perm -u+x)
cxx=$(dirname "$cc")/holdfast-c++
pc=$(dirname "$(find "$work/moved" -name holdfast.pc)")
cd "$work"
# Paths of the tree that it was built in would work here, and nowhere else.
! grep -qF "$build" "$cc" || fail "$cc knows the build folder"
for file in $("$cc" -fnvm-unsafe=x '-###' -c y.c 2>&1 | grep -oE '"[^"]*(holdfast/|unsafe|include/nvm)[^"]*"' | tr -d '"'); do
  case $file in
    x | *=x | *"$work/moved/"*) ;;
    *) fail "the command line names $file" ;;
  esac
done
quietly "$cc" -O2 -fPIC -c "$here/project/counter.c"
quietly "$cxx" -O2 -fPIC -std=c++20 -c "$here/project/name.cpp"
quietly "$cc" -O2 -I"$here/project" "$here/project/main.c" counter.o name.o -lstdc++ -o shared
counts ./shared
quietly "$cxx" -O2 -I"$here/project" -x c "$here/project/main.c" -x none counter.o name.o -o plus
counts ./plus
quietly "$cc" -O2 -static -I"$here/project" "$here/project/main.c" counter.o name.o -o static
counts ./static
quietly "$cc" -O1 -static-pie -fPIE -I"$here/project" "$here/project/main.c" counter.o name.o -o static_pie
counts ./static_pie
says "$work/moved/" 0 ldd shared

[ "$(PKG_CONFIG_PATH=$pc pkg-config --variable=cc holdfast)" -ef "$cc" ] || fail "pkg-config knows no compiler"
mkdir package
cat >package/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(package C)
find_package(holdfast REQUIRED)
file(WRITE ${CMAKE_BINARY_DIR}/cc ${HOLDFAST_C_COMPILER})
file(WRITE ${CMAKE_BINARY_DIR}/cxx ${HOLDFAST_CXX_COMPILER})
CMAKE
quietly cmake -S package -B package/build -DCMAKE_PREFIX_PATH="$work/moved"
[ "$(cat package/build/cc)" -ef "$cc" ] || fail "the CMake package says $(cat package/build/cc)"
[ "$(cat package/build/cxx)" -ef "$cxx" ] || fail "the CMake package says $(cat package/build/cxx)"

[ -f "$work/moved/share/man/man1/holdfast-cc.1" ] || fail "no manual page"
rm "$(find "$work/moved" -name libc.unsafe)"
says 'libc.unsafe is missing: the installation is not complete' 1 "$cc" -c "$here/project/counter.c"

#!/usr/bin/env bash
# Installs a build into a fresh folder, then builds and runs a C and a C++ program against it, through
# find_package and through pkg-config.
# usage: install_test.sh <build folder>
set -euo pipefail
build=$1
sources=$(cd "$(dirname "$0")/consumer" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --prefix "$folder/prefix" >/dev/null

cmake -G Ninja -S "$sources" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/prefix" >"$folder/log" ||
  { cat "$folder/log"; exit 1; }
cmake --build "$folder/build" >"$folder/log" || { cat "$folder/log"; exit 1; }
for program in c_shared c_static cxx_shared; do
  "$folder/build/$program"
done

PKG_CONFIG_PATH=$(dirname "$(find "$folder/prefix" -name holdfast.pc)")
export PKG_CONFIG_PATH
read -r -a flags < <(pkg-config --cflags --libs holdfast)
libraries=$(pkg-config --variable=libdir holdfast)
cc -std=c11 -Wall -Wextra -Werror "$sources/consumer.c" -o "$folder/by_pkg_config" "${flags[@]}"
LD_LIBRARY_PATH=$libraries "$folder/by_pkg_config"

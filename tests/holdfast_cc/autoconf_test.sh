#!/usr/bin/env bash
# autoconf_test.sh <holdfast-cc>: ./configure && make, with libtool, of a project that does not know what compiles it.
set -euo pipefail
cc=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/holdfast_cc/testing.sh
. "$here/testing.sh"
for tool in autoreconf automake libtoolize make; do
  command -v "$tool" >/dev/null || skip "no $tool"
done
export CCACHE_DISABLE=1
cp -r "$here/project" "$work/source"
cd "$work/source"
quietly autoreconf -i
quietly ./configure CC="$cc" CXX="$(dirname "$cc")/holdfast-c++" CFLAGS=-O2 CXXFLAGS='-O2 -std=c++20' \
  --prefix="$work/prefix"
quietly make -j2
counts ./main
quietly make install
counts "$work/prefix/bin/main"

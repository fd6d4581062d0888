#!/usr/bin/env bash
# meson_test.sh <holdfast-cc>: a Meson project that does not know what compiles it.
set -euo pipefail
cc=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/holdfast_cc/testing.sh
. "$here/testing.sh"
command -v meson >/dev/null || skip "no meson"
# Debian's interpreter: the package's modules belong to it.
PATH=/usr/bin:$PATH
export CCACHE_DISABLE=1 CC=$cc CXX=${cc%/*}/holdfast-c++
cp -r "$here/project" "$work/source"
quietly meson setup "$work/build" "$work/source"
quietly meson compile -C "$work/build"
counts "$work/build/main"

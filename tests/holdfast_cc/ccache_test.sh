#!/usr/bin/env bash
# ccache_test.sh <holdfast-cc>: outdated results that a compiler cache must not give back.
set -euo pipefail
cc=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/holdfast_cc/testing.sh
. "$here/testing.sh"
command -v ccache >/dev/null || skip "no ccache"
unset CCACHE_DISABLE
export CCACHE_DIR=$work/cache CCACHE_CONFIGPATH=/dev/null
# An installation of our own, whose plugin can change.
prefix=$work/prefix
mkdir "$prefix" && cp -a "$(dirname "$cc")" "$(dirname "$cc")/../lib" "$(dirname "$cc")/../include" "$prefix"
cc=$prefix/bin/holdfast-cc
cd "$work"
printf 'void g(void *);\nvoid *nvm_alloc(void *, unsigned long, unsigned long);
void f(void *q) { g(nvm_alloc(q, 1, 8)); }\n' >calls.c
printf 'g={nargs:1,wr_set:{}}\n' >own.unsafe

hits() { ccache --print-stats | awk '$1 == "direct_cache_hit" || $1 == "preprocessed_cache_hit" { n += $2 } END { print n }'; }
# compiles <hit|miss> <variable=value...> -- <argument...>
compiles() {
  local expected=$1 before environment=()
  shift
  while [ "$1" != -- ]; do
    environment+=("$1")
    shift
  done
  before=$(hits)
  shift
  env "${environment[@]}" ccache "$cc" "$@" -O1 -c calls.c -o calls.o
  if [ "$(hits)" -gt "$before" ]; then found=hit; else found=miss; fi
  [ "$found" = "$expected" ] || fail "$*: cache $found, expected $expected"
}

compiles miss --
compiles hit --
compiles miss -- -fno-nvm
compiles hit -- -fno-nvm
cmp -s calls.o <(:) && fail "an empty object"
[ "$(log_calls calls.o)" = 0 ]

# The description of g changes, the command line does not: named in CCACHE_EXTRAFILES, or by depend mode.
for way in CCACHE_EXTRAFILES=own.unsafe CCACHE_DEPEND=1; do
  printf 'g={nargs:1,wr_set:{}}\n# %s\n' "$way" >own.unsafe
  compiles miss "$way" -- -fnvm-unsafe=own.unsafe -MD
  compiles hit "$way" -- -fnvm-unsafe=own.unsafe -MD
  [ "$(log_calls calls.o)" = 0 ] || fail "g writes nothing"
  printf 'g={nargs:1,wr_set:{{arg0,#8}}}\n# %s\n' "$way" >own.unsafe
  compiles miss "$way" -- -fnvm-unsafe=own.unsafe -MD
  [ "$(log_calls calls.o)" = 1 ] || fail "$way: the object of the description before"
done

# Another plugin comes with another driver.
printf '\0' >>"$cc"
compiles miss --
CCACHE_COMPILERCHECK=content compiles miss --
printf '\0' >>"$cc"
CCACHE_COMPILERCHECK=content compiles miss --
CCACHE_COMPILERCHECK=content compiles hit --

#!/usr/bin/env bash
# statics_test.sh <holdfast-cc> <statics>: pointers into a program lead where they led, though it was loaded elsewhere,
# or was built anew with everything at another place; what is gone is named.
set -euo pipefail
cc=$1 sources=$2
plus=$(dirname "$cc")/holdfast-c++
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
flags=(-Wall -Wextra -Werror -O1 -fPIE -pie)

# prints <expected> <what> <command...>
prints() {
  local expected=$1 what=$2 found
  shift 2
  found=$("$@" 2>&1) || true
  # shellcheck disable=SC2053  # a pattern
  [[ $found == $expected ]] || { printf '%s: found\n%s\nexpected\n%s\n' "$what" "$found" "$expected" >&2; exit 1; }
}
here() { prints 'add 5, table 30, text red, sort of libc works' "$@"; }

"$cc" "${flags[@]}" "$sources/program.c" -o first
"$cc" "${flags[@]}" -DPADDED "$sources/program.c" -o second
prints 'made' 'the pool' ./first make pool
# Each start lies elsewhere.
for i in 1 2 3; do here "start $i" ./first show pool; done
here 'rebuilt' ./second show pool
here 'the first again' ./first show pool
"$cc" "${flags[@]}" -no-pie -fno-pie "$sources/program.c" -o fixed
for i in 1 2; do here "not position-independent $i" ./fixed show pool; done
"$cc" "${flags[@]}" -DWITHOUT "$sources/program.c" -o less
prints '*hook.call*found program.c:add of build * */fixed, expected something that this program has*' 'gone' ./less show pool
here 'nothing was changed' ./first show pool
# One of another compiler that names the same.
"$cc" "${flags[@]}" -fno-nvm -DDESCRIBED "$sources/program.c" -o described
here 'described' ./described show pool
"$plus" "${flags[@]}" -x c++ "$sources/program.c" -o in_cpp
prints 'made' 'the pool of C++' ./in_cpp make pool_cpp
for i in 1 2; do here "C++ $i" ./in_cpp show pool_cpp; done

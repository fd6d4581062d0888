#!/usr/bin/env bash
# layouts.sh <holdfast-cc> <layouts.c> <layouts.txt>: the same layouts in C and C++, at each standard, and from
# preprocessed source.
set -euo pipefail
cc=$1 source=$2 expected=$3
plus=$(dirname "$cc")/holdfast-c++
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for standard in c11 gnu17 c23; do
  "$cc" -std=$standard -Wall -Wextra -Werror -fsyntax-only -fnvm-dump-types "$source" | diff - "$expected"
done
for standard in c++14 c++20; do
  "$plus" -x c++ -std=$standard -Wall -Wextra -Werror -fsyntax-only -fnvm-dump-types "$source" | diff - "$expected"
done
"$cc" -E "$source" -o "$work/layouts.i"
"$cc" -Wall -fsyntax-only -fnvm-dump-types "$work/layouts.i" | diff - "$expected"

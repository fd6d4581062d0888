#!/usr/bin/env bash
# verify.sh <holdfast-cc> <source>: exactly the diagnostics that the source expects (clang -verify); and all of them are
# errors with -Werror, gone with -Wno-nvm, and none without the plugin.
set -euo pipefail
cc=$1 source=$2
case $source in *.cpp) cc=$(dirname "$cc")/holdfast-c++ ;; esac
standard=-std=gnu11
case $source in *.cpp) standard=-std=c++20 ;; esac
flags=("$standard" -fsyntax-only -ferror-limit=0 -Wall -Wextra -Wno-unused -Wno-gnu -Wno-flexible-array-extensions)

"$cc" "${flags[@]}" -Xclang -verify "$source"
"$cc" "${flags[@]}" -fno-nvm "$source"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings=$(grep -c expected-warning "$source" || true)
errors=$(grep -c expected-error "$source" || true)
if [ "$warnings" -gt 0 ]; then
  if "$cc" "${flags[@]}" -Werror "$source" 2>"$work/out"; then echo "accepted with -Werror" >&2; exit 1; fi
  [ "$(grep -c 'error: ' "$work/out")" -eq $((warnings + errors)) ] || { cat "$work/out"; exit 1; }
  "$cc" "${flags[@]}" -Wno-nvm "$source" 2>"$work/out" || [ "$errors" -gt 0 ]
  ! grep -q 'warning: ' "$work/out" || { cat "$work/out"; exit 1; }
fi
# Each with file, line and column.
"$cc" "${flags[@]}" "$source" 2>"$work/out" || [ "$errors" -gt 0 ]
! grep -E ' (warning|error): ' "$work/out" | grep -vE "^[^ ]*$(basename "$source"):[0-9]+:[0-9]+: " ||
  { echo "a diagnostic without its place" >&2; exit 1; }

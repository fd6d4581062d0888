#!/usr/bin/env bash
# run_foreign.sh <holdfast-cc> <foreign.c>: foreign memory within the window of pools is no error, checked build or not.
set -euo pipefail
cc=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for flags in -O0 -O2 "-O2 -fnvm-check"; do
  # shellcheck disable=SC2086  # one word a flag
  "$cc" -Wall -Wextra -Werror $flags "$source" -o "$work/foreign"
  found=$("$work/foreign")
  [ "$found" = 7 ] || { echo "$flags: found '$found', expected 7" >&2; exit 1; }
done

#!/usr/bin/env bash
# run_program.sh <holdfast-cc> <source> <flag>...: the program prints "done"; what it does with `ended` ends it with the
# place in its sources.
set -euo pipefail
cc=$1 source=$2
shift 2
case $source in *.cpp) cc=$(dirname "$cc")/holdfast-c++ ;; esac
work=$(mktemp -d)
pool=$(mktemp -u /dev/shm/holdfast-cc-XXXXXX)
trap 'rm -rf "$work" "$pool"' EXIT

read -ra libraries < <(sed -n 's|^/\* LIBRARIES: \(.*\) \*/$|\1|p' "$source"; echo)
"$cc" -Wall -Wextra -Werror -g "$@" "$source" -o "$work/program" "${libraries[@]}"
[ "$("$work/program" "$pool")" = "done" ]
if grep -q 'LINE ended' "$source"; then
  rm -f "$pool"
  line=$(grep -n 'LINE ended' "$source" | cut -d: -f1)
  status=0
  "$work/program" "$pool" ended >"$work/out" 2>"$work/err" || status=$?
  if [ "$status" -ne 134 ] || ! grep -q ":$line:.*into a transaction that has ended" "$work/err"; then
    echo "exit code $status, expected 134 and the place:" >&2
    cat "$work/out" "$work/err" >&2
    exit 1
  fi
fi

#!/usr/bin/env bash
# explained_test.sh <holdfast-cc> <examples>: for each store of the examples one remark says whether it was logged and
# why, and the statistics agree.
set -euo pipefail
cc=$1 examples=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for source in "$examples"/*/*_compiled.c "$examples"/list/list_durable.c; do
  for level in -O0 -O2; do
    "$cc" -std=gnu11 $level -g -I"$examples" -DINDEX_DURABLE -Rpass=nvm-log -fnvm-stats \
      -c "$source" -o "$work/out.o" 2>"$work/said"
    remarks=$(grep -c 'remark: .*\[-Rpass=nvm-log\]' "$work/said")
    stores=$(sed -n 's/.*: \([0-9]*\) stores; .*/\1/p' "$work/said")
    if [ "$stores" -eq 0 ] || [ "$remarks" -ne "$stores" ]; then
      printf '%s %s: %s remarks for %s stores\n' "$source" "$level" "$remarks" "$stores" >&2
      exit 1
    fi
    unplaced=$(grep 'remark:' "$work/said" | grep -cvE ':[1-9][0-9]*:[0-9]+: remark:' || true)
    if [ "$unplaced" -ne 0 ]; then
      printf '%s %s: %s remarks without a line\n' "$source" "$level" "$unplaced" >&2
      exit 1
    fi
    printf '%s %s: %s stores, each explained\n' "${source##*/}" "$level" "$stores"
  done
done

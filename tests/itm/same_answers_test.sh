#!/usr/bin/env bash
# A program that was linked with GCC's libitm gives the same answer with that one, with ours, and with ours over a pool
# in memory, one of the log-structured engine, and one on a disk.
# usage: same_answers_test.sh <folder with libitm.so.1 of ours> <holdfast> <program> [arguments]
set -euo pipefail
library=$1 holdfast=$2
shift 2
# shellcheck source=tests/itm/testing.sh
. "$(dirname "$0")/testing.sh"

"$@" >"$folder/libitm"
with_ours "" "$@" >"$folder/volatile"
LD_PRELOAD=$library/libitm.so.1 "$@" >"$folder/preloaded"
with_ours "$folder/pool" "$@" >"$folder/memory"
log_pool
with_ours "$folder/log" "$@" >"$folder/log-structured"
with_ours "$disk/pool" "$@" >"$folder/disk"
for pool in "$folder/pool" "$disk/pool"; do
  [ -s "$pool" ] || fail "there is no pool $pool"
done
for way in volatile preloaded memory log-structured disk; do
  cmp "$folder/libitm" "$folder/$way" || fail "$way: another answer"
done
# What was done is there: nothing is left to do, and the answer stands.
with_ours "$folder/pool" "$@" >"$folder/again"
diff "$folder/libitm" "$folder/again" || fail "the pool has another answer"
cat "$folder/libitm"

#!/usr/bin/env bash
# A durable run that is killed again and again comes to the answer of one that is not.
# usage: killed_test.sh <folder with libitm.so.1 of ours> <holdfast command> <kills> <disk|memory> <program> <operations>
#   [arguments]
set -euo pipefail
library=$1 command=$2 kills=$3 where=$4
shift 4
# shellcheck source=tests/itm/testing.sh
. "$(dirname "$0")/testing.sh"
pool=$folder/pool
[ "$where" = memory ] || pool=$disk/pool

# run_killed <program> <operations> [arguments]: until it is done; sets $killed
run_killed() {
  local program status
  with_ours "" "$@" >"$folder/expected"
  rm -f "$pool"
  # Made before: a process that is killed while it makes a pool leaves a file that has to be removed.
  "$command" create --quiet --size 64M "$pool"
  killed=0
  while [ "$killed" -lt "$kills" ]; do
    HOLDFAST_ITM_POOL=$pool LD_LIBRARY_PATH=$library "$@" >"$folder/answer" 2>"$folder/said" &
    program=$!
    sleep "0.0$((RANDOM % 50 + 10))"
    kill -KILL "$program" 2>/dev/null || true
    status=0
    wait "$program" 2>/dev/null || status=$?
    [ "$status" -eq 137 ] || break # it was done before
    killed=$((killed + 1))
    "$command" check "$pool" >"$folder/check" 2>&1 ||
      { cat "$folder/check" >&2; fail "the pool is damaged after $killed kills"; }
  done
  with_ours "$pool" "$@" >"$folder/answer" 2>"$folder/said" || { cat "$folder/said" >&2; fail "the last run failed"; }
  diff "$folder/expected" "$folder/answer" || fail "another answer after $killed kills"
}

# A machine that is busy may be done before it is killed: then it has twice as much to do.
program=$1 operations=$2
shift 2
for _ in 1 2 3 4 5; do
  run_killed "$program" "$operations" "$@"
  [ "$killed" -lt 3 ] || break
  operations=$((2 * operations))
done
[ "$killed" -ge 3 ] || fail "only $killed kills: the program is too short"
printf '%s kills, the same answer\n' "$killed"

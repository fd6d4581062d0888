#!/usr/bin/env bash
# What libnvm-itm says when it cannot do what it was asked for, and that nothing is lost then.
# usage: errors_test.sh <folder with libitm.so.1 of ours> <holdfast command> <itm_ledger> <itm_faults>
set -euo pipefail
library=$1 command=$2 ledger=$3 faults=$4
# shellcheck source=tests/itm/testing.sh
. "$(dirname "$0")/testing.sh"

# refuses <words of the message> <pool> <program> [arguments]: the process ends by itself, with the message.
refuses() {
  local words=$1 status=0
  shift
  (ulimit -c 0 && with_ours "$@") >"$folder/out" 2>&1 || status=$?
  [ "$status" -eq 134 ] || { cat "$folder/out" >&2; fail "$*: exit code $status"; }
  grep -q -- "$words" "$folder/out" || { cat "$folder/out" >&2; fail "$*: no word of '$words'"; }
}

refuses "no/such/folder" "$folder/no/such/folder/pool" "$ledger" 10 1
printf 'this is no pool' >"$folder/text"
refuses "$folder/text" "$folder/text" "$ledger" 10 1
[ "$(cat "$folder/text")" = "this is no pool" ] || fail "the foreign file was changed"
for size in many 0 12X -5 99999999999999999999; do
  export HOLDFAST_ITM_SIZE=$size
  refuses "HOLDFAST_ITM_SIZE=$size" "$folder/sized" "$ledger" 10 1
  [ ! -e "$folder/sized" ] || fail "a pool of size $size was made"
done
export HOLDFAST_ITM_SIZE=1M
with_ours "$folder/sized" "$ledger" 10 1 >/dev/null 2>&1
[ "$("$command" info --json "$folder/sized" | python3 -c 'import json, sys; print(json.load(sys.stdin)["size_bytes"])')" \
  -eq 1048576 ] || fail "the pool has another size"
unset HOLDFAST_ITM_SIZE
# The pool has another program's root.
with_ours "$folder/other" "$faults" small >/dev/null
if with_ours "$folder/other" "$ledger" 10 1 >"$folder/out" 2>&1; then fail "the ledger took a root of 16 bytes"; fi
grep -q "root has 16 bytes" "$folder/out" || fail "no word of the root"

refuses "no transactional clone" "" "$faults" clone
refuses "cannot be cancelled" "" "$faults" cancel
refuses "cannot be freed" "$folder/pool" "$faults" free
refuses "outside of a transaction" "" "$faults" outside
# A full pool: what the transaction did is gone, what was there is there.
for what in full new; do
  rm -f "$folder/pool"
  refuses "cannot commit" "$folder/pool" "$faults" "$what"
  "$command" check "$folder/pool" >/dev/null || fail "the full pool is damaged"
  [ "$(with_ours "$folder/pool" "$faults" read)" = 1 ] || fail "the last commit before is lost"
done
# Cancelled, it goes on.
rm -f "$folder/pool"
[ "$(with_ours "$folder/pool" "$faults" cancelled)" = "full, goes on: 2" ] || fail "the full pool is not usable"

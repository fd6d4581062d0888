#!/usr/bin/env bash
# Histories of key-value stores: four threads call a store of each index on each engine, in processes that are killed
# again and again; then some order of the calls has to explain what all of them were told, for each key.
#
# usage: stores.sh [--minutes N]
#   --minutes  10 when not given; a round of all engines and indexes is always finished
# Exit code: 0 every history has such an order, 1 one has none, 2 wrong usage. HOLDFAST_BUILD names a build folder to
# use as it is; without it the release preset is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '5,6s/^# \{0,1\}//p' tests/history/stores.sh >&2; exit 2; }

minutes=10
if [ $# -gt 0 ]; then
  if [ $# -ne 2 ] || [ "$1" != --minutes ]; then usage; fi
  minutes=$2
fi
case "$minutes" in '' | *[!0-9]*) usage ;; esac
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build release history_stores_test
fi
program=${HOLDFAST_BUILD:-$PWD/build/release}/tests/history/history_stores_test
[ -x "$program" ] || { printf 'stores: there is no %s\n' "$program" >&2; exit 2; }

rounds=0
kills=0
calls=0
cut_off=0
code=0
while [ "$rounds" -eq 0 ] || [ $((SECONDS / 60)) -lt "$minutes" ]; do
  out=$("$program" --gtest_brief=1 --gtest_filter='*through_kills*') || code=1
  # Lines "12 kills, 19895 calls, 27 cut off", one for each engine and index.
  while read -r k _ c _ o _; do
    kills=$((kills + k))
    calls=$((calls + c))
    cut_off=$((cut_off + o))
  done < <(printf '%s\n' "$out" | grep ' kills, ' || true)
  rounds=$((rounds + 1))
  if [ "$code" -ne 0 ]; then
    printf '%s\n' "$out"
    break
  fi
done
printf '%d rounds, %d kills, %d calls, %d cut off: %s\n' "$rounds" "$kills" "$calls" "$cut_off" \
  "$([ "$code" -eq 0 ] && echo right || echo wrong)"
exit "$code"

#!/usr/bin/env bash
# Histories of regions: four threads append, write, make, drop and run groups on a few regions, in memory and on a disk,
# in processes that are killed again and again; then some order has to explain what all of them were told: of
# transactions, and of the calls on each region.
#
# usage: regions.sh [--minutes N]
#   --minutes  10 when not given; a round of all media is always finished, and each round begins with new pools
# Exit code: 0 every history has such an order, 1 one has none, 2 wrong usage. HOLDFAST_BUILD names a build folder to
# use as it is; without it the release preset is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '6,7s/^# \{0,1\}//p' tests/history/regions.sh >&2; exit 2; }

minutes=10
if [ $# -gt 0 ]; then
  if [ $# -ne 2 ] || [ "$1" != --minutes ]; then usage; fi
  minutes=$2
fi
case "$minutes" in '' | *[!0-9]*) usage ;; esac
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build release history_regions_test
fi
program=${HOLDFAST_BUILD:-$PWD/build/release}/tests/history/history_regions_test
[ -x "$program" ] || { printf 'regions: there is no %s\n' "$program" >&2; exit 2; }

stopped=
trap 'stopped=1' INT TERM
rounds=0
kills=0
transactions=0
calls=0
cut_off=0
code=0
while [ -z "$stopped" ] && { [ "$rounds" -eq 0 ] || [ $((SECONDS / 60)) -lt "$minutes" ]; }; do
  out=$("$program" --gtest_brief=1 --gtest_filter='*through_kills*') || code=1
  if [ -n "$stopped" ]; then code=0; break; fi
  # Lines "24 kills, 34004 transactions, 30497 calls, 104 cut off", one for each medium.
  while read -r k _ t _ c _ o _; do
    kills=$((kills + k))
    transactions=$((transactions + t))
    calls=$((calls + c))
    cut_off=$((cut_off + o))
  done < <(printf '%s\n' "$out" | grep ' kills, ' || true)
  rounds=$((rounds + 1))
  if [ "$code" -ne 0 ]; then
    printf '%s\n' "$out"
    break
  fi
done
printf '%d rounds, %d kills, %d transactions, %d calls, %d cut off: %s\n' "$rounds" "$kills" "$transactions" "$calls" \
  "$cut_off" "$([ "$code" -eq 0 ] && echo right || echo wrong)"
exit "$code"

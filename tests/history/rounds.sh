#!/usr/bin/env bash
# Rounds of a test of histories through kills, until the minutes are over; regions.sh and stores.sh say of what.
#
# usage: rounds.sh <suite> [--minutes N]
#   suite      of history_kills_tests: its tests named *through_kills* are run, and print lines such as
#              "24 kills, 34004 transactions, 30497 calls, 104 cut off", whose numbers are added up
#   --minutes  10 when not given; a round is always finished
# Exit code: 0 every history has an order that explains it, 1 one has none, 2 wrong usage. HOLDFAST_BUILD names a build
# folder to use as it is; without it the release preset is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

suite=${1:?a suite of history_kills_tests}
target=history_kills_tests
shift
minutes=10
if [ $# -gt 0 ]; then
  if [ $# -ne 2 ] || [ "$1" != --minutes ]; then
    printf 'usage: [--minutes N]\n' >&2
    exit 2
  fi
  minutes=$2
fi
case "$minutes" in
  '' | *[!0-9]*) printf "minutes: found '%s', expected a number\n" "$minutes" >&2; exit 2 ;;
esac
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build release "$target"
fi
program=${HOLDFAST_BUILD:-$PWD/build/release}/tests/history/$target
[ -x "$program" ] || { printf 'rounds: there is no %s\n' "$program" >&2; exit 2; }

# sums <lines: "2 kills, 3 calls">: one such line
sums() {
  awk -F', ' '
    { for (i = 1; i <= NF; i++) {
        number = $i + 0; what = $i; sub(/^ *[0-9]+ /, "", what)
        if (!(what in sum)) order[++count] = what
        sum[what] += number } }
    END { for (i = 1; i <= count; i++) printf "%s%d %s", (i > 1 ? ", " : ""), sum[order[i]], order[i] }'
}

stopped=
trap 'stopped=1' INT TERM
rounds=0
lines=
code=0
while [ -z "$stopped" ] && { [ "$rounds" -eq 0 ] || [ $((SECONDS / 60)) -lt "$minutes" ]; }; do
  out=$("$program" --gtest_brief=1 --gtest_filter="*/$suite.*through_kills*") || code=1
  if [ -n "$stopped" ]; then code=0; break; fi
  lines+=$(printf '%s\n' "$out" | grep ' kills, ' || true)$'\n'
  rounds=$((rounds + 1))
  if [ "$code" -ne 0 ]; then
    printf '%s\n' "$out"
    break
  fi
done
printf '%d rounds, %s: %s\n' "$rounds" "$(printf '%s' "$lines" | sed '/^$/d' | sums)" \
  "$([ "$code" -eq 0 ] && echo right || echo wrong)"
exit "$code"

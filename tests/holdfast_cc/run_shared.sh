#!/usr/bin/env bash
# run_shared.sh <holdfast-cc> <programs> <flag>...: a checked build reports bytes that two open transactions have
# announced, with both places, and is silent where a file says so.
set -euo pipefail
cc=$1 programs=$2
shift 2
work=$(mktemp -d)
pools=$(mktemp -d /dev/shm/holdfast-cc-XXXXXX)
trap 'rm -rf "$work" "$pools"' EXIT
cd "$work"
unset NVM_CHECK NVM_CHECK_SUPPRESSIONS

"$cc" -fnvm-check -Wall -Werror -Wno-nvm "$@" "$programs/shared.c" -o shared -pthread

fail() { echo "$1" >&2; cat err >&2; exit 1; }
run() { rm -f "$pools"/*; timeout 60 ./shared "$pools/a" "$1" >out 2>err; }
line_of() { grep -n "LINE $1 " "$programs/shared.c" | cut -d: -f1; }

for what in neighbours committed aborted ordered level; do
  run "$what" || fail "$what: failed"
  [ ! -s err ] || fail "$what: a report where there is nothing wrong:"
done

for what in same ranges; do
  report="shared.c:$(line_of "$what"):[0-9]+: holdfast: store of [0-9]+ bytes at 0x[0-9a-f]+: another open transaction has \
announced some of them, and either may roll back the other's, at .*shared.c:$(line_of "$what-first"):[0-9]+ \(in \
store_first\) \(in store_second\)"
  [ "$what" != same ] || report_of_same=$report
  status=0
  run "$what" || status=$?
  [ "$status" -eq 134 ] || fail "$what: exit code $status, expected 134 (abort)"
  grep -qE "$report" err || fail "$what: no report of both places:"
  NVM_CHECK=report run "$what" || fail "$what: NVM_CHECK=report: failed"
  { [ "$(wc -l <err)" -eq 1 ] && grep -qE "$report" err; } || fail "$what: expected one report:"
done

# A suppression is by kind and by function or file of one of the places.
export NVM_CHECK_SUPPRESSIONS=$work/known
for line in 'shared:store_second' 'shared:store_fi*' '*:*shared.c' '  shared:*  '; do
  printf '# known\n\n%s\n' "$line" >known
  run same || fail "'$line' suppresses nothing:"
  [ ! -s err ] || fail "'$line' leaves:"
done
for line in 'shared:store' 'outside:store_second' 'shared:*.h' '#shared:*'; do
  echo "$line" >known
  status=0
  run same || status=$?
  { [ "$status" -eq 134 ] && grep -qE "$report_of_same" err; } || fail "'$line' suppresses it:"
done
refused() {
  printf '%s\n' "$1" >known
  run same && fail "'$1' is taken"
  grep -qF "$2" err || fail "'$1' is not refused with '$2':"
}
refused 'shard:*' "known:1: holdfast: no such kind of report: expected unlogged,"
refused 'shared' "known:1: holdfast: expected a kind of report, a colon, and a name"
refused 'shared:' "known:1: holdfast: expected a kind of report, a colon, and a name"
for kind in missing folder; do
  rm -f known
  [ "$kind" = missing ] || mkdir known
  run same && fail "a $kind is taken for the file"
  grep -qF "known: holdfast: the file of NVM_CHECK_SUPPRESSIONS cannot be read" err || fail "no sentence about a $kind:"
done
echo ok

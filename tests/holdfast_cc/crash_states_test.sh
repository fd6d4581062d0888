#!/usr/bin/env bash
# crash_states_test.sh <holdfast-cc> <holdfast> <transformations.c> <flag>...: each thing that the pass does, under the
# explorer: whatever a crash leaves, a transaction is there whole or not at all.
set -euo pipefail
cc=$1 holdfast=$2 source=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cc" -fnvm-record -Wall -Wextra -Werror "$@" "$source" -o "$work/program"
"$cc" "$@" "$source" -o "$work/check"
"$holdfast" crash-test --budget 4 --check "$work/check {pool} check" -- "$work/program" '{pool}'
# One log call that is missing is found.
"$cc" -fnvm-record -mllvm -nvm-log-plant=library-calls-forgotten "$@" "$source" -o "$work/wrong"
for budget in 4 60; do # a machine that is busy has little of the first one
  status=0
  "$holdfast" crash-test --budget "$budget" -- "$work/wrong" '{pool}' >"$work/report" || status=$?
  [ "$status" -eq 0 ] || break
done
if [ "$status" -ne 1 ] || ! grep -q 'transformations.c:' "$work/report"; then
  echo "a log call that was left out wrongly: exit code $status, expected 1 and its place:" >&2
  cat "$work/report" >&2
  exit 1
fi

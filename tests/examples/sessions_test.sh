#!/usr/bin/env bash
# usage: sessions_test.sh SESSIONS HOLDFAST: sessions end by themselves, are swept, and survive kills with their index.
set -euo pipefail
sessions=$1
holdfast=$2
folder=$(mktemp -d /dev/shm/holdfast-sessions.XXXXXX)
trap 'rm -rf "$folder"' EXIT
pool=$folder/pool

fail() { printf 'sessions_test: %s\n' "$1" >&2; exit 1; }
# expect <code> <output> <argument>...
expect() {
  local code=0 output wanted_code=$1 wanted=$2
  shift 2
  output=$("$sessions" "$@" 2>/dev/null) || code=$?
  [ "$code" -eq "$wanted_code" ] || fail "$*: found exit code $code, expected $wanted_code"
  [ "$output" = "$wanted" ] || fail "$*: found \"$output\", expected \"$wanted\""
}

expect 0 '' --now 1000 "$pool" put ann 'a basket' 60
expect 0 '' --now 1000 "$pool" put bob 'nothing yet' 10
expect 0 'a basket' --now 1059 "$pool" get ann
expect 0 'nothing yet' --now 1009 "$pool" get bob
expect 1 '' --now 1010 "$pool" get bob
expect 1 '' --now 1010 "$pool" prolong bob 60
expect 0 '' --now 1050 "$pool" prolong ann 100
expect 0 'a basket' --now 1149 "$pool" get ann
expect 0 2 "$pool" count
expect 0 1 --now 1100 "$pool" sweep
expect 0 1 "$pool" count
expect 0 '' "$pool" end ann
expect 0 '' "$pool" end ann
expect 0 0 "$pool" count
expect 2 '' "$pool" put ann content soon
expect 2 '' "$pool" nothing
expect 0 '' "$pool" check

for _ in 1 2 3 4 5; do
  "$sessions" "$pool" churn 1000000000 >"$folder/output" &
  child=$!
  until grep -q thousand "$folder/output"; do
    kill -0 "$child" 2>/dev/null || fail 'churn ended by itself'
    read -rt 0.02 <> <(:) || true
  done
  kill -9 "$child"
  wait "$child" 2>/dev/null || true
  expect 0 '' "$pool" check
  "$holdfast" check "$pool" >/dev/null || fail 'holdfast check finds the pool damaged'
done

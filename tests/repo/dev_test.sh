#!/usr/bin/env bash
# ./dev answers wrong use with exit code 2 and a sentence, and help with the verbs.
set -euo pipefail
cd "$(dirname "$0")/../.."
export HOLDFAST_NO_SETUP=1

# expect <exit code> <text> <argument...>
expect() {
  local code=$1 text=$2 output status=0
  shift 2
  output=$(./dev "$@" 2>&1) || status=$?
  if [ "$status" -ne "$code" ] || [[ "$output" != *"$text"* ]]; then
    printf './dev %s: exit code %d, expected %d with "%s"; it printed:\n%s\n' \
      "$*" "$status" "$code" "$text" "$output"
    exit 1
  fi
}

expect 0 "usage: ./dev <verb>" help
expect 0 "usage: ./dev <verb>"
expect 2 "no verb 'frobnicate'; verbs: setup build test" frobnicate
expect 2 "no preset 'fast'; presets: release" build fast
expect 2 "no preset 'fast'; presets: release" test fast
expect 0 "test quick" help
expect 2 "test quick takes no further arguments" test quick -R undo
expect 2 "unknown argument '--what'" lint --what
expect 2 "port needs a name; there are: advisor dropin gawk lua memcached redis unqlite" port
expect 2 "the port of vi is absent" port vi
expect 2 "no port '../tests'" port ../tests
expect 2 "unknown argument '--what'" setup --what

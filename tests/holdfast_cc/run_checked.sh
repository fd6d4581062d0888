#!/usr/bin/env bash
# run_checked.sh <holdfast-cc> <programs> <flag>...: a checked build names the place of each mistake, and of nothing
# else.
set -euo pipefail
cc=$1 programs=$2
shift 2
work=$(mktemp -d)
pools=$(mktemp -d /dev/shm/holdfast-cc-XXXXXX)
trap 'rm -rf "$work" "$pools"' EXIT
cd "$work"

"$cc" -fno-nvm -O1 -c "$programs/elsewhere.c" -o elsewhere.o
"$cc" -fnvm-check -Wall -Werror -Wno-nvm -Wnvm-lock "$@" "$programs/wrong.c" elsewhere.o -o wrong

run() { rm -f "$pools"/*; ./wrong "$pools/a" "$pools/b" "$1" >out 2>err; }

run nothing || { cat err >&2; exit 1; }
[ ! -s err ] || { echo "a report where there is nothing wrong:" >&2; cat err >&2; exit 1; }
source=wrong.c
# expect <what> <text>: at its line; in a header of the C++ library that calls: in_header <what> <text>
in_header() { place='[a-z_]+\.h:[0-9]+' expect "$@"; }
expect() {
  local line status=0
  line=$(grep -n "LINE $1 " "$programs/$source" | cut -d: -f1)
  run "$1" || status=$?
  [ "$status" -eq 134 ] || { echo "$1: exit code $status, expected 134 (abort)" >&2; cat err >&2; exit 1; }
  grep -qE "${place:-$source:$line}:[0-9]+: holdfast: .*$2" err || {
    echo "$1: no '$2' in line $line:" >&2
    cat err >&2
    exit 1
  }
  status=0
  NVM_CHECK=report run "$1" || status=$?
  if [ "$status" -ne 0 ] || ! grep -q "done" out || [ ! -s err ] || [ "$(wc -l <err)" -gt "${most:-1}" ]; then
    echo "$1: with NVM_CHECK=report: exit code $status, expected 0 and ${most:-1} line:" >&2
    cat err >&2
    exit 1
  fi
}
expect volatile 'receives a pointer to volatile memory'
expect heap 'receives a pointer to volatile memory'
expect foreign 'receives a pointer to another pool'
expect unlogged 'change_unlogged changed 4 bytes of a durable object.*which nobody logged'
expect pointer 'called through a pointer changed 4 bytes of a durable object.*which nobody logged'
expect lock 'sem_post gets a lock in durable memory'
expect naked 'bare changed 1 bytes of a durable object.*which nobody logged'
expect buried 'change_buried changed 1 bytes of a durable object.*which nobody logged'
expect kept 'setvbuf gets durable memory, .*, and nobody can say what it writes there'
expect ended 'store of 8 bytes to durable memory .* outside a transaction'
expect outside 'store of 8 bytes to durable memory .* outside a transaction'
expect memset 'store of 48 bytes to durable memory .* outside a transaction'
expect strcpy 'store of [0-9]+ bytes to durable memory .* outside a transaction'

# What names no function: virtual ones, pointers, members, std::function.
"${cc%cc}c++" -fno-nvm -O1 -std=c++20 -c "$programs/elsewhere.cpp" -o elsewhere_cpp.o
"${cc%cc}c++" -fnvm-check -Wall -Werror -Wno-nvm -std=c++20 "$@" "$programs/wrong_calls.cpp" elsewhere_cpp.o -o wrong
source=wrong_calls.cpp
run nothing || { cat err >&2; exit 1; }
[ ! -s err ] || { echo "a report where there is nothing wrong:" >&2; cat err >&2; exit 1; }
unlogged='changed 4 bytes of a durable object.*which nobody logged'
for what in virtual inside pointer; do expect "$what" "called through a pointer $unlogged"; done
most=2 expect bound "called through a pointer $unlogged"  # by the body, and by the call of what holds it
expect member "$unlogged"
in_header function "called through a pointer $unlogged"
place='[a-z_]+\.(h|cpp):[0-9]+' expect given "$unlogged"
echo ok

#!/usr/bin/env bash
# run_list.sh <holdfast-cc> <list.c> <directory> <flag>...: the list, compiled with these flags, takes back what it
# aborts and finds after its death what it committed.
set -euo pipefail
cc=$1 source=$2 where=$3
shift 3
work=$(mktemp -d)
pool=$(mktemp -u "$where/holdfast-cc-XXXXXX")
trap 'rm -rf "$work" "$pool"' EXIT

"$cc" -Wall -Wextra -Werror "$@" "$source" -o "$work/list"
[ "$("$work/list" "$pool" 5)" = "10 nodes" ]
status=0
"$work/list" "$pool" 3 die || status=$?
[ "$status" -eq 137 ] || { echo "found exit code $status, expected 137 (SIGKILL)" >&2; exit 1; }
[ "$("$work/list" "$pool" 1)" = "18 nodes" ]

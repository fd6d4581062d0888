#!/usr/bin/env bash
# The main job, on each medium: an index over texts, made in a durable pool by an ordinary C program that holdfast-cc
# compiled, and a store of blobs that keeps each in a region. Each program is killed with SIGKILL at random moments again
# and again and restarted until it finishes; its result must be, byte for byte, that of the volatile program.
#
# usage: run.sh [--kills N] [--seed N] [--medium shm|ssd] [--folder DIR] [--files TEXT...]
#   --kills    per program and medium, 50 when not given
#   --medium   only this one
#   --folder   for the pool on ssd; when not given, below the build folder
#   --files    texts to index, by default the licence texts that every Debian has
# HOLDFAST_BUILD names the build folder. Exit code: 0 all identical, 1 not so, 2 wrong usage or no text.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${HOLDFAST_BUILD:-$here/../build/release}
programs=$build/examples

usage() { sed -n '6,10s/^# \{0,1\}//p' "$here/run.sh" >&2; exit 2; }
fail() { printf 'run: %s\n' "$1" >&2; exit "${2:-1}"; }

kills=50
seed=$(date +%s)
media=(shm ssd)
folder=$build/run
files=()
while [ $# -gt 0 ]; do
  case "$1" in
    --kills | --seed | --medium | --folder) [ $# -ge 2 ] || usage ;;&
    --kills) kills=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    --medium) media=("$2"); shift 2 ;;
    --folder) folder=$2; shift 2 ;;
    --files)
      shift
      while [ $# -gt 0 ] && [ "${1#--}" = "$1" ]; do files+=("$1"); shift; done
      [ ${#files[@]} -gt 0 ] || fail "no text found: --files names none" 2
      files=(--files "${files[@]}")
      ;;
    *) usage ;;
  esac
done
case "$kills" in '' | *[!0-9]* | 0) fail "--kills $kills: expected a number above 0" 2 ;; esac
case "${media[0]}" in shm | ssd) ;; *) fail "--medium ${media[0]}: expected shm or ssd" 2 ;; esac
for program in index_volatile index_compiled blobs_volatile blobs_durable kill_driver; do
  [ -x "$programs/$program" ] || fail "$programs/$program is absent: build first" 2
done
shm_folder=
if [ ${#media[@]} -gt 1 ] || [ "${media[0]}" = shm ]; then shm_folder=$(mktemp -d /dev/shm/holdfast-run.XXXXXX); fi
# What a failure leaves is for the reader; what is left otherwise is removed.
finish() {
  if [ -d "$shm_folder" ] && ! rmdir "$shm_folder" 2>/dev/null; then
    printf 'run: the files are in %s\n' "$shm_folder" >&2
  fi
}
trap finish EXIT

start=$SECONDS
rows=
status=0
# killed_on <medium> <driver argument>...: adds a row to the table.
killed_on() {
  local medium=$1 at=$folder code=0 report
  shift
  if [ "$medium" = shm ]; then at=$shm_folder; fi
  report=$("$programs/kill_driver" --medium "$medium" --folder "$at" --kills "$kills" --seed "$seed" --check "$@") ||
    code=$?
  [ "$code" -ne 2 ] || exit 2
  if [ "$code" -eq 0 ]; then
    printf '%s\n' "$report" | sed '$d'
    rows+=$(printf '%s\n' "$report" | tail -n 1)$'\n'
  else
    status=1
    rows+="$medium  FAILED"$'\n'
  fi
}

printf 'An index over texts, and a store of blobs, killed and restarted (seed %s)\n' "$seed"
for medium in "${media[@]}"; do
  killed_on "$medium" --volatile "$programs/index_volatile" --durable "$programs/index_compiled" "${files[@]}"
  killed_on "$medium" --name blobs --volatile "$programs/blobs_volatile" --durable "$programs/blobs_durable"
done
printf '\n'
"$programs/kill_driver" --header
printf '%s%d s in all\n' "$rows" $((SECONDS - start))
[ "$status" -eq 0 ] || fail "a durable run did not do what its volatile twin does"

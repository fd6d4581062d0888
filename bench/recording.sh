#!/usr/bin/env bash
# What does recording cost?  The hash table of the crash tests, changed many times: built by holdfast-cc as ever, its
# pool on shared memory (the volatile run: nothing is written back), and built with -fnvm-record, idle and recording.
#
#   usage: bench/recording.sh [operations] [runs]      (HOLDFAST_BUILD: default build/measure)
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
build=${HOLDFAST_BUILD:-$here/build/measure}
operations=${1:-200000}
runs=${2:-7}
cc=$build/bin/holdfast-cc
source=$here/tests/crash_test/programs/table.c
work=$(mktemp -d /dev/shm/holdfast-recording.XXXXXX)
trap 'rm -rf "$work"' EXIT

"$cc" -O2 -fno-nvm "$source" -o "$work/plain"
"$cc" -O2 -fno-nvm -fnvm-record "$source" -o "$work/recorded"

# Processor time of one run in milliseconds: user and system.
milliseconds() {
  rm -f "$work/pool" "$work/trace"
  local spent
  spent=$( { TIMEFORMAT='%U %S'; time "$@" "$work/pool" "$operations" >"$work/output" 2>&1; } 2>&1 )
  awk '{ printf "%d\n", ($1 + $2) * 1000 }' <<<"$spent"
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

plain=() idle=() recording=()
for _ in $(seq "$runs"); do
  plain+=("$(milliseconds "$work/plain")")
  idle+=("$(milliseconds "$work/recorded")")
  recording+=("$(milliseconds env HOLDFAST_RECORD="$work/trace" HOLDFAST_RECORD_BYTES=4294967296 "$work/recorded")")
done
volatile_ms=$(printf '%s\n' "${plain[@]}" | median)
idle_ms=$(printf '%s\n' "${idle[@]}" | median)
recording_ms=$(printf '%s\n' "${recording[@]}" | median)
awk -v v="$volatile_ms" -v i="$idle_ms" -v r="$recording_ms" -v n="$operations" -v runs="$runs" -v \
  bytes="$(stat -c %s "$work/trace")" 'BEGIN {
  printf "%d operations, median of %d runs, processor time\n", n, runs
  printf "  volatile run           %6d ms  %7.0f ns an operation\n", v, v * 1e6 / n
  printf "  -fnvm-record, idle     %6d ms  %7.0f ns  %.2f times\n", i, i * 1e6 / n, i / v
  printf "  -fnvm-record, recorded %6d ms  %7.0f ns  %.2f times, %d bytes of trace an operation\n",
    r, r * 1e6 / n, r / v, bytes / n
}'

#!/usr/bin/env bash
# Fuzzes what is read from a pool file (direct, ring, log; tier: its second file; pool: files of every engine, through the C interface;
# structures: lock-free structures, stores and type maps in them; regions: regions in them; repair), from calls about regions
# with any arguments (region_calls), from names of object stores (names) and their clusters (stores), from *.unsafe files (unsafe), from entries as
# text (kv_text), from store logs of pmemcheck (pmemcheck) and traces of recorded programs (recording), from profiles (profile), and from clients of
# nv-memcached (memcached), and compiles random programs in many ways, which must not differ (compiler): ./dev fuzz calls
# this.
#
# usage: tests/fuzz/run.sh [--seconds N] [--merge] [TARGET]...
#
# Each target runs N seconds (default 60) on every processor (HOLDFAST_JOBS: on so many), beginning with
# tests/fuzz/corpus/<target> and with what earlier runs found (build/fuzz/corpus/<target>). A finding stays in
# build/fuzz/findings/, and the exit code is 1.
# --merge writes what adds coverage back into tests/fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/../.."

all=(direct ring log tier pool structures regions repair region_calls names stores unsafe kv_text pmemcheck recording profile memcached compiler)
seconds=60
merge=
targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds)
      seconds=${2:?"--seconds needs a number"}
      shift
      ;;
    --merge) merge=1 ;;
    *)
      if [[ " ${all[*]} " != *" $1 "* ]]; then
        printf "fuzz: no target '%s'; there are %s; options --seconds N, --merge\n" "$1" "${all[*]}" >&2
        exit 2
      fi
      targets+=("$1")
      ;;
  esac
  shift
done
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")

status=0
fuzzers=()
for target in "${targets[@]}"; do
  if [ "$target" = compiler ]; then
    HOLDFAST_NO_SETUP=1 ./dev build release holdfast_cc
    printf '\n== %s: %s s\n' "$target" "$seconds"
    tests/holdfast_cc/random/run_random.py --cc build/release/bin/holdfast-cc --seconds "$seconds" \
      --seed "$(date +%s)" --keep build/fuzz/findings/compiler || status=1
  else
    fuzzers+=("$target")
  fi
done
[ ${#fuzzers[@]} -gt 0 ] || exit $status
targets=("${fuzzers[@]}")
HOLDFAST_NO_SETUP=1 ./dev build fuzz "${targets[@]/#/fuzz_}"
for target in "${targets[@]}"; do
  program=build/fuzz/tests/fuzz/fuzz_$target
  grown=build/fuzz/corpus/$target
  kept=tests/fuzz/corpus/$target
  most=225
  case "$target" in region_calls | names | unsafe | kv_text | memcached | pmemcheck | profile | recording) most=4096 ;; esac
  mkdir -p "$grown" "$kept" build/fuzz/findings
  printf '\n== %s: %s s\n' "$target" "$seconds"
  set +e
  "$program" -max_total_time="$seconds" -max_len="$most" -timeout=10 -rss_limit_mb=2048 \
    -fork="${HOLDFAST_JOBS:-$(nproc)}" -artifact_prefix="build/fuzz/findings/$target-" "$grown" "$kept" 2>&1 |
    tee "build/fuzz/$target.log" | grep -E '^#|SUMMARY|broken promise|ERROR'
  if [ "${PIPESTATUS[0]}" -ne 0 ]; then status=1; fi
  set -e
  if [ -n "$merge" ]; then
    "$program" -merge=1 -max_len="$most" "$kept" "$grown"
  fi
done
exit $status

#!/usr/bin/env bash
# Faults at random syncs and growths of pools, and whether what was told is what the next open shows (told_run.hpp).
#
# usage: told.sh [--runs N] [--seed S] [--from R]
#   --runs  with a fault that makes sense for the pool and the interface (10000)
#   --seed  a number; when not given, it is derived from the commit
#   --from  goes on with run R of the seed, which the one before has printed (0)
# Exit code: 0 nothing found, 1 something, 2 wrong usage. HOLDFAST_BUILD names a build folder to use as it is; without it
# the preset release is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '4,9s/^# \{0,1\}//p' tests/faults/told.sh >&2; exit 2; }

runs=10000
seed=$((16#$(git rev-parse HEAD | cut -c1-7)))
from=0
while [ $# -gt 0 ]; do
  if [ $# -lt 2 ] || ! [[ $2 =~ ^[0-9]+$ ]]; then usage; fi
  case "$1" in
    --runs) runs=$2 ;;
    --seed) seed=$2 ;;
    --from) from=$2 ;;
    *) usage ;;
  esac
  shift 2
done
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build release told_test
fi
export NVM_TOLD_RUNS=$runs NVM_TOLD_SEED=$seed NVM_TOLD_FROM=$from
exec "${HOLDFAST_BUILD:-build/release}/tests/faults/told_test" --gtest_filter='told_campaign.*'

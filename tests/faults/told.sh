#!/usr/bin/env bash
# Faults at random syncs, writes and growths of pools: compares the reported results with the state at the next open,
# for every interface of the library (told_run.hpp), then for transactions of the language (libnvm-itm) and for
# nv-memcached's answers, which cost more: a tenth and a fiftieth of the runs.
#
# usage: told.sh [--runs N] [--seed S] [--from R]
#   --runs  with a fault that makes sense for the pool and the interface (10000)
#   --seed  a number; when not given, it is derived from the commit
#   --from  goes on with run R of the seed, which the one before has printed (0), of the library's interfaces alone
# Exit code: 0 nothing found, 1 something, 2 wrong usage. HOLDFAST_BUILD names a build folder to use as it is; without it
# the preset release is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '6,11s/^# \{0,1\}//p' tests/faults/told.sh >&2; exit 2; }

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
build=${HOLDFAST_BUILD:-build/release}
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build release told_test nv_memcached server_failing_calls itm_told nvm_itm holdfast_cli
fi
NVM_TOLD_RUNS=$runs NVM_TOLD_SEED=$seed NVM_TOLD_FROM=$from \
  "$build/tests/faults/told_test" --gtest_filter='told_campaign.*'
if [ "$from" -ne 0 ]; then exit; fi

calls=$(find "$build/tests/server" -name '*server_failing_calls.so' -print -quit)
export NVM_EXPLORE_SEED=$seed
NVM_RUNS=$((runs / 10 + 1)) python3 tests/itm/told_test.py "$build/lib/holdfast/itm" "$build/src/cli/holdfast" \
  "$calls" "$build/tests/itm/itm_told"
server=$(realpath "$build/src/server/nv-memcached")
calls=$(realpath "$calls")
cd tests/server
NVM_RUNS=$((runs / 50 + 1)) exec python3 failing_test.py "$server" "$calls" \
  Failing.test_loses_nothing_acknowledged_wherever_a_call_fails

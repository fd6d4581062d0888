#!/usr/bin/env bash
# Long crash campaigns, beyond what the tests explore on each change.
#
# usage: campaign.sh [--minutes N] [--seed S] [--only MODEL]... [--ledger]
#                                                          random workloads under every model, N minutes in all (5)
#        campaign.sh deep [arguments of ctest]              all deep tiers that tests of the record preset have by turns
#        campaign.sh kills [arguments]                      kills real processes: see kills.sh
#        campaign.sh bank [arguments]                       transfers between accounts, an hour: see ../history/bank.sh
#        campaign.sh lockfree [arguments]                   calls on lock-free structures, and kills, ten minutes: see
#                                                           ../history/lockfree.sh
#        campaign.sh stores [arguments]                     calls on stores, and kills: see ../history/stores.sh
#        campaign.sh regions [arguments]                    calls about regions, and kills: see ../history/regions.sh
#        campaign.sh told [arguments]                       faults at syncs and growths: see ../faults/told.sh
#        campaign.sh damage [arguments]                     damages pools, checks and repairs them: see ../damage/campaign.py
#        campaign.sh intrinsics [--write]                   storing intrinsics and loops, compiled and taken back: see
#                                                           ../holdfast_cc/intrinsics/run.py
#        campaign.sh blocks [arguments]                     crashes of a machine with a disk: see ../blocks/blocks.sh
#        campaign.sh dax [arguments]                        a guest with DAX, and power cuts: see ../dax/dax.sh
#   --seed    a number; when not given, it is derived from the commit
#   --only    these models alone: lockfree/x86, for one
#   --ledger  appends a line for each model to docs/explored.md
# Exit code: 0 no bad state, 1 some, 2 wrong usage. HOLDFAST_BUILD names a build folder of the record preset to use as
# it is; without it the preset is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '4,21s/^# \{0,1\}//p' tests/crash/campaign.sh >&2; exit 2; }

if [ "${1:-}" = deep ]; then
  shift
  NVM_EXPLORE_ALL=1 exec ./dev test record -L explore "$@"
fi

if [ "${1:-}" = kills ]; then
  shift
  exec tests/crash/kills.sh "$@"
fi

if [ "${1:-}" = bank ]; then
  shift
  exec tests/history/bank.sh "$@"
fi

if [ "${1:-}" = damage ]; then
  shift
  if [ -z "${HOLDFAST_BUILD:-}" ]; then
    ./dev build release holdfast_cli damage_pool nv_memcached
    HOLDFAST_BUILD=build/release
  fi
  exec python3 tests/damage/campaign.py --cli "$HOLDFAST_BUILD/src/cli/holdfast" \
    --pools "$HOLDFAST_BUILD/tests/damage/damage_pool" \
    --server "$HOLDFAST_BUILD/src/server/nv-memcached" --ledger "$@"
fi

if [ "${1:-}" = intrinsics ]; then
  shift
  exec tests/holdfast_cc/intrinsics/campaign.sh "$@"
fi

if [ "${1:-}" = lockfree ]; then
  shift
  exec tests/history/lockfree.sh "$@"
fi

if [ "${1:-}" = stores ]; then
  shift
  exec tests/history/stores.sh "$@"
fi

if [ "${1:-}" = regions ]; then
  shift
  exec tests/history/regions.sh "$@"
fi

if [ "${1:-}" = told ]; then
  shift
  exec tests/faults/told.sh "$@"
fi

if [ "${1:-}" = blocks ] || [ "${1:-}" = dax ]; then
  what=$1
  shift
  exec "tests/$what/$what.sh" "$@"
fi

minutes=5
seed=
ledger=
only=()
while [ $# -gt 0 ]; do
  case "$1" in
    --minutes | --seed)
      [ $# -ge 2 ] || usage
      if [ "$1" = --minutes ]; then minutes=$2; else seed=$2; fi
      shift
      ;;
    --only)
      [ $# -ge 2 ] || usage
      only+=(--only "$2")
      shift
      ;;
    --ledger) ledger=yes ;;
    *) usage ;;
  esac
  shift
done
commit=$(git rev-parse HEAD)
if [ -n "$ledger" ]; then
  # A line must be true of the commit that it names.
  if [ -n "${HOLDFAST_BUILD:-}" ] || ! git diff --quiet HEAD -- src include tests/crash; then
    printf 'campaign: --ledger needs a tree without changes, and a build of its own\n' >&2
    exit 2
  fi
fi
if [ -z "$seed" ]; then seed=$((16#${commit:0:7})); fi
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build record crash_campaign
fi
program=${HOLDFAST_BUILD:-$PWD/build/record}/tests/crash/crash_campaign
[ -x "$program" ] || { printf 'campaign: there is no %s\n' "$program" >&2; exit 2; }

printf 'commit %s, seed %s, %s minutes\n' "${commit:0:12}" "$seed" "$minutes"
code=0
table=$("$program" --minutes "$minutes" --seed "$seed" "${only[@]}") || code=$?
printf '%s\n' "$table"
if [ -n "$ledger" ]; then
  day=$(date -u +%Y-%m-%d)
  printf '%s\n' "$table" | tail -n +2 | while read -r model traces states nested failures _; do
    printf '| %s | %s | %s | %s | %s | %s | %s | %s |\n' \
      "$day" "${commit:0:12}" "$seed" "$model" "$traces" "$states" "$nested" "$failures"
  done >>docs/explored.md
fi
exit "$code"

#!/usr/bin/env bash
# Lock-free structures of all kinds, in pools in memory and on a disk: four threads call them in processes that are
# killed again and again, also while they open the pool, and after each kill every acknowledged change has to be there.
#
# usage: lockfree.sh [--minutes N | --seconds N] [--seed N] [--threads N] [--medium shm|ssd]
#   --minutes  10 when not given
# Exit code: 0 nothing was lost, 1 something was, 2 wrong usage. HOLDFAST_BUILD names a build folder to use as it is;
# without it the release preset is built.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build release history_lockfree
fi
program=${HOLDFAST_BUILD:-$PWD/build/release}/tests/history/history_lockfree
[ -x "$program" ] || { printf 'lockfree: there is no %s\n' "$program" >&2; exit 2; }
exec "$program" "$@"

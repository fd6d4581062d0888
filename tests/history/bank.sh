#!/usr/bin/env bash
# The bank: four threads transfer money by barrier transactions on each engine, in processes that are killed again and
# again, and after each kill every acknowledged transfer and the total have to be there.
#
# usage: bank.sh [--minutes N | --seconds N] [--seed N] [--threads N] [--engine NAME]...
#   --minutes  60 when not given
#   --engine   undo, undo-write-back, redo, redo-by-mark, ssd; all when not given
# Exit code: 0 nothing was lost, 1 something was, 2 wrong usage. HOLDFAST_BUILD names a build folder to use as it is;
# without it the release preset is built.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build release history_bank
fi
program=${HOLDFAST_BUILD:-$PWD/build/release}/tests/history/history_bank
[ -x "$program" ] || { printf 'bank: there is no %s\n' "$program" >&2; exit 2; }
exec "$program" "$@"

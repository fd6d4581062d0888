#!/usr/bin/env bash
# Real DAX in a guest: the tests of media, pool, transactions, barriers and the C interface on an ext4 file system mounted
# with dax=always, and a bank whose power is cut again and again. Needs ./dev setup --dax; Debian's kernel is fetched the
# first time. See docs/machine-crashes.md.
#
# usage: dax.sh [--cuts N] [--no-tests] [--engine NAME]... [--seed N] [--threads N] [--plant no-syncs] [--keep DIR]
#   --cuts     20 when not given; 0: tests only
#   --engine   undo, undo-write-back, redo, redo-by-mark, log; all when not given, in turn
#   --plant    leaves out syncs of files and mappings, which must be found
#   --keep     where the guest's memory is kept when something is wrong
# Exit code: 0 nothing was lost and no test failed, 1 something was, 2 wrong usage, 77 this cannot run here.
# HOLDFAST_BUILD names a build folder to use as it is; without it the release preset is built.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v qemu-system-x86_64 >/dev/null || { printf 'dax: skipped: there is no QEMU: ./dev setup --dax\n' >&2; exit 77; }
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build release dax_bank dax_test media_direct_test platform_map_test pool_file_test pool_growth_test \
    pool_open_pools_test pool_creation_crash_test tx_test tx_parked_lanes_test stm_test api_test
fi
build=${HOLDFAST_BUILD:-$PWD/build/release}
[ -x "$build/tests/dax/dax_bank" ] || { printf 'dax: there is no %s\n' "$build/tests/dax/dax_bank" >&2; exit 2; }
mkdir -p build/dax
code=0
python3 tests/dax/dax.py --build "$build" --folder build/dax "$@" | tee build/dax/said || code=$?
if grep -q ' power cuts, ' build/dax/said; then
  printf 'For docs/explored.md:\n%s, at %s: %s\n' "$(date -u +%Y-%m-%d)" "$(git rev-parse --short=8 HEAD)" \
    "$({ head -n 1 build/dax/said; tail -n 1 build/dax/said; } | paste -sd';' | sed 's/;/; /')"
fi
exit "$code"

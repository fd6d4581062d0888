#!/usr/bin/env bash
# Replays blocks: a bank on a pool on ssd, on ext4 or xfs, on a disk that loses, after a crash, any part of what was
# written since the last sync, down to single sectors; mounted, recovered, judged. Needs root and libfuse
# (./dev setup --blocks). See docs/machine-crashes.md.
#
# usage: blocks.sh [--fs ext4|xfs] [--engine NAME]... [--minutes N | --states N] [--seed N] [--threads N]
#                  [--plant no-syncs|few-syncs] [--keep DIR] [--again FILE]
#   --engine   undo, undo-write-back, redo, log; when not given, all that are on ssd, in turn
#   --minutes  1 when not given
#   --plant    leaves out syncs of the pool, which must be found
#   --keep     where a state that is wrong is kept; --again judges it again
# Exit code: 0 nothing was lost, 1 something was, 2 wrong usage, 77 this cannot run here. HOLDFAST_BUILD names a build
# folder to use as it is; without it the release preset is built.
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() { printf 'blocks: skipped: %s\n' "$1" >&2; exit 77; }

[ "$(id -u)" -eq 0 ] || skip "only root may mount file systems"
for device in /dev/fuse /dev/loop-control; do
  [ -e "$device" ] || skip "there is no $device"
done
for tool in mkfs.ext4 mkfs.xfs; do
  command -v "$tool" >/dev/null || skip "there is no $tool: ./dev setup --blocks"
done
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  pkg-config --exists fuse3 || skip "there is no libfuse: ./dev setup --blocks"
  ./dev build release blocks_replay
fi
program=${HOLDFAST_BUILD:-$PWD/build/release}/tests/blocks/blocks_replay
[ -x "$program" ] || { printf 'blocks: there is no %s\n' "$program" >&2; exit 2; }
code=0
said=$(mktemp)
"$program" "$@" | tee "$said" || code=$?
if grep -q '^[0-9]* states and' "$said"; then
  printf 'For docs/explored.md:\n%s, at %s: %s\n' "$(date -u +%Y-%m-%d)" "$(git rev-parse --short=8 HEAD)" \
    "$({ head -n 1 "$said"; tail -n 2 "$said"; } | paste -sd';' | sed 's/;/; /g')"
fi
rm -f "$said"
exit "$code"

#!/usr/bin/env bash
# Every storing intrinsic and loop, at each -march and -O: some minutes.
#
# usage: campaign.sh [--write]
#   --write  makes docs/compiler-stores.md instead of comparing it
# Exit code: 0 nothing is lost, 1 something is, 2 wrong usage. HOLDFAST_BUILD names a build folder to use as it is;
# without it the release preset is built.
set -euo pipefail
cd "$(dirname "$0")/../../.."

if [ $# -gt 1 ] || { [ $# -eq 1 ] && [ "$1" != --write ]; }; then
  sed -n '4,5s/^# \{0,1\}//p' tests/holdfast_cc/intrinsics/campaign.sh >&2
  exit 2
fi
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build release holdfast holdfast_cc nvm_log_pass nvm_rt llvm_writers
  HOLDFAST_BUILD=build/release
fi
clang=$(command -v clang-19 || echo /usr/lib/llvm-19/bin/clang)
opt=$(command -v opt-19 || echo /usr/lib/llvm-19/bin/opt)
exec python3 tests/holdfast_cc/intrinsics/run.py --clang "$clang" --opt "$opt" \
  --cc "$HOLDFAST_BUILD/bin/holdfast-cc" --plugin "$HOLDFAST_BUILD/lib/holdfast/nvm_log_pass.so" \
  --writers "$HOLDFAST_BUILD/tests/holdfast_cc/llvm_writers" --unsafe src/compiler/pass/log/libc.unsafe \
  --table docs/compiler-stores.md "$@"

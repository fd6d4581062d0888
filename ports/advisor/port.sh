#!/usr/bin/env bash
# The advisor on real programs: bc, bzip2 and Lua from their Debian sources, profiled, priced, rewritten, and compared
# with what was predicted.
#
#   ports/advisor/port.sh [PROGRAM]...     bc, bzip2, lua; default: all
# HOLDFAST_BUILD is a build tree with holdfast-cc in it (default: build/release); what is made goes to
# build/ports/advisor.  RUNS: timed runs of each program (default 5); KILLS: kills of each rewritten one (default 20).
# Exit codes: 0 all as it should be, 1 not, 2 something that is needed is missing.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$here/../common.sh"

declare -A package=([bc]=bc=1.07.1-3 [bzip2]=bzip2=1.0.8-5 [lua]=lua5.4=5.4.4-3+deb12u1)

needs holdfast-cc holdfast-rewrite
if [ $# -eq 0 ]; then set -- bc bzip2 lua; fi
for name in "$@"; do
  [ -n "${package[$name]:-}" ] || fail "no program '$name'; there are bc, bzip2, lua" 2
  fetch "${package[$name]}" "$name"
done
exec "$here/measure.py" --build "$build" --work "$work" --runs "${RUNS:-5}" --kills "${KILLS:-20}" "$@"

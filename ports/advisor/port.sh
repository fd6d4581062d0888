#!/usr/bin/env bash
# The advisor on real programs: bc, bzip2 and Lua from their Debian sources, profiled, priced, rewritten, and compared
# with what was predicted.
#
#   ports/advisor/port.sh [PROGRAM]...     bc, bzip2, lua; default: all
# HOLDFAST_BUILD is a build tree with holdfast-cc in it (default: build/release); what is made goes to
# build/ports/advisor.  RUNS: timed runs of each program (default 5); KILLS: kills of each rewritten one (default 20).
# Exit codes: 0 all as it should be, 1 not, 2 something that is needed is missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=${HOLDFAST_BUILD:-$top/build/release}
work=$top/build/ports/advisor
export LC_ALL=C

fail() { printf 'port.sh: %s\n' "$1" >&2; exit "${2:-1}"; }

declare -A package=([bc]=bc=1.07.1-3 [bzip2]=bzip2=1.0.8-5 [lua]=lua5.4=5.4.4-3+deb12u1)

# fetch <program>: the source package, checked, unpacked into <program>/source with Debian's patches.
fetch() {
  local name=$1 folder=$work/$1/fetched
  mkdir -p "$folder"
  grep " $name/" "$here/SHA256SUMS" | sed "s| $name/| |" >"$folder/sums"
  if ! (cd "$folder" && sha256sum --status -c sums 2>/dev/null); then
    "$top/tools/setup.sh" --sources
    (cd "$folder" && apt-get -q source --download-only "${package[$name]}") ||
      fail "the source package ${package[$name]} cannot be had" 2
    (cd "$folder" && sha256sum -c sums) || fail "the source package is not the one that we know"
  fi
  if [ ! -d "$work/$name/source" ]; then
    dpkg-source --no-check -x "$folder"/*.dsc "$work/$name/source" >"$work/$name/unpack.log" 2>&1 ||
      fail "dpkg-source failed, see $work/$name/unpack.log" 2
  fi
}

for tool in holdfast-cc holdfast-rewrite; do
  [ -x "$build/bin/$tool" ] || fail "no $tool in $build; ./dev build release makes it" 2
done
if [ $# -eq 0 ]; then set -- bc bzip2 lua; fi
for name in "$@"; do
  [ -n "${package[$name]:-}" ] || fail "no program '$name'; there are bc, bzip2, lua" 2
  fetch "$name"
done
exec "$here/measure.py" --build "$build" --work "$work" --runs "${RUNS:-5}" --kills "${KILLS:-20}" "$@"

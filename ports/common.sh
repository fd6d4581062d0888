# What the ports have in common; a port's script sources it, and is run by ./dev port NAME.
#
#   here=$(cd "$(dirname "$0")" && pwd)
#   source "$here/../common.sh"
#   fetch gawk=1:5.2.1-2            or: fetch_pypi unqlite==0.9.9
#   tree clang                      a fresh copy of the source in $work/clang
#   compile clang ./configure CC=clang-19 -- make
#   edited durable                  a fresh copy with the edits of $here/edits; their count goes to $work/lines
#   run_steps "suite durable kill" "measure" "$@"
#
# It sets: top (the tree), build (where holdfast-cc was built: $HOLDFAST_BUILD or build/release), cc, work (what is made).
# Exit codes: 0 all as it should be, 1 not, 2 something that is needed is missing.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # set here and used by the port, and the other way round
set -euo pipefail
port=$(basename "$here")
top=$(cd "$here/../.." && pwd)
build=${HOLDFAST_BUILD:-$top/build/release}
cc=$build/bin/holdfast-cc
work=$top/build/ports/$port
export LC_ALL=C

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'port.sh: %s\n' "$1" >&2; exit "${2:-1}"; }

# needs <tool of the build>...
needs() {
  local tool
  for tool in "$@"; do
    [ -x "$build/bin/$tool" ] || fail "no $tool in $build; ./dev build release makes it" 2
  done
}

# ---- the program's source -------------------------------------------------------------------------------------------

# sums <folder>: the lines of SHA256SUMS that are of a folder, or of none.
sums() {
  if [ -n "$1" ]; then grep " $1/" "$here/SHA256SUMS" | sed "s| $1/| |"; else cat "$here/SHA256SUMS"; fi
}

# fetched_once <what> <folder> <command...>: runs the command in $work/<folder>/fetched unless what is there is known.
fetched_once() {
  local what=$1 folder=$work/${2:+$2/}fetched
  mkdir -p "$folder"
  sums "$2" >"$folder/sums"
  shift 2
  if (cd "$folder" && sha256sum --status -c sums 2>/dev/null); then return; fi
  say "fetching $what"
  (cd "$folder" && "$@") || fail "$what cannot be had" 2
  (cd "$folder" && sha256sum -c sums) || fail "$what is not the one that we know"
}

debian_source() { "$top/tools/setup.sh" --sources && apt-get -q source --download-only "$1"; }
pypi_source() { python3 -m pip download -q --no-deps --no-build-isolation --no-binary :all: "$1"; }

# fetch <package>=<version> [folder]: a Debian source package, checked against SHA256SUMS and unpacked with Debian's
# patches into $work/[folder/]source.
fetch() {
  local folder=${2:-}
  fetched_once "the Debian source package ${1/=/ }" "$folder" debian_source "$1"
  local to=$work/${folder:+$folder/}
  if [ ! -d "${to}source" ]; then
    rm -rf "${to}source.new"
    dpkg-source --no-check -x "${to}fetched/"*.dsc "${to}source.new" >"${to}unpack.log" 2>&1 ||
      fail "dpkg-source failed, see ${to}unpack.log" 2
    unpacked "${to}source.new"
    mv "${to}source.new" "${to}source"
  fi
}

# fetch_pypi <name>==<version> [folder]: the same of a source distribution of PyPI's, for those that need no build to be
# fetched.
fetch_pypi() {
  local folder=${2:-}
  fetched_once "the source ${1/==/ } of PyPI" "$folder" pypi_source "$1"
  local to=$work/${folder:+$folder/}
  if [ ! -d "${to}source" ]; then
    rm -rf "${to}source.new"
    mkdir -p "${to}source.new"
    tar -xf "${to}fetched/"*.tar.gz -C "${to}source.new" --strip-components=1 ||
      fail "the source ${1/==/ } cannot be unpacked" 2
    unpacked "${to}source.new"
    mv "${to}source.new" "${to}source"
  fi
}

# unpacked <folder>: what a port does to a source once; it defines this again after it has sourced this file.
unpacked() { :; }

# tree <name>: a fresh copy of the source in $work/<name>.
tree() {
  rm -rf "${work:?}/$1"
  cp -a "$work/source" "$work/$1"
}

# edited <name>: the same, with the edits of $here/edits; says how many lines they are.
edited() {
  tree "$1"
  "$top/ports/apply_edits.py" "$here/edits" "$work/$1" | tee "$work/lines"
}

# compile <name> <command> [-- <command>]...: runs them in $work/<name>; their output goes to $work/<name>-build.log.
compile() {
  local name=$1 log=$work/$1-build.log command=() word
  shift
  : >"$log"
  for word in "$@" --; do
    if [ "$word" != -- ]; then
      command+=("$word")
    elif [ ${#command[@]} -gt 0 ]; then
      (cd "$work/$name" && "${command[@]}") >>"$log" 2>&1 || fail "building $name failed, see $log"
      command=()
    fi
  done
}

# ---- results of a program's own tests -------------------------------------------------------------------------------
# A file of lines "<test> passed" and "<test> failed", sorted.

# counted <result>: says how many there are of each.
counted() {
  [ -s "$work/$1" ] || fail "the tests did not run, see $work/$1.log"
  printf '%-16s %d passed, %d failed\n' "$1" \
    "$(grep -c ' passed$' "$work/$1" || true)" "$(grep -c ' failed$' "$work/$1" || true)"
}

# fails_here <result> <result of the plain program>: what fails in the first and not in the second.
fails_here() {
  comm -13 <(grep ' failed$' "$work/$2" | sort) <(grep ' failed$' "$work/$1" | sort) | sed 's/ failed$//'
}

# fails_as_known <result> <result of the plain program> [file of names]: nothing else fails than the names in the file.
fails_as_known() {
  diff <(fails_here "$1" "$2") <(if [ $# -gt 2 ]; then grep -v '^#' "$3" | sort; fi) ||
    fail "$1: other tests fail than with plain Clang"
}

# ---- steps ----------------------------------------------------------------------------------------------------------

# run_steps <steps of a run without arguments> <further steps> [step...]: calls step_<step> for each.
run_steps() {
  local usual=$1 all="$1 $2" step
  shift 2
  # shellcheck disable=SC2086  # one word a step
  if [ $# -eq 0 ]; then set -- $usual; fi
  for step in "$@"; do
    [[ " $all " == *" $step "* ]] || fail "no step '$step'; there are: $all" 2
  done
  for step in "$@"; do "step_$step"; done
}

#!/usr/bin/env bash
# gawk on Holdfast: its Debian source built by holdfast-cc, its own test suite, and its variables made durable.
#
#   ports/gawk/port.sh               all of the following but measure
#   ports/gawk/port.sh STEP...
#     suite    build upstream's source with Clang and with holdfast-cc, run its test suite on both, compare
#     durable  apply the edits, build with holdfast-cc, run the test suite without and then with a pool under each gawk
#     kill     kill durable gawk over and over, go on with another build of it, on shared memory and on a file system;
#              compare with plain gawk
#     measure  time plain, compiled and durable gawk
# HOLDFAST_BUILD is a build tree with holdfast-cc in it (default: build/release); what is made goes to build/ports/gawk.
# Exit codes: 0 all as it should be, 1 not, 2 something that is needed is missing.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$here/../common.sh"

# Debian ships no manual, and tells make that it is there.
unpacked() {
  (cd "$1/doc" && touch -d 2000-01-01 gawktexi.in sidebar.awk gawk.texi gawk.info gawkinet.texi \
    gawkinet.info gawkworkflow.texi gawkworkflow.info pm-gawk.texi pm-gawk.info)
}

# made <name> <compiler> [flags of the compiler]
made() {
  local flags=${3:-}
  compile "$1" ./configure CC="$2" CFLAGS="-O2 -g $flags" ${flags:+LDFLAGS="$flags" ax_cv_check_cflags___no_pie=no} \
    --disable-rpath --disable-nls -- make -j"$(nproc)"
}
# With addresses that are put right in the next process, wherever that is loaded (upstream's heap needs -no-pie).
durable() {
  edited "$1"
  cp "$here/pma.c" "$here/pma.h" "$work/$1/support/"
  made "$1" "$cc" "-fnvm-statics ${2:-}"
}
# Another build of it: everything lies elsewhere.
rebuilt() {
  if [ ! -x "$work/rebuilt/gawk" ]; then durable rebuilt -O1; fi
}

# ---- upstream's test suite ------------------------------------------------------------------------------------------

# The locales that the suite asks for, in a folder of our own, and a `locale` that lists them.
locales() {
  if [ ! -d "$work/locales" ]; then
    mkdir -p "$work/locales.new" "$work/bin"
    local name
    for name in en_US fr_FR ru_RU ja_JP; do
      localedef -i "$name" -f UTF-8 "$work/locales.new/$name.UTF-8" || fail "localedef failed" 2
    done
    localedef -i el_GR -f ISO-8859-7 "$work/locales.new/el_GR.iso88597" || fail "localedef failed" 2
    mv "$work/locales.new" "$work/locales"
  fi
  # shellcheck disable=SC2016  # for the script
  printf '#!/bin/sh\n/usr/bin/locale "$@"\n[ "$*" != -a ] || ls "$LOCPATH"\n' >"$work/bin/locale"
  chmod +x "$work/bin/locale"
}

# check <name> <result> [make argument...]: runs `make check`; "<test> passed|failed" lines go to <result>.
check() {
  local dir=$work/$1 result=$work/$2
  shift 2
  rm -f "$dir"/test/_*
  suite_make() { LOCPATH="$work/locales" PATH="$work/bin:$PATH" make -C "$@"; }
  suite_make "$dir" -k check "$@" >"$result.log" 2>&1 || true
  grep -q 'Done with machine-specific tests' "$result.log" || fail "the test suite did not end, see $result.log"
  # Each test prints its name, and leaves its output in _<name> when it is not what it should be.  Some look at the
  # clock, which a busy machine can upset: another try for what failed.
  local left
  for left in "$dir"/test/_*; do
    if [ -e "$left" ]; then suite_make "$dir/test" "${left##*/_}" "$@" >>"$result.log" 2>&1 || true; fi
  done
  grep -E '^[A-Za-z0-9_-]+$' "$result.log" | sort -u | while read -r name; do
    if [ -e "$dir/test/_$name" ]; then echo "$name failed"; else echo "$name passed"; fi
  done >"$result"
  counted "$(basename "$result")"
}

same_as_plain() {
  diff "$work/suite-clang" "$work/$1" || fail "$1: not the results of plain Clang"
}

step_suite() {
  locales
  say "upstream's test suite, built with Clang and with holdfast-cc"
  tree clang
  made clang clang-19
  check clang suite-clang
  tree compiled
  made compiled "$cc"
  check compiled suite-compiled
  same_as_plain suite-compiled
}

# ---- durable --------------------------------------------------------------------------------------------------------

step_durable() {
  locales
  say "the durable variant"
  durable durable
  rebuilt
  check durable suite-durable
  if [ -f "$work/suite-clang" ]; then same_as_plain suite-durable; fi
  "$here/variables_test.sh" "$work/durable/gawk" /dev/shm/gawk-variables.pool "$work/rebuilt/gawk"
  "$here/variables_test.sh" "$work/durable/gawk" "$work/variables.pool" "$work/rebuilt/gawk"
  # Each gawk of the suite over a pool of its own, which the next one removes.
  mkdir -p "$work/durable/on-a-pool"
  cat >"$work/durable/on-a-pool/gawk" <<WRAPPER
#!/bin/sh
for pool in /dev/shm/gawk-suite.*; do
  kill -0 "\${pool##*.}" 2>/dev/null && [ "\${pool##*.}" -ne \$\$ ] || rm -f "\$pool"
done
GAWK_PERSIST_FILE=\${GAWK_PERSIST_FILE:-/dev/shm/gawk-suite.\$\$} exec "$work/durable/gawk" "\$@"
WRAPPER
  chmod +x "$work/durable/on-a-pool/gawk"
  check durable suite-pool AWKPROG=../on-a-pool/gawk
  rm -f /dev/shm/gawk-suite.*
  diff <(grep failed "$work/suite-pool" | cut -d' ' -f1) <(grep -v '^#' "$here/not-on-a-pool" | sort) ||
    fail "other tests fail over a pool than those that are known to"
}

# ---- kill, measure --------------------------------------------------------------------------------------------------

input() {
  if [ ! -f "$work/input-$1.txt" ]; then "$here/input.py" "$1" >"$work/input-$1.txt"; fi
}

step_kill() {
  export HOLDFAST=$build/src/cli/holdfast
  input 60000
  rebuilt
  say "kills on shared memory"
  "$here/kill_test.py" --plain "$work/clang/gawk" --durable "$work/durable/gawk" "$work/rebuilt/gawk" \
    --program "$here/words.awk" --input "$work/input-60000.txt" --pool /dev/shm/gawk-kills.pool --kills "${KILLS:-120}"
  say "kills on a file system"
  "$here/kill_test.py" --plain "$work/clang/gawk" --durable "$work/durable/gawk" "$work/rebuilt/gawk" \
    --program "$here/words.awk" --input "$work/input-60000.txt" --pool "$work/kills.pool" --kills "${KILLS:-120}" --records 100
}

step_measure() {
  input 60000
  "$here/measure.py" --plain "$work/clang/gawk" --compiled "$work/compiled/gawk" --durable "$work/durable/gawk" \
    --program "$here/words.awk" --input "$work/input-60000.txt" --folder "$work" --runs "${RUNS:-7}"
}

needs holdfast-cc
mkdir -p "$work/bin"
fetch gawk=1:5.2.1-2
run_steps "suite durable kill" measure "$@"

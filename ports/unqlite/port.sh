#!/usr/bin/env bash
# UnQLite on Holdfast: its source (of PyPI's unqlite) built by holdfast-cc, its own tests, and its databases made durable.
#
#   ports/unqlite/port.sh             suite, durable and kill
#   ports/unqlite/port.sh STEP...
#     build    apply the edits, build with holdfast-cc
#     suite    build upstream's source with Clang and with holdfast-cc, run its tests on both, compare
#     durable  build, run the tests without and then with a pool under each database in memory; and tests of ours
#     kill     kill a program that uses it over and over, on shared memory and on a file system; compare with plain UnQLite
#     measure  time of a store of documents: durable, on a file with a commit each call, in memory
# HOLDFAST_BUILD is a build tree with holdfast-cc in it (default: build/release); what is made goes to
# build/ports/unqlite.  KILLS: kills on shared memory (default 100).
# Exit codes: 0 all as it should be, 1 not, 2 something that is needed is missing.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$here/../common.sh"
python=${PYTHON:-/usr/bin/python3}

# The build of a source distribution is asked for its name before it is fetched, and wants Cython for that.
pypi_source() { python3 -m pip download -q --no-deps --no-binary unqlite "$1"; }

# Lines end as they do elsewhere; the binding for Python is made once.
unpacked() {
  sed -i 's/\r$//' "$1/src/unqlite.c"
  [ -x "$work/tools/bin/cython" ] || { python3 -m venv "$work/tools" && "$work/tools/bin/pip" -q install cython; } \
    >"$work/tools.log" 2>&1 || fail "Cython cannot be had, see $work/tools.log" 2
  "$work/tools/bin/cython" -3 "$1/unqlite.pyx" -o "$1/unqlite.c" >>"$work/tools.log" 2>&1 ||
    fail "Cython failed, see $work/tools.log" 2
}

# made <name> <compiler> [argument of it...]
made() {
  local name=$1 compiler=$2 include
  shift 2
  include=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
  compile "$name" "$compiler" -O2 -fPIC -w -shared -DUNQLITE_ENABLE_THREADS=1 -I"$include" -Isrc unqlite.c \
    src/unqlite.c "$@" -lpthread -o unqlite.so
}
plain() {
  if [ ! -f "$work/clang/unqlite.so" ]; then
    tree clang
    made clang clang-19
  fi
}
durable() {
  edited durable
  cp "$here"/unqlite_pool*.[ch] "$work/durable/src/"
  made durable "$cc" src/unqlite_pool.c
}
durable_once() { [ -f "$work/durable/unqlite.so" ] || durable; }

# check <name> <result>: runs the tests; "<test> passed|failed" lines go to <result>.
check() {
  (cd "$work/$1" && PYTHONPATH=. timeout 600 "$python" -m unittest -v tests) >"$work/$2.log" 2>&1 || true
  sed -nE 's/^(test_[a-z0-9_]+) \(([A-Za-z0-9_.]+)\).* \.\.\. (.*)$/\2.\1 \3/p' "$work/$2.log" |
    sed -E 's/ ok$/ passed/; s/ (FAIL|ERROR)$/ failed/' | grep -E ' (passed|failed)$' | sort -u >"$work/$2"
  counted "$2"
}

step_build() {
  say "the durable variant"
  durable
}

step_suite() {
  say "upstream's tests, built with Clang and with holdfast-cc"
  plain
  check clang suite-clang
  tree compiled
  made compiled "$cc"
  check compiled suite-compiled
  fails_as_known suite-compiled suite-clang
}

step_durable() {
  step_build
  [ -f "$work/suite-clang" ] || { plain && check clang suite-clang; }
  check durable suite-durable
  fails_as_known suite-durable suite-clang
  say "with a pool under each database in memory"
  mkdir -p /dev/shm/unqlite-suite
  UNQLITE_POOLS=/dev/shm/unqlite-suite check durable suite-pool
  rm -rf /dev/shm/unqlite-suite
  fails_as_known suite-pool suite-clang "$here/not-on-a-pool"
  say "transactions, refusals"
  cc -shared -fPIC -O1 -I"$top/include" "$here/failing_begin.c" -o "$work/failing_begin.so" -ldl
  PYTHONPATH=$work/durable "$python" "$here/pool_test.py" "$work/failing_begin.so" /dev/shm "$work"
}

step_kill() {
  plain
  durable_once
  local kills=${KILLS:-100}
  kill_test() { "$python" "$here/kill_test.py" --plain "$work/clang" --durable "$work/durable" "$@"; }
  say "kills on shared memory"
  kill_test --pool /dev/shm/unqlite-kills.pool --kills "$kills"
  say "kills on a file system"
  kill_test --pool "$work/kills.pool" --kills $((kills / 3))
  say "the same of a library that was not compiled with the log: it has to be found out"
  rm -rf "$work/control"
  cp -a "$work/durable" "$work/control"
  made control "$cc" -fno-nvm src/unqlite_pool.c
  if "$python" "$here/kill_test.py" --plain "$work/clang" --durable "$work/control" \
    --pool /dev/shm/unqlite-kills.pool --kills "$kills" >"$work/control.log" 2>&1; then
    fail "the kills found nothing wrong with a library that does not log"
  fi
  tail -1 "$work/control.log"
  rm -f /dev/shm/unqlite-kills.pool
}

step_measure() {
  plain
  durable_once
  "$python" "$here/measure.py" --plain "$work/clang" --durable "$work/durable" --disk "$work" --rounds "${ROUNDS:-3}"
}

needs holdfast-cc
[ -f "$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" ] ||
  fail "the tests need Python's headers (Debian's package python3-dev), or PYTHON with its own" 2
fetch_pypi unqlite==1.2.0
run_steps "suite durable kill" "build measure" "$@"

#!/usr/bin/env bash
# Lua on Holdfast: its Debian source, unchanged, built by holdfast-cc, and a Lua whose state is durable: holdfast-lua.
#
#   ports/lua/port.sh               all of the following but build and measure
#   ports/lua/port.sh STEP...
#     build    build holdfast-lua, and nothing else
#     suite    build lua with Clang and with holdfast-cc, run checks.lua and upstream's tests on both, compare
#     durable  build holdfast-lua twice, run the same and session_test.sh
#     kill     kill it over and over, the two builds in turns, on shared memory and on a file system; compare
#     measure  time plain, compiled and durable Lua, and a start
# HOLDFAST_BUILD is a build tree with holdfast-cc in it (default: build/release); what is made goes to build/ports/lua.
# LUA_TESTS: the folder of upstream's tests (lua-5.4.4-tests.tar.gz of lua.org; the package has none).  KILLS, RUNS.
# Exit codes: 0 all as it should be, 1 not, 2 something that is needed is missing.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$here/../common.sh"

# Libraries that are loaded at run time are none of a state's next process.
flags=(-std=gnu99 -DLUA_COMPAT_5_3 -DLUA_USE_POSIX)
# print() would send its line at once: it leaves after the commit.
durable_flags=(-fnvm-statics '-Dlua_writeline()=lua_writestring("\n", 1)')
# Of upstream's tests, those that need no libraries, no other program and no internal interface.
tests="bitwise calls closure constructs coroutine events goto literals locals math nextvar pm sort strings tpack utf8 vararg
  errors gc gengc bwcoercion"

# Debian's configure makes it: where modules lie.
unpacked() { echo '#define DEB_HOST_MULTIARCH "."' >"$1/src/lua5.4-deb-multiarch.h"; }

sources_of() { (cd "$work/$1/src" && printf '%s\n' l*.c | grep -vx -e lua.c -e luac.c); }

# made <name> <program> <source of its main()> <compiler> [option...]
made() {
  local name=$1 program=$2 main=$3 compiler=$4 sources
  shift 4
  mapfile -t sources < <(sources_of "$name")
  (cd "$work/$name/src" && "$compiler" "${flags[@]}" "$@" -o "../$program" "$main" "${sources[@]}" -lm) \
    >"$work/$name-build.log" 2>&1 || fail "building $program failed, see $work/$name-build.log"
}
plain() {
  if [ ! -x "$work/clang/lua" ]; then
    tree clang
    made clang lua lua.c clang-19 -O2
  fi
}
compiled() {
  if [ ! -x "$work/compiled/lua" ]; then
    tree compiled
    made compiled lua lua.c "$cc" -O2
  fi
}
durable() {
  tree durable
  cp "$here/holdfast_lua.c" "$work/durable/src/"
  echo "upstream's lines inserted or changed: 0; ours: $(wc -l <"$here/holdfast_lua.c")" | tee "$work/lines"
  made durable holdfast-lua holdfast_lua.c "$cc" -O2 "${durable_flags[@]}"
}
# Everything lies elsewhere.
rebuilt() { made durable holdfast-lua-rebuilt holdfast_lua.c "$cc" -O1 "${durable_flags[@]}"; }

# check <name> <result> <command...>: "<test> passed|failed" lines go to <result>.
check() {
  local name=$1 result=$2 test
  shift 2
  "$@" "$here/checks.lua" 2>&1 | sed "s|^[^ ]*lua: ||" >"$work/$result.checks" || true
  {
    if [ "$name" = clang ] || diff "$work/suite-clang.checks" "$work/$result.checks" >"$work/$result.log"; then
      echo "checks.lua passed"
    else
      echo "checks.lua failed"
    fi
    for test in ${LUA_TESTS:+$tests}; do
      [ -f "$LUA_TESTS/$test.lua" ] || continue
      if (cd "$LUA_TESTS" && "$@" "$here/upstream.lua" "$test.lua") >>"$work/$result.log" 2>&1; then
        echo "$test passed"
      else
        echo "$test failed"
      fi
    done
  } | sort >"$work/$result"
  counted "$result"
}

step_build() { durable; }

step_suite() {
  say "Lua built with Clang and with holdfast-cc"
  plain
  check clang suite-clang "$work/clang/lua"
  compiled
  check compiled suite-compiled "$work/compiled/lua"
  fails_as_known suite-compiled suite-clang
}

# A new pool for each script.
on_a_pool() {
  rm -f /dev/shm/lua-suite.pool
  "$work/durable/holdfast-lua" /dev/shm/lua-suite.pool "$@"
}

step_durable() {
  say "the durable Lua"
  plain
  [ -f "$work/suite-clang" ] || check clang suite-clang "$work/clang/lua"
  durable
  rebuilt
  check durable suite-pool on_a_pool
  rm -f /dev/shm/lua-suite.pool
  fails_as_known suite-pool suite-clang
  "$here/session_test.sh" "$work/durable/holdfast-lua" "$work/durable/holdfast-lua-rebuilt" /dev/shm/lua-session.pool
  "$here/session_test.sh" "$work/durable/holdfast-lua" "$work/durable/holdfast-lua-rebuilt" "$work/session.pool"
}

step_kill() {
  export HOLDFAST=$build/src/cli/holdfast
  plain
  [ -x "$work/durable/holdfast-lua" ] || durable
  [ -x "$work/durable/holdfast-lua-rebuilt" ] || rebuilt
  local kills=${KILLS:-100}
  kill_test() { "$here/kill_test.py" --plain "$work/clang/lua" "$@"; }
  say "kills on shared memory, another build after each"
  kill_test --durable "$work"/durable/holdfast-lua{,-rebuilt} --pool /dev/shm/lua-kills.pool --kills "$kills"
  say "kills on a file system"
  kill_test --durable "$work"/durable/holdfast-lua{,-rebuilt} --pool "$work/kills.pool" --kills $((kills / 2))
  say "the same of a Lua whose tables were not compiled with the log: it has to be found out"
  local sources
  mapfile -t sources < <(sources_of durable | grep -vx ltable.c)
  (cd "$work/durable/src" && "$cc" "${flags[@]}" -O2 -fno-nvm -c ltable.c -o ../ltable.o &&
    "$cc" "${flags[@]}" -O2 "${durable_flags[@]}" -o ../holdfast-lua-control holdfast_lua.c "${sources[@]}" ../ltable.o -lm) \
    >"$work/control-build.log" 2>&1 || fail "see $work/control-build.log"
  if kill_test --durable "$work/durable/holdfast-lua-control" --pool /dev/shm/lua-kills.pool --kills "$kills" \
    >"$work/control.log" 2>&1; then
    fail "the kills found nothing wrong with a Lua that does not log"
  fi
  tail -1 "$work/control.log"
  rm -f /dev/shm/lua-kills.pool
}

step_measure() {
  plain
  compiled
  [ -x "$work/durable/holdfast-lua" ] || durable
  "$here/measure.py" --plain "$work/clang/lua" --compiled "$work/compiled/lua" --durable "$work/durable/holdfast-lua" \
    --folder "$work" --runs "${RUNS:-5}"
}

needs holdfast-cc
fetch lua5.4=5.4.4-3+deb12u1
run_steps "suite durable kill" "build measure" "$@"

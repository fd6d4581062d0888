#!/usr/bin/env bash
# memcached on Holdfast: its Debian source built by holdfast-cc, its own test suite, and its items made durable.
#
#   ports/memcached/port.sh           suite, durable and kill
#   ports/memcached/port.sh STEP...
#     build    apply the edits, build with holdfast-cc
#     suite    build upstream's source with Clang and with holdfast-cc, run its tests on both, compare
#     durable  build, run the tests without and then with a pool under each server
#     kill     kill the durable server over and over, on shared memory and on a file system; compare with a model
#     measure  YCSB beside plain memcached and nv-memcached
# HOLDFAST_BUILD is a build tree with holdfast-cc in it (default: build/release); what is made goes to
# build/ports/memcached.  KILLS: kills on shared memory (default 100); TESTS: files of the suite (default t/*.t).
# Exit codes: 0 all as it should be, 1 not, 2 something that is needed is missing.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$here/../common.sh"

# The linker keeps what the pool's own file has, which is no source of upstream's makefile.
# made <name> <compiler> [make argument...]
made() {
  local name=$1 compiler=$2
  shift 2
  compile "$name" ./configure CC="$compiler" CFLAGS="-g -O2" --disable-coverage --disable-extstore --disable-docs
  # shellcheck disable=SC2016  # of make
  compile "$name" make -j"$(nproc)" "$@" memcached memcached-debug sizes testapp timedrun
}
plain() {
  if [ ! -x "$work/clang/memcached" ]; then
    tree clang
    made clang clang-19
  fi
}

# What the sources of LRU lists, of free chunks and of their crawler store in items is volatile, or is announced by hand.
unlogged=(items slabs crawler)
durable() {
  edited durable
  cp "$here"/restart.[ch] "$here"/restart_turns.[ch] "$work/durable/"
  # Its first test is about a file of metadata, which a pool has none of; the others commit 130,000 times one by one.
  sed -i -e '/^# read a invalid metadata file/,/^}/d' -e 's|"/tmp/mc_restart|"/dev/shm/mc_restart|' "$work/durable/t/restart.t"
  local object objects=()
  for object in "${unlogged[@]}"; do objects+=("memcached-$object.o" "memcached_debug-$object.o"); done
  compile durable ./configure CC="$cc" CFLAGS="-g -O2" --disable-coverage --disable-extstore --disable-docs \
    -- make CFLAGS="-g -O2 -fno-nvm" "${objects[@]}" \
    -- "$cc" -g -O2 -DHAVE_CONFIG_H -I. -c restart_turns.c -o restart_turns.o \
    -- make -j"$(nproc)" memcached_LDADD=restart_turns.o memcached_debug_LDADD=restart_turns.o \
    memcached memcached-debug sizes testapp timedrun
}
durable_once() { [ -x "$work/durable/memcached" ] || durable; }

# check <name> <result>: runs the suite; "<file> <number of the test> passed|failed" lines go to <result>.
check() {
  local name=$1 result=$work/$2 test
  : >"$result.log"
  : >"$result.all"
  for test in ${TESTS:-$(cd "$work/$name" && echo t/*.t)}; do
    printf '== %s\n' "$test" >>"$result.log"
    (cd "$work/$name" && timeout 600 prove -v "$test") >"$result.one" 2>&1 || true
    cat "$result.one" >>"$result.log"
    # A file that ended before its plan was through has failed as a whole.
    { sed -nE "s|^ok ([0-9]+).*|$test \\1 passed|p; s|^not ok ([0-9]+).*|$test \\1 failed|p" "$result.one"
      grep -qE '^Result: (PASS|NOTESTS)' "$result.one" || echo "$test failed"; } >>"$result.all"
  done
  if [ -z "${TESTS:-}" ]; then
    if (cd "$work/$name" && timeout 300 ./testapp) >"$result.one" 2>&1; then echo "testapp passed"; else
      echo "testapp failed"; fi >>"$result.all"
    cat "$result.one" >>"$result.log"
  fi
  sort -u "$result.all" >"$result"
  rm -f "$result.one" "$result.all"
  counted "$(basename "$result")"
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
  say "what survives which end, and what is refused"
  cc -shared -fPIC -O1 "$here/failing_sync.c" -o "$work/failing_sync.so" -ldl
  "$here/pool_test.py" "$work/durable/memcached" "$work/failing_sync.so" /dev/shm "$work"
  say "with a pool under each server"
  rm -rf "$work/pool"
  cp -a "$work/durable" "$work/pool"
  local program
  for program in memcached memcached-debug; do
    mv "$work/pool/$program" "$work/pool/$program.durable"
    cat >"$work/pool/$program" <<WRAPPER
#!/bin/sh
# A server of the suite, with a pool of its own unless it only tells something about itself.
for pool in /dev/shm/memcached-suite.*; do
  kill -0 "\${pool##*.}" 2>/dev/null && [ "\${pool##*.}" -ne \$\$ ] || rm -f "\$pool"
done
case " \$* " in
  *" -h "* | *" -e "* | *" -V "*) exec "$work/pool/$program.durable" "\$@" ;;
esac
exec "$work/pool/$program.durable" "\$@" -e /dev/shm/memcached-suite.\$\$
WRAPPER
    chmod +x "$work/pool/$program"
  done
  check pool suite-pool
  rm -f /dev/shm/memcached-suite.*
  fails_as_known suite-pool suite-clang "$here/not-on-a-pool"
}

step_kill() {
  durable_once
  local kills=${KILLS:-100}
  kill_test() { "$here/kill_test.py" --durable "$work/durable/memcached" "$@"; }
  say "kills on shared memory"
  kill_test --pool /dev/shm/memcached-kills.pool --kills "$kills"
  kill_test --pool /dev/shm/memcached-kills.pool --kills $((kills / 2)) --pipeline 8
  kill_test --pool /dev/shm/memcached-kills.pool --kills $((kills / 4)) --pipeline 8 --full
  say "kills on a file system"
  kill_test --pool "$work/kills.pool" --kills $((kills / 4 + 1))
  kill_test --pool "$work/kills.pool" --kills $((kills / 4 + 1)) --pipeline 8
  say "the same of a server whose assoc.c was not compiled with the log: it has to be found out"
  rm -rf "$work/control"
  cp -a "$work/durable" "$work/control"
  rm -f "$work/control/memcached-assoc.o"
  compile control make CFLAGS="-g -O2 -fno-nvm" memcached-assoc.o -- make memcached_LDADD=restart_turns.o memcached
  if "$here/kill_test.py" --durable "$work/control/memcached" --pool /dev/shm/memcached-kills.pool \
    --kills $((4 * kills)) --pipeline 8 >"$work/control.log" 2>&1; then
    fail "the kills found nothing wrong with a server that does not log"
  fi
  tail -1 "$work/control.log"
  rm -f /dev/shm/memcached-kills.pool
}

step_measure() {
  plain
  durable_once
  "$top/dev" bench ycsb --memcached "$work/clang/memcached" --durable-memcached "$work/durable/memcached"
}

needs holdfast-cc
command -v prove >/dev/null || fail "the suite needs prove (Debian's package perl)" 2
fetch memcached=1.6.18-1+deb12u1
run_steps "suite durable kill" "build measure" "$@"

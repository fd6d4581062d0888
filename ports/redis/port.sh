#!/usr/bin/env bash
# Redis on Holdfast: its Debian source built by holdfast-cc, its own test suite, and its databases made durable.
#
#   ports/redis/port.sh               all of the following but measure
#   ports/redis/port.sh STEP...
#     suite    build upstream's source with Clang and with holdfast-cc, run its tests on both, compare
#     durable  apply the edits, build with holdfast-cc, run the tests without and then with a pool under each server
#     kill     kill the durable server over and over, go on with another build of it, on shared memory and on a file
#              system; compare with plain Redis
#     measure  requests a second and processor time of plain Redis, of one with an append-only file, of the durable one
# HOLDFAST_BUILD is a build tree with holdfast-cc in it (default: build/release); what is made goes to build/ports/redis.
# KILLS: kills on shared memory (default 100); UNITS: units of the suite.
# Exit codes: 0 all as it should be, 1 not, 2 something that is needed is missing.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$here/../common.sh"

# Of one server.
units=${UNITS:-unit/printver unit/dump unit/auth unit/protocol unit/keyspace unit/scan unit/info unit/info-command
  unit/type/string unit/type/incr unit/type/list unit/type/list-2 unit/type/list-3 unit/type/set unit/type/zset
  unit/type/hash unit/type/stream unit/type/stream-cgroups unit/sort unit/expire unit/multi unit/quit unit/pubsub
  unit/scripting unit/functions unit/slowlog unit/geo unit/hyperloglog unit/bitops unit/bitfield unit/lazyfree
  unit/pendingquerybuf unit/limits unit/obuf-limits unit/tracking unit/querybuf unit/replybufsize
  unit/latency-monitor unit/acl}

# made <name> <compiler> [make argument...]
made() {
  local name=$1 compiler=$2
  shift 2
  compile "$name" make -j"$(nproc)" MALLOC=libc USE_SYSTEMD=no OPTIMIZATION=-O2 CC="$compiler" "$@" redis-server \
    redis-cli redis-benchmark redis-check-rdb redis-check-aof
}
plain() {
  if [ ! -x "$work/clang/src/redis-server" ]; then
    tree clang
    made clang clang-19
  fi
}

# check <name> <result> [argument...]: runs the suite; "<test> passed|failed" lines go to <result>.
check() {
  command -v tclsh >/dev/null || fail "the suite needs tclsh (Debian's package tcl)" 2
  local dir=$work/$1 result=$work/$2 unit
  shift 2
  local single=()
  for unit in $units; do
    # What an append-only file and a replica are given is most of what these look at.
    case "$result $unit" in *suite-pool\ unit/expire | *suite-pool\ unit/multi | *suite-pool\ unit/scripting) continue ;; esac
    single+=(--single "$unit")
  done
  (cd "$dir" && tclsh tests/test_helper.tcl --clients 2 --no-latency "$@" "${single[@]}") >"$result.log" 2>&1 || true
  sed 's/\x1b\[[0-9;]*m//g' "$result.log" |
    sed -nE 's/^\[ok\]: (.*) \([0-9]+ ms\)$/\1 passed/p; s/^\[err\]: (.*) in tests.*$/\1 failed/p' | sort -u >"$result"
  counted "$(basename "$result")"
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

# Objects point to tables and functions of the program, which lies elsewhere in each process.
made_durable() { made "$1" "$cc" CFLAGS=-fnvm-statics LDFLAGS=-fnvm-statics "${@:2}"; }
durable() {
  edited durable
  cp "$here"/redis_pool.[ch] "$here/redis_pool_names.h" "$work/durable/src/"
  made_durable durable
}
# Another build of it: everything lies elsewhere.
rebuilt() {
  if [ ! -x "$work/rebuilt/src/redis-server" ]; then
    edited rebuilt >/dev/null
    cp "$here"/redis_pool.[ch] "$here/redis_pool_names.h" "$work/rebuilt/src/"
    made_durable rebuilt OPTIMIZATION=-O1
  fi
}

step_durable() {
  say "the durable variant"
  durable
  [ -f "$work/suite-clang" ] || { plain && check clang suite-clang; }
  check durable suite-durable
  fails_as_known suite-durable suite-clang
  say "with a pool under each server"
  mv "$work/durable/src/redis-server" "$work/durable/src/redis-server.durable"
  cat >"$work/durable/src/redis-server" <<WRAPPER
#!/bin/sh
for pool in /dev/shm/redis-suite.*; do
  kill -0 "\${pool##*.}" 2>/dev/null && [ "\${pool##*.}" -ne \$\$ ] || rm -f "\$pool"
done
REDIS_POOL=/dev/shm/redis-suite.\$\$ exec "$work/durable/src/redis-server.durable" "\$@"
WRAPPER
  chmod +x "$work/durable/src/redis-server"
  # A replica, a file that is rewritten or read again, and a snapshot in the background are not to be had.
  check durable suite-pool --tags "-needs:repl -aofrw" --skipfile "$here/skipped-on-a-pool"
  mv "$work/durable/src/redis-server.durable" "$work/durable/src/redis-server"
  rm -f /dev/shm/redis-suite.*
  fails_as_known suite-pool suite-clang "$here/not-on-a-pool"
  for pool in /dev/shm/redis-snapshot.pool "$work/snapshot.pool"; do
    "$here/snapshot_test.py" --plain "$work/clang/src/redis-server" --durable "$work/durable/src/redis-server" --pool "$pool"
  done
  say "which file, replies in the midst of a turn"
  "$here/pool_test.py" --durable "$work/durable/src/redis-server" --folder /dev/shm "$work"
}

step_kill() {
  plain
  [ -x "$work/durable/src/redis-server" ] || durable
  rebuilt
  local kills=${KILLS:-100}
  kill_test() {
    "$here/kill_test.py" --plain "$work/clang/src/redis-server" --durable "$work"/{durable,rebuilt}/src/redis-server "$@"
  }
  say "kills on shared memory"
  kill_test --pool /dev/shm/redis-kills.pool --kills "$kills"
  kill_test --pool /dev/shm/redis-kills.pool --kills $((kills / 2)) --pipeline 8
  say "kills on a file system"
  kill_test --pool "$work/kills.pool" --kills $((kills / 2))
  kill_test --pool "$work/kills.pool" --kills $((kills / 4)) --pipeline 8
  say "the same of a server whose dict.c was not compiled with the log: it has to be found out"
  rm -rf "$work/control"
  cp -a "$work/durable" "$work/control"
  rm -f "$work/control/src/dict.o"
  make -C "$work/control/src" MALLOC=libc USE_SYSTEMD=no OPTIMIZATION=-O2 CC="$cc" CFLAGS=-fno-nvm dict.o >"$work/control-build.log" 2>&1 || fail "see $work/control-build.log"
  made_durable control
  if "$here/kill_test.py" --plain "$work/clang/src/redis-server" --durable "$work/control/src/redis-server" \
    --pool /dev/shm/redis-kills.pool --kills "$kills" >"$work/control.log" 2>&1; then
    fail "the kills found nothing wrong with a server that does not log"
  fi
  tail -1 "$work/control.log"
}

step_measure() {
  plain
  [ -x "$work/durable/src/redis-server" ] || durable
  "$here/measure.py" --plain "$work/clang/src" --durable "$work/durable/src" --folder "$work" --rounds "${ROUNDS:-3}"
}

needs holdfast-cc
mkdir -p "$work"
fetch redis=5:7.0.15-1~deb12u10
run_steps "suite durable kill" measure "$@"

#!/usr/bin/env bash
# Packages that nobody has changed, of several build systems: whether holdfast-cc builds them, and whether they then do
# what they do when Clang has built them, as fast.
#
#   ports/dropin/port.sh                    suite
#   ports/dropin/port.sh STEP... [PACKAGE...]
#     suite    build each package with Clang and with holdfast-cc, run its own tests on both, compare
#     measure  processor time of programs among them, both builds in turns (RUNS of each, default 7)
#     list     names the packages, their build systems, and what is timed
# PACKAGE: only these (default: all).
# HOLDFAST_BUILD is a build tree with holdfast-cc in it (default: build/release); what is made goes to
# build/ports/dropin.  What is there of a package by the same compiler and the same functions below is not made again.
# Exit codes: 0 all as it should be, 1 not, 2 something that is needed is missing.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../common.sh
source "$here/../common.sh"

# A row for each package: its name, the source package of Debian, programs that it needs beside make, its build system.
# made_NAME builds it in the current folder, by $CC and $CXX; tests_NAME runs its tests there and prints
# "<test> passed" or "<test> failed", a line each; timed_NAME, if there is one, prints the command that is timed.
packages="
zlib      zlib=1:1.2.13.dfsg-1        -             its own configure
bzip2     bzip2=1.0.8-5               -             make
lz4       lz4=1.9.4-1                 -             make
redis     redis=5:7.0.15-1~deb12u10   tclsh         make, on its own jemalloc
jansson   jansson=2.14-2              autoreconf    autoconf, libtool
xz        xz-utils=5.4.1-1+deb12u2    -             autoconf, libtool
sqlite    sqlite3=3.40.1-2+deb12u2    tclsh         autoconf, libtool
json_c    json-c=0.16-2               cmake         CMake
mimalloc  mimalloc=2.0.9+ds-2         cmake         CMake
snappy    snappy=1.1.9-3              cmake         CMake, C++
zstd      libzstd=1.5.4+dfsg2-5       meson,ninja   Meson
"
names() { awk 'NF { print $1 }' <<<"$packages"; }
# column <package> <fields of its row>
column() { grep "^$1 " <<<"$packages" | tr -s ' ' | cut -d' ' -f"$2"; }
jobs=$(nproc)

# ---- tests ----------------------------------------------------------------------------------------------------------

# tried <test> <command...>: one line of a result.
tried() {
  local test=$1
  shift
  if timeout 600 "$@" >&2 </dev/null; then echo "$test passed"; else echo "$test failed"; fi
}
# by_ctest: a line for each test of CTest.
by_ctest() {
  (ctest --timeout 300 -j "$jobs" || true) | tee -a /dev/stderr |
    sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) \.+ *\**(Passed|[A-Z]).*/\1 \2/p' |
    sed -E 's/ Passed$/ passed/; s/ [A-Z]$/ failed/'
}
# by_automake: a line for each test of `make check`.
by_automake() {
  (make -k check -j "$jobs" || true) | tee -a /dev/stderr |
    sed -nE 's/^(PASS|FAIL|ERROR|XPASS): ([^ ]+).*/\2 \1/p' | sed -E 's/ PASS$/ passed/; s/ [A-Z]+$/ failed/'
}

# ---- packages -------------------------------------------------------------------------------------------------------

made_zlib() { ./configure && make -j "$jobs" all infcover; }
tests_zlib() {
  local test
  for test in teststatic testshared test64; do tried "$test" make "$test"; done
  tried infcover ./infcover
}
timed_zlib() { echo "./minigzip -9 <$words >/dev/null"; }

made_bzip2() { make -j "$jobs" CC="$CC" bzip2 bzip2recover libbz2.a; }
# The program is linked to the library beside it, which would else be the system's.
tests_bzip2() {
  local i expand
  for i in 1 2 3; do
    tried "compress_$i" bash -c "LD_LIBRARY_PATH=. ./bzip2 -$i <sample$i.ref | cmp - sample$i.bz2"
    expand=-d
    if [ "$i" = 3 ]; then expand=-ds; fi
    tried "expand_$i" bash -c "LD_LIBRARY_PATH=. ./bzip2 $expand <sample$i.bz2 | cmp - sample$i.ref"
  done
}
timed_bzip2() { echo "LD_LIBRARY_PATH=. ./bzip2 -9 <$words >/dev/null"; }

made_lz4() { make -j "$jobs" CC="$CC" lz4 && make -C tests -j "$jobs" CC="$CC" fuzzer frametest datagen; }
tests_lz4() {
  local test
  tried fuzzer ./tests/fuzzer -s1 -i500
  tried frametest ./tests/frametest -s1 -i2000
  for test in basic multiple multiple-legacy frame-concatenation testmode contentSize dict skippable; do
    tried "$test" make -C tests "test-lz4-$test" CC="$CC"
  done
}
timed_lz4() { echo "./lz4 -9 -c <$words >/dev/null"; }

redis_units="type/string type/incr type/list type/hash type/set type/zset expire multi scan keyspace"
# From the top, each program would configure jemalloc, all at once; with several jobs sources are compiled before its
# header is made.
made_redis() {
  make -C src -j 1 MALLOC=jemalloc USE_SYSTEMD=no OPTIMIZATION=-O2 CC="$CC" redis-server redis-cli redis-benchmark
}
tests_redis() {
  local unit single=()
  for unit in $redis_units; do single+=(--single "unit/$unit"); done
  tried its_own_jemalloc bash -c 'src/redis-server --version | grep malloc=jemalloc-5.2.1'
  (tclsh tests/test_helper.tcl --clients 2 --no-latency --tags -slow "${single[@]}" || true) | tee -a /dev/stderr |
    sed 's/\x1b\[[0-9;]*m//g' |
    sed -nE 's/^\[ok\]: (.*) \([0-9]+ ms\)$/\1 passed/p; s/^\[err\]: (.*) in tests.*$/\1 failed/p'
}

made_jansson() { autoreconf -fi && ./configure --disable-dependency-tracking && make -j "$jobs"; }
tests_jansson() { by_automake; }

made_xz() {
  ./configure --disable-dependency-tracking --disable-nls --disable-doc --disable-shared && make -j "$jobs"
}
tests_xz() { by_automake; }
timed_xz() { echo "./src/xz/xz -3 -T1 <$words >/dev/null"; }

# Those of the test files that take seconds.
sqlite_tests="select1 select2 select3 select4 select5 select6 select7 insert insert2 update delete join join2 trans
  savepoint wal pager1 btree01 index index3 where where2 trigger1 trigger2 view vacuum autovacuum cast func expr
  collate1 attach in minmax subquery with1 window1 upsert1 json101 fts3aa corrupt corrupt2 types null conflict
  tkt1443 utf16align"
made_sqlite() {
  ./configure --disable-dependency-tracking --disable-readline --enable-json1 --enable-fts3 --enable-rtree &&
    make sqlite3.c && make -j "$jobs" fuzzcheck speedtest1 testfixture
}
tests_sqlite() {
  local file
  for file in test/fuzzdata[1-8].db; do tried "$(basename "$file")" ./fuzzcheck --limit-mem 100M "$file"; done
  tried speedtest1 ./speedtest1 --verify --size 5 verified.db
  for file in $sqlite_tests; do
    (timeout 300 ./testfixture "test/$file.test" || true) 2>&1 | tee -a /dev/stderr |
      sed -nE "s|^([^ ]+)\.\.\. Ok$|$file \1 passed|p; s|^! ([^ ]+) expected:.*|$file \1 failed|p"
  done
}
timed_sqlite() { echo "./speedtest1 --size 15 :memory: >/dev/null"; }

# Clang 19 warns of what the package takes for errors.
made_json_c() { cmake -B made -DCMAKE_BUILD_TYPE=Release -DDISABLE_WERROR=ON && make -C made -j "$jobs"; }
tests_json_c() { (cd made && USE_VALGRIND=0 by_ctest); }

made_mimalloc() { cmake -B made -DCMAKE_BUILD_TYPE=Release && make -C made -j "$jobs"; }
tests_mimalloc() { (cd made && by_ctest); }

# Debian's patches tell it of a GoogleTest of the system, which needs C++14.
made_snappy() {
  cmake -B made -DCMAKE_BUILD_TYPE=Release -DSNAPPY_BUILD_BENCHMARKS=OFF -DCMAKE_CXX_STANDARD=14 &&
    make -C made -j "$jobs"
}
tests_snappy() {
  (./made/snappy_unittest || true) | tee -a /dev/stderr |
    sed -nE 's/^\[ +(OK|FAILED) +\] ([^ ]+) \(.*/\2 \1/p' | sed 's/ OK$/ passed/; s/ FAILED$/ failed/'
}

made_zstd() {
  meson setup --buildtype release -Dbin_programs=true -Dbin_tests=true -Ddefault_library=static \
    -Dlegacy_level=4 build/meson made &&
    ninja -C made -j "$jobs"
}
tests_zstd() {
  local test
  tried fuzzer made/tests/fuzzer -v -s1 -i300 --no-big-tests
  tried zstreamtest made/tests/zstreamtest -v -s1 -i100 --no-big-tests
  tried zstreamtest_newapi made/tests/zstreamtest --newapi -s1 -i100 -t1 --no-big-tests
  for test in longmatch invalidDictionaries poolTests legacy; do tried "$test" "made/tests/$test"; done
  tried round_trip bash -c 'made/programs/zstd -7 <lib/zstd.h | made/programs/zstd -d | cmp - lib/zstd.h'
}
timed_zstd() { echo "made/programs/zstd -12 --single-thread -c <$words >/dev/null"; }

# ---- building and comparing -----------------------------------------------------------------------------------------

# What a result was made of: the row and the functions of the package, and the compiler.
state_of() {
  local name=$1 variant=$2
  {
    grep "^$name " <<<"$packages"
    declare -f "made_$name" "tests_$name" tried by_ctest by_automake
    if [ "$name" = redis ]; then echo "$redis_units"; fi
    if [ "$name" = sqlite ]; then echo "$sqlite_tests"; fi
    if [ "$variant" = clang-19 ]; then clang-19 --version; else echo "$compiler_sum"; fi
  } | sha256sum
}

# Folders of both have names of one length: SQLite's tests are as many as a path has room for.
# made_and_tested <package> <clang-19 | compiled> <compiler of C> <compiler of C++>
made_and_tested() {
  local name=$1 variant=$2 at=$work/$1/$2
  if [ -s "$at-tests" ] && [ "$(cat "$at-state" 2>/dev/null)" = "$(state_of "$name" "$variant")" ]; then return; fi
  # Lines of several jobs would else be mixed.
  local -x CC=$3 CXX=$4 MAKEFLAGS=--output-sync=target
  rm -rf "$at" "$at"-*
  cp -a "$work/$name/source" "$at"
  (cd "$at" && "made_$name" >"$at-build.log" 2>&1 && times >"$at-times") ||
    fail "$name: building it by $3 failed, see $at-build.log"
  (cd "$at" && "tests_$name") >"$at-tests.new" 2>>"$at-tests.log" || true
  sort -u -o "$at-tests.new" "$at-tests.new"
  ! grep -a 'failed to run command' "$at-tests.log" || fail "$name: a program of its tests is absent"
  [ -s "$at-tests.new" ] || fail "$name: its tests did not run, see $at-tests.log"
  mv "$at-tests.new" "$at-tests"
  state_of "$name" "$variant" >"$at-state"
}

# warnings <log> <folder>: what compilers warn of in it, wherever the package was built.
warnings() { grep -aE 'warning:|^holdfast' "$1" | sed "s|$2|.|g" | sort -u || true; }

how_many() { grep -c " $2\$" "$1" || true; }

# compared <package>: it stays what it is, in all that its tests and the compilers' warnings say.
compared() {
  local name=$1 at=$work/$1
  comm -13 <(warnings "$at/clang-19-build.log" "$at/clang-19") <(warnings "$at/compiled-build.log" "$at/compiled") \
    >"$at/warnings"
  printf '%-9s %-27s %5d passed, %d failed; of Clang %5d, %d; %d warnings more; built in %s of the time\n' "$name" \
    "$(column "$name" 4-)" "$(how_many "$at/compiled-tests" passed)" "$(how_many "$at/compiled-tests" failed)" \
    "$(how_many "$at/clang-19-tests" passed)" "$(how_many "$at/clang-19-tests" failed)" "$(wc -l <"$at/warnings")" \
    "$(cat "$at/clang-19-times" "$at/compiled-times" | awk -F '[ms ]+' '
      NR % 2 == 0 { cpu[NR] = ($1 + $3) * 60 + $2 + $4 }
      END { printf "%.2f", cpu[4] / cpu[2] }')"
  grep -rqaF libholdfast.so. "$at/compiled" || fail "$name: nothing of it was linked by holdfast-cc"
  ! grep -rqaF libholdfast.so. "$at/clang-19" || fail "$name: what is compared with was linked by holdfast-cc"
  diff "$at/clang-19-tests" "$at/compiled-tests" || fail "$name: other results than with Clang (<)"
  [ ! -s "$at/warnings" ] || { cat "$at/warnings"; fail "$name: warnings that Clang does not give"; }
}

suite_of() {
  local name=$1 program
  for program in $(column "$name" 3 | tr ',-' '  ') clang-19 clang++-19; do
    command -v "$program" >/dev/null || fail "$name needs $program" 2
  done
  fetch "$(column "$name" 2)" "$name"
  made_and_tested "$name" clang-19 clang-19 clang++-19
  made_and_tested "$name" compiled "$cc" "${cc%cc}c++"
  compared "$name"
}

# ---- steps ----------------------------------------------------------------------------------------------------------

step_list() {
  local name words=WORDS
  for name in "${chosen[@]}"; do
    printf '%-9s %-26s %-27s %s\n' "$name" "$(column "$name" 2)" "$(column "$name" 4-)" \
      "$(if declare -F "timed_$name" >/dev/null; then "timed_$name"; fi)"
  done
}

# One that fails does not keep the others from their turn.
step_suite() {
  local name code wrong=() missing=()
  for name in "${chosen[@]}"; do
    set +e
    (set -e && suite_of "$name")
    code=$?
    set -e
    case $code in 0) ;; 2) missing+=("$name") ;; *) wrong+=("$name") ;; esac
  done
  [ ${#wrong[@]} -eq 0 ] || fail "not as with Clang: ${wrong[*]}${missing[*]:+; not tried: ${missing[*]}}"
  [ ${#missing[@]} -eq 0 ] || fail "not tried: ${missing[*]}" 2
}

step_measure() {
  local name timed=() commands=()
  for name in "${chosen[@]}"; do
    if declare -F "timed_$name" >/dev/null; then timed+=("$name"); fi
  done
  [ ${#timed[@]} -gt 0 ] || fail "none of these packages has a program that is timed" 2
  # The text that is compressed: 12 MiB of SQLite's sources, the same on each machine.
  words=$work/words
  if [ ! -f "$words" ]; then
    fetch "$(column sqlite 2)" sqlite
    (cd "$work/sqlite/source" && find src ext test -name '*.[ch]' -o -name '*.test' | sort | xargs cat) >"$words.all"
    head -c 12582912 "$words.all" >"$words.new"
    rm "$words.all"
    mv "$words.new" "$words"
  fi
  for name in "${timed[@]}"; do
    suite_of "$name"
    commands+=("$name" "$("timed_$name")")
  done
  "$here/measure.py" --work "$work" --runs "${RUNS:-7}" "${commands[@]}"
}

needs holdfast-cc holdfast-c++
compiler_sum=$(sha256sum "$cc" "$build"/lib/*.so* "$build"/lib/holdfast/*.so 2>/dev/null | cut -d' ' -f1 | sha256sum)
steps=()
chosen=()
for word in "$@"; do
  if declare -F "step_$word" >/dev/null; then
    steps+=("$word")
  elif grep -q "^$word " <<<"$packages"; then
    chosen+=("$word")
  else
    fail "no step or package '$word'; steps: suite measure list; packages: $(names | xargs)" 2
  fi
done
if [ ${#chosen[@]} -eq 0 ]; then mapfile -t chosen < <(names); fi
if [ ${#steps[@]} -eq 0 ]; then steps=(suite); fi
mkdir -p "$work"
for step in "${steps[@]}"; do "step_$step"; done

#!/usr/bin/env bash
# Memory debuggers see wrong accesses of a program to objects of pools, and are silent about right ones.
#
# usage: debuggers_test.sh <source folder> <libholdfast.so> <scratch folder> sanitizers|valgrind|window
set -euo pipefail
source=$1 library=$2 scratch=$3/debuggers-$4-$$ part=$4
mkdir -p "$scratch"
shm=$(mktemp -d /dev/shm/holdfast-debuggers.XXXXXX)
trap 'rm -rf "$scratch" "$shm"' EXIT

undo=1 log=5
failed=0
wrong() { printf 'wrong: %s\n' "$*" >&2; failed=1; }

# build <compiler> <name> [flag...]
build() {
  local compiler=$1 name=$2
  shift 2
  "$compiler" -std=c11 -D_GNU_SOURCE -g "$@" "$source/tests/debuggers/watched.c" -I"$source/include" \
    -o "$scratch/$name" "$library" "-Wl,-rpath,$(dirname "$library")"
}

# expect <said> <command...>: the command says so; "used rightly" is said by none that was stopped or complained about.
expect() {
  local said=$1
  shift
  "$@" >"$scratch/out" 2>&1 || true
  grep -q -- "$said" "$scratch/out" || {
    wrong "$*: expected '$said', found:"
    head -n 30 "$scratch/out" >&2
  }
}

faults="overflow large-overflow freed aborted realloc reopened"

sanitizers() {
  local compiler engine folder fault
  for compiler in clang-19 gcc; do
    build "$compiler" "asan-$compiler" -fsanitize=address
    for engine in $undo $log; do
      for folder in "$shm" "$scratch"; do
        expect '^used rightly 0$' "$scratch/asan-$compiler" "$folder/pool" "$engine" nothing
        for fault in $faults; do
          expect 'AddressSanitizer: use-after-poison' "$scratch/asan-$compiler" "$folder/pool" "$engine" "$fault"
          rm -f "$folder/pool"
        done
      done
    done
  done
  # A library for the usual window cannot work under the thread sanitizer, and says what to do.
  build clang-19 tsan -fsanitize=thread
  expect 'built with the preset tsan' "$scratch/tsan" "$shm/pool" $undo nothing
}

valgrind_watches() {
  local tool=(valgrind --error-exitcode=9 --quiet) fault
  build gcc plain
  ulimit -v 16000000 # the whole window would take all memory
  expect '^used rightly 0$' "${tool[@]}" "$scratch/plain" "$shm/pool" $undo nothing
  expect '^used rightly 0$' "${tool[@]}" "$scratch/plain" "$scratch/pool" $undo nothing
  expect '^used rightly 0$' valgrind --tool=massif "--massif-out-file=$scratch/massif" "$scratch/plain" "$shm/pool" $undo nothing
  for fault in $faults; do
    expect 'Invalid read of size 1' "${tool[@]}" "$scratch/plain" "$shm/pool" $undo "$fault"
  done
  expect 'Valgrind runs one thread at a time' "${tool[@]}" "$scratch/plain" "$shm/pool" $log nothing
}

window() {
  local bits
  build gcc plain
  for bits in 0 30 36 45; do
    expect '^used rightly 0$' env HOLDFAST_WINDOW_BITS=$bits "$scratch/plain" "$shm/pool" $undo nothing
    expect '^used rightly 0$' env HOLDFAST_WINDOW_BITS=$bits "$scratch/plain" "$shm/pool" $log nothing
  done
  for bits in 46 29 -1 1e3 x " 36"; do
    expect 'HOLDFAST_WINDOW_BITS is' env "HOLDFAST_WINDOW_BITS=$bits" "$scratch/plain" "$shm/pool" $undo nothing
  done
  expect 'HOLDFAST_WINDOW_BITS=0 reserves less' bash -c "ulimit -v 4000000; exec '$scratch/plain' '$shm/pool' $undo nothing"
  expect '^used rightly 0$' \
    bash -c "ulimit -v 4000000; HOLDFAST_WINDOW_BITS=0 exec '$scratch/plain' '$shm/pool' $undo nothing"
}

case $part in
  sanitizers) sanitizers ;;
  valgrind) valgrind_watches ;;
  window) window ;;
  *) exit 2 ;;
esac
exit $failed

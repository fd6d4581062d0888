#!/usr/bin/env bash
# GDB prints pools, fields and stores by what they stand for, and finds the object around an address.
#
# usage: gdb_test.sh <holdfast.py> <printed> <scratch folder>
set -euo pipefail
script=$1 program=$2 scratch=$3/gdb-$$
mkdir -p "$scratch"
trap 'rm -rf "$scratch"' EXIT
export HOLDFAST_WINDOW_BITS=0 # a core of the whole window would be large

gdb -nx -batch -ex 'set debuginfod enabled off' -ex "source $script" -ex 'break stop_here' -ex "run $scratch/pool" -ex up \
  -ex 'print handle' -ex 'print mine' -ex 'print *one' -ex 'print raw' -ex 'print people' -ex 'print numbers' \
  -ex 'print nobody' -ex 'holdfast object one' -ex 'holdfast object &one->weight' -ex 'holdfast object &handle' \
  -ex "generate-core-file $scratch/core" -ex kill "$program" >"$scratch/out" 2>&1 || true
gdb -nx -batch -ex "source $script" -ex up -ex 'print handle' -ex 'print people' \
  "$program" "$scratch/core" >"$scratch/out-core" 2>&1 || true

failed=0
expect() {
  grep -Eq -- "$2" "$scratch/$1" || {
    printf "expected '%s', found:\n" "$2" >&2
    cat "$scratch/$1" >&2
    failed=1
  }
}
pool="pool $scratch/pool, engine undo, medium (shm|ssd), 8 MiB at 0x[0-9a-f]+"
expect out "1 = \(NVM_POOL \*\) 0x[0-9a-f]+: $pool"
expect out "2 = .*$pool"
expect out '3 = \{value = 42, weight = 0\.5\}'
expect out "4 = \(nvm_kv \*\) 0x[0-9a-f]+: key-value store 'people', btree, in $pool"
expect out "5 = .*key-value store 'people', btree, in $pool"
expect out "6 = \(nvm_lf \*\) 0x[0-9a-f]+: lock-free hash table 'numbers', in $pool"
expect out '7 = NULL|7 = nothing|7 = 0x0'
expect out 'object at 0x[0-9a-f]+, 16 bytes, type 77, in the pool at 0x[0-9a-f]+'
expect out 'no object begins at 0x[0-9a-f]+, offset 0x[0-9a-f]+ of the pool at 0x[0-9a-f]+'
expect out 'lies in no open pool'
expect out-core "\(NVM_POOL \*\) 0x[0-9a-f]+: $pool"
expect out-core "key-value store 'people', btree, in $pool"
exit $failed

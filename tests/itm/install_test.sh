#!/usr/bin/env bash
# The installed library is found by gcc -fgnu-tm with the flags of pkg-config, shared and static, and by programs that
# were linked with GCC's libitm; it has every name that libitm has.
# usage: install_test.sh <build folder> <program linked with GCC's libitm>
set -euo pipefail
build=$1 program=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  printf '%s\n' "$1" >&2
  exit 1
}
cmake --install "$build" --prefix "$folder/prefix" >/dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$folder/prefix" -name nvm-itm.pc)")
export PKG_CONFIG_PATH
libraries=$(pkg-config --variable=libdir nvm-itm)
ours=$(pkg-config --variable=itmdir nvm-itm)

cat >"$folder/counter.c" <<'C'
#include <nvm/itm.h>
#include <stdio.h>
struct counter { long runs; };
int main(void) {
  struct counter *c = nvm_itm_root(sizeof *c);
  if (c == NULL) return 1;
  __transaction_atomic { c->runs++; }
  printf("%ld\n", c->runs);
  return 0;
}
C
read -r -a flags < <(pkg-config --cflags --libs nvm-itm)
gcc -O2 "$folder/counter.c" "${flags[@]}" -o "$folder/shared"
needed=$(readelf --dynamic "$folder/shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
grep -q '^libnvm-itm\.so' <<<"$needed" || fail "linked with something else: $needed"
if grep -q '^libitm' <<<"$needed"; then fail "linked with GCC's libitm, too"; fi
g++ -O2 -fgnu-tm -x c "$folder/counter.c" -x none -I"$folder/prefix/include" "$libraries/libnvm-itm.a" \
  "$libraries/libholdfast.a" -L"$ours" -o "$folder/static" -pthread

export HOLDFAST_ITM_POOL=$folder/pool
for run in 1 2 3; do
  [ "$(LD_LIBRARY_PATH=$libraries "$folder/shared")" = "$run" ] || fail "shared: run $run is not counted"
done
[ "$("$folder/static")" = 4 ] || fail "static: run 4 is not counted"
unset HOLDFAST_ITM_POOL
LD_LIBRARY_PATH=$ours "$program" 100 2 >"$folder/answer" 2>/dev/null || fail "a program for libitm does not run"

names() { nm --dynamic --defined-only "$1" | sed -n 's/^[0-9a-f]* [TWi] //p' | sort; }
libitm=$(ldd "$program" | sed -n 's/.*libitm\.so\.1 => \([^ ]*\).*/\1/p')
[ -n "$libitm" ] || fail "the program is not linked with libitm"
missing=$(comm -23 <(names "$libitm") <(names "$ours/libitm.so.1"))
[ -z "$missing" ] || fail "not in ours: $missing"

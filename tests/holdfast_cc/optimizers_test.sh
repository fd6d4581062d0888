#!/usr/bin/env bash
# optimizers_test.sh <holdfast-cc>: link-time optimisation and sanitizers see durable programs through.
set -euo pipefail
cc=$1
cxx=$(dirname "$cc")/holdfast-c++
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/holdfast_cc/testing.sh
. "$here/testing.sh"
cd "$work"

# build <name> <flag...>: the counter as one program, then run.
build() {
  local name=$1
  shift
  quietly "$cc" "$@" -I"$here/project" -c "$here/project/main.c" "$here/project/counter.c"
  quietly "$cxx" "$@" -std=c++20 -c "$here/project/name.cpp"
  quietly "$cxx" "$@" main.o counter.o name.o -o "$name"
  counts "./$name"
}

# The pass is done with a module before it is linked: each store has one log call in the bitcode and one in the program.
printf 'void set(int *p, int v) { *p = v; }\n' >set.c
printf 'void set(int *p, int v);\nint main(int n, char **a) { (void)a; int x; set(&x, n); return x - n; }\n' >main_set.c
for flags in "-flto -O0" "-flto -O2" "-flto=thin -O0" "-flto=thin -O2"; do
  read -r -a list <<<"$flags"
  quietly "$cc" "${list[@]}" -fuse-ld=lld -Wl,--save-temps main_set.c set.c -o whole
  ./whole
  [ "$(llvm-dis-19 -o - whole*.precodegen.bc 2>/dev/null | grep -c 'call.*@__nvm_log(')" -le 1 ] || fail "$flags: logged twice"
  quietly "$cc" "${list[@]}" -fuse-ld=lld -shared -fPIC set.c -o libset.so
  [ "$(objdump -d libset.so | grep -c 'call.*<__nvm_log@plt>\|call.*<__nvm_log>')" -ge 1 ] || fail "$flags: not logged"
  build "whole_program${flags// /}" "${list[@]}" -fuse-ld=lld
  rm -f whole*
done
# A module for ThinLTO that is compiled by hand afterwards, as distributed builds do.
quietly "$cc" -flto=thin -O2 -c set.c -o thin.o
quietly "$cc" -O2 -fthinlto-index=/dev/null -x ir thin.o -c -o native.o
[ "$(log_calls native.o)" = 1 ] || fail "distributed ThinLTO: $(log_calls native.o) log calls"

build address -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
build undefined -O2 -fsanitize=undefined -fno-sanitize-recover=all
build hardened -O2 -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fcf-protection -fPIE
build sections -O2 -ffunction-sections -fdata-sections -fuse-ld=lld -Wl,--gc-sections -Wl,-z,defs
build covered -O1 --coverage
build profiled -O2 -fprofile-generate="$work/profile"
quietly llvm-profdata-19 merge -o "$work/profile/default.profdata" "$work"/profile/*.profraw
build guided -O2 -fprofile-use="$work/profile"
# Sanitizers still find what they are for, in durable memory too.
printf 'int main(int n, char **a) { (void)a; char x[8]; char *volatile p = x; p[n + 7] = 1; return 0; }\n' >overflow.c
quietly "$cc" -O1 -g -fsanitize=address overflow.c -o overflow
says 'stack-buffer-overflow' 1 ./overflow
printf 'int main(int n, char **a) { (void)a; return (0x7fffffff + n) == 0; }\n' >signed.c
quietly "$cc" -fsanitize=undefined -fno-sanitize-recover=all signed.c -o signed
says 'signed integer overflow' 1 ./signed

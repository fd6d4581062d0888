#!/usr/bin/env bash
# driver_test.sh <holdfast-cc>: it is a drop-in for cc, and what is wrong is said with its place.
set -euo pipefail
cc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { printf 'driver_test: %s\n' "$1" >&2; exit 1; }
# says <expected text> <exit code> <command...>
says() {
  local text=$1 code=$2 status=0
  shift 2
  "$@" >out 2>&1 || status=$?
  [ "$status" -eq "$code" ] || { cat out >&2; fail "$*: exit code $status, expected $code"; }
  grep -qF -- "$text" out || { cat out >&2; fail "$*: no '$text'"; }
}

printf 'int twice(int x);\nint main(void) { return twice(0); }\n' >main.c
printf 'int twice(int x) { return 2 * x; }\n' >twice.c
printf '#include <vector>\nint main() { return std::vector<int>(3).at(0); }\n' >plus.cpp
printf 'void put(long *p) { *p = 1; }\n' >put.c

says 'clang version 19' 0 "$cc" --version
says '-fnvm-unsafe=FILE' 0 "$cc" --holdfast-help
says 'for LLVM 19' 0 "$cc" --holdfast-version
"$cc" -Werror -Wall main.c twice.c -o several && ./several
"$cc" -Werror -c main.c twice.c && "$cc" -Werror main.o twice.o -o linked && ./linked
"$cc" -Werror -S -O1 twice.c && grep -q 'twice:' twice.s
"$cc" -Werror -E main.c | grep -q 'int main'
"$cc" -Werror -MM main.c | grep -q '^main.o'
"$cc" -Werror -shared -fPIC twice.c -o libtwice.so && "$cc" main.c -L. -ltwice -Wl,-rpath,. -o shared && ./shared
"$cc" -Werror -shared -fPIC -Wl,--fatal-warnings put.c -o libput.so
printf -- '-Werror main.c\ntwice.c -o responded\n' >flags && "$cc" @flags && ./responded
"$cc" -Werror -x c -O2 - -c -o piped.o <twice.c
"$cc" -Werror -flto -O2 main.c twice.c -fuse-ld=lld -o lto 2>/dev/null && ./lto
"$cc" -Werror -fsanitize=address,undefined main.c twice.c -o sanitized && ./sanitized
"$(dirname "$cc")/holdfast-c++" -Werror -std=c++20 plus.cpp -o plus && ./plus
"$cc" -fno-nvm main.c twice.c -o plain && ./plain

printf 'f={nargs:1,\n' >broken.unsafe
says 'broken.unsafe:1:12: expected' 1 "$cc" -fnvm-unsafe=broken.unsafe -c twice.c
says 'cannot read absent.unsafe' 1 "$cc" -fnvm-unsafe=absent.unsafe -c twice.c
says 'unknown option -fnvm-magic' 2 "$cc" -fnvm-magic -c twice.c
printf '#include <string.h>\nvoid f(char *a) { strcpy(a, "x"); }\n' >few.c
printf 'strcpy={nargs:3,wr_set:{}}\n' >few.unsafe
says 'strcpy is called with 2 arguments' 0 "$cc" -O0 -fno-builtin -fnvm-unsafe=few.unsafe -c few.c
says 'few.c: 2 stores; 1 log calls (1 of them before precompiled functions, 0 before loops)' 0 \
  "$cc" -O0 -fno-builtin -fnvm-stats -c few.c
says 'few.c:2:19: remark: logged: the target may be durable' 0 "$cc" -O0 -fno-builtin -Rpass=nvm-log -c few.c
HOLDFAST_CLANG=no-such-compiler says 'cannot run no-such-compiler' 2 "$cc" -c twice.c
echo ok

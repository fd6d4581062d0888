#!/usr/bin/env bash
# errors_test.sh <holdfast-cc>: errors name their place; help and version.
set -euo pipefail
cc=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/holdfast_cc/testing.sh
. "$here/testing.sh"
cd "$work"
printf 'int twice(int x) { return 2 * x; }\n' >twice.c

# Build systems take the first line and the first number of --version for the compiler's.
says 'clang version 19' 0 "$cc" --version
[ "$(grep -n 'clang version 19' out | cut -d: -f1)" = 1 ] || fail "--version: the first line is not Clang's"
says 'for LLVM 19' 0 "$cc" --version
says 'for LLVM 19' 0 "$cc" --holdfast-version
says '-fnvm-unsafe=FILE' 0 "$cc" --holdfast-help
says '-fnvm-unsafe=FILE' 0 "$cc" --help
says '-fsyntax-only' 0 "$cc" --help

printf 'f={nargs:1,\n' >broken.unsafe
says 'broken.unsafe:1:12: expected' 1 "$cc" -fnvm-unsafe=broken.unsafe -c twice.c
says 'cannot read absent.unsafe' 1 "$cc" -fnvm-unsafe=absent.unsafe -c twice.c
says "holdfast-cc: error: unknown option '-fnvm-magic'" 1 "$cc" -fnvm-magic -c twice.c
says "unknown option '-fnvm-unsafe'" 1 "$cc" -fnvm-unsafe broken.unsafe -c twice.c
says '-fnvm-unsafe= lacks its FILE' 1 "$cc" -fnvm-unsafe= -c twice.c
printf '#include <string.h>\nvoid f(char *a) { strcpy(a, "x"); }\n' >few.c
printf 'strcpy={nargs:3,wr_set:{}}\n' >few.unsafe
says 'strcpy is called with 2 arguments' 0 "$cc" -O0 -fno-builtin -fnvm-unsafe=few.unsafe -c few.c
says 'few.c: 2 stores; 1 log calls (1 of them before precompiled functions, 0 before loops)' 0 \
  "$cc" -O0 -fno-builtin -fnvm-stats -c few.c
says 'few.c:2:19: remark: logged: the target may be durable' 0 "$cc" -O0 -fno-builtin -Rpass=nvm-log -c few.c

# A file of precompiled functions is a prerequisite of what was compiled with it.
"$cc" -fnvm-unsafe=few.unsafe -O0 -fno-builtin -MMD -MF deps.d -c few.c 2>/dev/null
grep -q 'few.unsafe' deps.d || fail "few.unsafe is no prerequisite: $(cat deps.d)"

# A compiler that the plugin was not built for.
says 'cannot run no-such-compiler' 1 env HOLDFAST_CLANG=no-such-compiler "$cc" -c twice.c
says 'cannot run no-such-compiler' 1 env HOLDFAST_CLANG=no-such-compiler "$cc" --version
printf '#!/bin/sh\necho "Some clang version 16.0.6 (1~deb)"\n' >clang-old && chmod +x clang-old
says './clang-old is Clang 16.0.6, but the pass was built for LLVM 19.1' 1 env HOLDFAST_CLANG=./clang-old "$cc" -c twice.c
printf '#!/bin/sh\necho "gcc (Debian) 12.2.0"\n' >gcc-fake && chmod +x gcc-fake
says './gcc-fake is not Clang' 1 env HOLDFAST_CLANG=./gcc-fake "$cc" -c twice.c
says "not for 'aarch64-linux-gnu'" 1 "$cc" --target=aarch64-linux-gnu -c twice.c
quietly "$cc" --target=aarch64-linux-gnu -fno-nvm -ffreestanding -c twice.c
ln -s "$cc" holdfast-llvm-nonsense
says 'cannot run llvm-nonsense-19' 1 ./holdfast-llvm-nonsense
echo ok

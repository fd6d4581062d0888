#!/usr/bin/env bash
# driver_test.sh <holdfast-cc> <clang>: it is a drop-in for cc.
set -euo pipefail
cc=$1 clang=$2
cxx=$(dirname "$cc")/holdfast-c++
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/holdfast_cc/testing.sh
. "$here/testing.sh"
cd "$work"

# same <argument...>: output, messages and exit code are those of Clang.
same() {
  local ours=0 theirs=0
  "$cc" "$@" >ours.out 2>ours.err </dev/null || ours=$?
  "$clang" "$@" >theirs.out 2>theirs.err </dev/null || theirs=$?
  [ "$ours" -eq "$theirs" ] || { cat ours.err >&2; fail "$*: exit code $ours, Clang's is $theirs"; }
  diff theirs.out ours.out >&2 || fail "$*: other output than Clang's"
  diff theirs.err ours.err >&2 || fail "$*: other messages than Clang's"
}

printf 'int twice(int x);\nint main(void) { return twice(0); }\n' >main.c
printf '#ifdef THREE\nint thrice;\n#endif\nint twice(int x) { return 2 * x; }\n' >twice.c
printf 'void set(int *p, int v) { *p = v; }\n' >set.c
printf 'int broken(void) { return x; }\n' >broken.c
printf '#define ANSWER 42\n' >header.h
printf '.globl from_assembly\nfrom_assembly: ret\n' >assembly.s
printf '#include "header.h"\n.globl number\nnumber: .long ANSWER\n' >preprocessed.S
mkdir -- -folder
printf 'int in_a_folder;\n' >-folder/-dashed.c

# What Clang answers without compiling, and what it refuses.
same
same -v
same -dumpversion
same -dumpmachine
same -print-search-dirs
same -print-file-name=libc.so.6
same -print-prog-name=ld
same -print-resource-dir
same -print-target-triple
same -no-such-option -c twice.c
same -c absent.c
same -c main.c twice.c -o both.o
same -c broken.c
same -o
same -x
same main.c twice.c -I
same -c twice.c -Wunused-command-line-argument -lm
same -cc1 -version

# Steps, names, languages.
same -E main.c
says '#define __clang__ 1' 0 "$cc" -E -dM -x c /dev/null
same -P -E -DTHREE twice.c
same -M main.c
same -MM -MT other main.c
same -fsyntax-only -Wall main.c
same -S -o - -O1 twice.c
same --analyze main.c
"$cc" -Werror -c main.c twice.c && "$cc" -Werror main.o twice.o -o linked && ./linked
"$cc" -Werror main.c twice.c && ./a.out
"$cc" -Werror main.c twice.c -oattached && ./attached
"$cc" -Werror main.c twice.c --output spelt && ./spelt
"$cc" -Werror -c -o dashed.o -- -folder/-dashed.c && test -s dashed.o
"$cc" -Werror -o dashed -- main.c twice.c && ./dashed
"$cc" -Werror -MD -MF deps.d -c main.c && grep -q '^main.o: main.c' deps.d
"$cc" -Werror -x c -O2 - -c -o piped.o <twice.c && "$cc" main.o -x c - -x none piped.o -o mixed </dev/null && ./mixed
"$cc" -Werror -c assembly.s && "$cc" -Werror -c preprocessed.S && "$cc" -Werror -x assembler-with-cpp -c preprocessed.S
"$cc" -Werror -x c-header header.h -o header.h.gch && "$cc" -Werror header.h && rm header.h.gch
"$cc" -Werror -Xclang -emit-pch -x c-header header.h -o header.pch && "$cc" -Werror -include-pch header.pch -c twice.c
"$cc" -Werror -pipe -fno-integrated-as -c twice.c && "$cc" -Werror -ffreestanding -nostdinc -c twice.c
says '@set(' 0 "$cc" -Werror -emit-llvm -S -o - set.c
"$cc" -Werror -m32 -O0 -c set.c && [ "$(log_calls set.o)" = 0 ]
says '"-o" "a.out"' 0 "$cc" '-###' main.c

# Linking: a run-time that nobody needs is not asked for, one that somebody needs is found at run time.
"$cc" -Werror -shared -fPIC twice.c -o libtwice.so && "$cc" main.c -L. -ltwice -Wl,-rpath,. -o shared && ./shared
says_not NEEDED.*holdfast readelf -d linked
"$cc" -Werror -shared -fPIC set.c -o libset.so && says 'Shared library: [libholdfast.so' 0 readelf -d libset.so
"$cc" -Werror -fno-nvm-run-path -shared -fPIC set.c -o libset.so && says_not RUNPATH readelf -d libset.so
"$cc" -Werror -nostdlib -shared -fPIC set.c -o libset.so && says_not libholdfast readelf -d libset.so
"$cc" -Werror -r main.c twice.c set.c -o several.o && [ "$(nm several.o | grep -c ' T ')" = 3 ]
"$cc" -Werror -nostartfiles -nodefaultlibs -static -Wl,-e,twice twice.c -o bare && says_not __nvm nm bare
"$cc" -Werror main.c set.c twice.c -Wl,-Bstatic -lm -Wl,-Bdynamic -o static_part && ./static_part

# Response files: nested, quoted, with our options inside, and longer than a command line can be.
printf -- '-Werror "main.c"\ntwice.c -o responded @nested\n' >flags
printf -- '-O2 -DTEXT="a b\\\\c"' >nested
"$cc" @flags && ./responded
says_not FOUND "$cc" -c twice.c @nested
same -E @nested main.c
same -c @absent
printf -- "-fnvm-stats -fno-nvm-elide '-DX=a b'" >ours
says 'set.c: 3 stores; 3 log calls' 0 "$cc" @ours -c set.c
says_not 'stores' "$cc" -c set.c -o -fnvm-stats
test -s ./-fnvm-stats
for ((i = 0; i < 40000; i++)); do printf -- '"-DMACRO_%s=%s a b c d e f g h i j k l m n o p q r s t u v w x y z"\n' $i $i; done >long
"$cc" -Werror @long -c twice.c -o long.o && "$cc" main.c long.o -o long_linked && ./long_linked

# Every level, both languages, with what else may be wished.
for level in -O0 -O1 -O2 -O3 -Os -Oz -Og; do
  "$cc" "$level" -c set.c -o set.o
  [ "$(log_calls set.o)" = 1 ] || fail "$level: $(log_calls set.o) log calls"
done
"$cc" -Werror -std=c11 -pedantic -Wall -Wextra -c set.c && "$cc" -Werror -std=c99 -g3 -gdwarf-4 -c set.c
printf '#include <vector>\nint main() { auto f = [](auto... x) { return (0 + ... + x); };\n
  return f(std::vector<int>(3).at(0)); }\n' >plus.cpp
"$cxx" -Werror -std=c++20 plus.cpp -o plus && ./plus
"$cxx" -Werror -std=c++17 -fno-exceptions -fno-rtti -O2 plus.cpp -o plus && ./plus
"$cc" -Werror -x c++ plus.cpp -lstdc++ -o plus && ./plus
printf 'export module m;\nexport void set(int *p, int v) { *p = v; }\n' >module.cppm
printf 'import m;\nint main() { int x = 1; set(&x, 0); return x; }\n' >imports.cpp
"$cxx" -Werror -std=c++20 --precompile module.cppm -o m.pcm && "$cxx" -Werror -std=c++20 -c m.pcm -o module.o
"$cxx" -Werror -std=c++20 -fmodule-file=m=m.pcm imports.cpp module.o -o imports && ./imports
[ "$(log_calls module.o)" -ge 1 ] || fail "module: no log calls"
"$cc" -fno-nvm -O2 -c set.c && [ "$(log_calls set.o)" = 0 ]
"$cc" -fno-nvm -O2 -fnvm -c set.c && [ "$(log_calls set.o)" = 1 ]
says_not 'stores' "$cc" -fnvm-stats -O2 -fno-nvm-stats -c set.c

# The pass comes once, whatever way a module takes.
"$cc" -O2 -save-temps -c set.c -o set.o
[ "$(log_calls set.o)" = 1 ] || fail "-save-temps: $(log_calls set.o) log calls"
"$cc" -O2 -emit-llvm -c set.c -o set.bc
"$cc" -O2 -c set.bc -o set.o
[ "$(log_calls set.o)" = 1 ] || fail "compiled again from a .bc file: $(log_calls set.o) log calls"

# Signals and exit codes of the compiler are those of the driver.
fake() {
  # shellcheck disable=SC2016  # the script's own $1
  printf '#!/bin/sh\nif [ "$1" = --version ]; then echo clang version 19.1.0; else %s; fi\n' "$1" >fake
  chmod +x fake
}
fake 'exit 42'
HOLDFAST_CLANG=./fake says '' 42 "$cc" -c twice.c
# shellcheck disable=SC2016  # the script's own $$
fake 'kill -TERM $$'
HOLDFAST_CLANG=./fake says '' 143 bash -c '"$@" & wait $!' _ "$cc" -c twice.c
echo ok

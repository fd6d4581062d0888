#!/usr/bin/env bash
# link_test.sh <holdfast-cc> <link>: however a program is put together, it knows the types of all of its parts, each once.
set -euo pipefail
cc=$1 sources=$2
plus=$(dirname "$cc")/holdfast-c++
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
flags=(-Wall -Wextra -Werror)
one='node:16'
both='node:16 part:24'  # in the order of their ids

# prints <expected> <what> <command...>
prints() {
  local expected=$1 what=$2 found
  shift 2
  found=$("$@")
  [ "$found" = "$expected" ] || { printf '%s: found\n%s\nexpected\n%s\n' "$what" "$found" "$expected" >&2; exit 1; }
}

"$cc" "${flags[@]}" "$sources/main.c" -o alone && prints "$one" 'one file' ./alone
for options in '-O0' '-O2' '-O3 -g' '-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections' '-O2 -flto -fuse-ld=lld' \
  '-O2 -flto=thin -fuse-ld=lld' '-O1 -fsanitize=address,undefined' \
  '-O2 -fuse-ld=lld -Wl,--gc-sections -Wl,-z,start-stop-gc' '-O2 -static-libgcc'; do
  read -ra list <<<"$options"
  "$cc" "${flags[@]}" "${list[@]}" -DWITH_PART "$sources/main.c" "$sources/part.c" -o whole
  prints "$both" "$options" ./whole
done

# C and C++ describe the common type alike; so they do the other one.
"$cc" "${flags[@]}" -c -DWITH_PART "$sources/main.c" -o main.o
"$plus" "${flags[@]}" -c "$sources/part.cpp" -o part.o
"$cc" "${flags[@]}" -c "$sources/part.c" -o again.o
"$plus" main.o part.o -o mixed && prints "$both" 'C and C++' ./mixed
"$cc" -Wl,-z,muldefs main.o part.o again.o -o twice -lstdc++ && prints "$both" 'the same types twice' ./twice

# A member of a static library comes with its types, or not at all.
ar rc libpart.a again.o
"$cc" main.o -L. -lpart -o archived && prints "$both" 'static library' ./archived
"$cc" "${flags[@]}" "$sources/main.c" -L. -lpart -o without && prints "$one" 'unused member' ./without

# Shared: linked, and loaded late, unloaded, and loaded again.
"$cc" "${flags[@]}" -fPIC -shared "$sources/part.c" -o libpart.so
"$cc" main.o -L. -lpart -Wl,-rpath,"$work" -o shared && prints "$both" 'shared library' ./shared
prints "$one"$'\n'"$both"$'\n'"$both"$'\n'"$both" 'dlopen' ./alone ./libpart.so

# Precompiled headers.
"$cc" -c -x c-header "$sources/node.h" -o node.h.pch
sed '/#include "node.h"/d' "$sources/main.c" >main_pch.c
"$cc" "${flags[@]}" -include-pch node.h.pch main_pch.c -o precompiled && prints "$one" 'precompiled header' ./precompiled

# Constructors that run early know all.
"$plus" "${flags[@]}" -I"$sources" -c "$sources/early.cpp" -o early.o
"$plus" early.o main.o again.o -o early
prints $'early node\nearly part\n'"$both" 'early constructor' ./early

# Two types of one name in one program: no pool can be opened, and the message names both.
"$cc" "${flags[@]}" -DWITH_PART "$sources/main.c" "$sources/other.c" -o twins
./twins | grep -q 'type id 0x71c14e0d has two meanings in this program: node: 16 bytes .*node: 32 bytes' ||
  { ./twins; exit 1; }

# -fno-nvm leaves no trace.
"$cc" "${flags[@]}" -fno-nvm "$sources/main.c" -o plain && prints '' 'without the plugin' ./plain

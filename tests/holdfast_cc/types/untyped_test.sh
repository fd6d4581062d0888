#!/usr/bin/env bash
# untyped_test.sh <holdfast-cc> <holdfast> <untyped>: with -fnvm-statics objects without types lead where they led, though
# the program was loaded elsewhere, or was built anew; what is gone is named, other programs are refused.
set -euo pipefail
cc=$1 holdfast=$2 sources=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
flags=(-Wall -Wextra -O1 -fPIE -pie)

# prints <expected> <what> <command...>
prints() {
  local expected=$1 what=$2 found
  shift 2
  found=$("$@" 2>&1) || true
  # shellcheck disable=SC2053  # a pattern
  [[ $found == $expected ]] || { printf '%s: found\n%s\nexpected\n%s\n' "$what" "$found" "$expected" >&2; exit 1; }
}
here() { prints 'arithmetic 12, 7, ed, 9, 5a00001000000004' "$@"; }

"$cc" "${flags[@]}" -fnvm-statics "$sources/program.c" -o first
"$cc" "${flags[@]}" -fnvm-statics -DPADDED "$sources/program.c" -o second
prints 'made' 'the pool' ./first make pool
for i in 1 2 3; do here "start $i" ./first show pool; done
here 'rebuilt' ./second show pool
here 'the first again' ./first show pool
prints '*program.c:arithmetic*' 'tools tell what it leads to' "$holdfast" types pool
here 'a tool has changed nothing' ./second show pool
"$holdfast" check pool >/dev/null

"$cc" "${flags[@]}" -fnvm-statics -DWITHOUT "$sources/program.c" -o less
"$cc" "${flags[@]}" "$sources/program.c" -o stranger
prints 'made' 'another pool' ./first make other
# Of an object of which only the table has the address: the table is there, and with it all that the object knows.
prints 'arithmetic 7, 7, ed, 9, *' 'what no object leads to may go' ./less show other
prints '*lead into its program: found build * */less, expected that one, *; this is build * */stranger' \
  'a program that does not say so' ./stranger show other
mkdir with
sed 's/static int add/static int sum/; s/call = add/call = sum/; s/times add/times sum/' "$sources/program.c" >with/program.c
"$cc" "${flags[@]}" -fnvm-statics with/program.c -o renamed
cp pool before
prints '*word 1 of the object at *found program.c:add of build * */second, expected something that this program has, build * */renamed' \
  'gone' ./renamed show pool
here 'nothing was changed' ./second show pool

"$cc" "${flags[@]}" -fnvm-statics -no-pie -fno-pie "$sources/program.c" -o fixed
"$cc" "${flags[@]}" -fnvm-statics -no-pie -fno-pie -DPADDED "$sources/program.c" -o fixed_too
for i in 1 2; do here "at a fixed place $i" ./fixed show pool; done
prints '*at a fixed place: found build * */fixed, expected *; this is build * */fixed_too' 'another at a fixed place' \
  ./fixed_too show pool
here 'the same at a fixed place' ./fixed show pool

"$cc" "${flags[@]}" -fnvm-statics -c "$sources/program.c" -o unnamed.o
"$cc" -pie unnamed.o -Wl,--build-id=none -o unnamed
prints '*does not say which build it is*' 'no build id' ./unnamed show other

# Each store of such an address is told of, where the object may be durable.
said=$("$cc" "${flags[@]}" -Rpass-analysis=nvm-static -c "$sources/program.c" 2>&1)
for name in arithmetic add stdout; do
  case $name in
    stdout) [[ $said != *"address of stdout"* ]] ;;
    *) [[ $said == *"the address of $name may become durable"* ]] ;;
  esac || { printf 'remarks: found\n%s\n' "$said" >&2; exit 1; }
done
# A checked build finds nothing to say of addresses that are put right, and names the stores of a program without.
"$cc" "${flags[@]}" -fnvm-check -fnvm-statics "$sources/program.c" -o checked
prints 'made' 'checked' ./checked make pool_checked
"$cc" "${flags[@]}" -fnvm-check "$sources/program.c" -o checked_without
prints '*receives a pointer to volatile memory*' 'checked without' ./checked_without make pool_without

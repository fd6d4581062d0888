#!/usr/bin/env bash
# described_test.sh <holdfast-cc> <described>: macros and templates describe types as the plugin does, bit for bit: a
# program with both knows each type once, and a different description would be refused.  Without the plugin they are
# enough.
set -euo pipefail
cc=$1 sources=$2
plus=$(dirname "$cc")/holdfast-c++
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# prints <expected> <what> <program>
prints() {
  local found
  found=$("$3")
  [ "$found" = "$1" ] || { printf '%s: found\n%s\nexpected\n%s\n' "$2" "$found" "$1" >&2; exit 1; }
}
for options in '-Wall' '-Wall -fno-nvm'; do
  read -ra list <<<"$options"
  "$cc" -std=gnu11 -Wextra -Werror "${list[@]}" "$sources/in_c.c" -o "$work/in_c"
  prints 'tail slot Node everything ' "C $options" "$work/in_c"
  "$plus" -std=c++17 -Wextra -Werror "${list[@]}" "$sources/in_cpp.cpp" -o "$work/in_cpp"
  prints 'store::shelf store::node ' "C++ $options" "$work/in_cpp"
done

# The test itself: a field that is left out is another layout.
sed 's/NVM_FIELD(d), //' "$sources/in_c.c" >"$work/less.c"
"$cc" -std=gnu11 "$work/less.c" -o "$work/less"
"$work/less" | grep -q 'type id .* has two meanings in this program: everything: ' ||
  { echo 'another layout was accepted' >&2; exit 1; }

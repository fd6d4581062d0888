#!/usr/bin/env bash
# manual_test.sh <holdfast-cc> <holdfast-cc.1> <guide.md> <completion folder>: manual page, guide, help and completion
# say the same, and the page is sound.
set -euo pipefail
cc=$1 page=$2 guide=$3 completion=$4
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/holdfast_cc/testing.sh
. "$here/testing.sh"
cd "$work"

"$cc" --holdfast-help | grep -oE '^  (-[^ ]*|HOLDFAST_[A-Z]*)' | tr -d ' ' | sort >in_help
[ "$(wc -l <in_help)" -ge 10 ] || fail "help lists $(wc -l <in_help) options"
awk 'tag && sub(/^\.B /, "") { gsub(/[\\]/, ""); print } { tag = $0 == ".TP" }' "$page" | sort >in_page
diff in_help in_page >&2 || fail "help and manual page list other options"
# shellcheck disable=SC2016  # marks of code, none of the shell's
grep -oE '^\| `(-[^`]*|HOLDFAST_[A-Z]*)`' "$guide" | tr -d '|` ' | sort >in_guide
diff in_help in_guide >&2 || fail "help and $guide list other options"
for ((i = 1; i <= $(wc -l <in_help); i++)); do
  option=$(sed -n "${i}p" in_help)
  case $option in
    -*=FILE) says "${option%FILE}"$'\t' 0 "$cc" --autocomplete="${option:0:7}" ;;
    -*) says "$option"$'\t' 0 "$cc" --autocomplete="${option:0:4}" ;;
  esac
done
says '-fsyntax-only' 0 "$cc" --autocomplete=-fs

if command -v man >/dev/null; then
  LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null | tee warnings
  [ ! -s warnings ] || fail "man has warnings"
fi
if command -v mandoc >/dev/null; then
  { mandoc -T lint "$page" || true; } | { grep -v 'STYLE: input text line longer\|missing date' || true; } | tee warnings
  [ ! -s warnings ] || fail "mandoc has warnings"
fi

PATH=$(dirname "$cc"):$PATH
bash -n "$completion/holdfast-cc.bash"
# completes <expected> <typed>: as bash would call it; '=' is a word of its own.
completes() {
  bash -c '
    . "$1"
    COMP_LINE=$2 COMP_POINT=${#2}
    read -r -a COMP_WORDS <<<"${2//=/ = }"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _holdfast_cc
    printf "%s\n" "${COMPREPLY[@]}"' _ "$completion/holdfast-cc.bash" "$2" >"$work/out"
  grep -qxF -- "$1" "$work/out" || fail "'$2' is not completed to '$1': $(cat "$work/out")"
}
touch zlib.unsafe
completes -fno-nvm-elide 'holdfast-cc -c -fno-nv'
completes -fsyntax-only 'holdfast-c++ -fsynt'
completes zlib.unsafe 'holdfast-cc -fnvm-unsafe=zl'
completes zlib.unsafe 'holdfast-cc -c zl'
completes c11 'holdfast-cc -std=c1'
if command -v zsh >/dev/null; then zsh -n "$completion/_holdfast-cc"; fi
# completes_in_fish <expected> <typed>
completes_in_fish() {
  # shellcheck disable=SC2016  # fish's own variables
  HOME=$work fish --no-config -c '
    source $argv[1]
    complete -C $argv[2]' "$completion/holdfast-c++.fish" "$2" >"$work/out"
  grep -q -- "^$1" "$work/out" || fail "fish does not complete '$2' to '$1': $(cat "$work/out")"
}
if command -v fish >/dev/null; then
  completes_in_fish -fnvm-stats 'holdfast-cc -fnvm-st'
  completes_in_fish -fsyntax-only 'holdfast-c++ -fsynt'
  completes_in_fish -std=c11 'holdfast-cc -std=c1'
  completes_in_fish -fnvm-unsafe=zlib.unsafe 'holdfast-cc -fnvm-unsafe=zl'
fi

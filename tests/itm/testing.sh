# shellcheck shell=bash disable=SC2154  # the scripts that source this set $library
# Sourced by the tests of libnvm-itm.
#   $library   folder with the library under libitm's name; $holdfast the command
#   $folder    of this test, on memory; $disk another one, on the file system of the build
fail() {
  printf '%s\n' "$1" >&2
  exit 1
}

memory=/dev/shm
[ -w "$memory" ] || memory=${TMPDIR:-/tmp}
folder=$(mktemp -d "$memory/holdfast-itm.XXXXXX")
disk=$(mktemp -d "$PWD/itm.XXXXXX")
trap 'rm -rf "$folder" "$disk"' EXIT
unset HOLDFAST_ITM_POOL HOLDFAST_ITM_SIZE LD_PRELOAD

# A pool of the log-structured engine, made beforehand: that is what the program gets then.
log_pool() {
  "$holdfast" create "$folder/log" --engine log --medium shm --size 16M >/dev/null || fail "no pool of engine log"
}

# with_ours <pool or nothing> <program> [arguments]
with_ours() {
  local pool=$1
  shift
  HOLDFAST_ITM_POOL=$pool LD_LIBRARY_PATH=$library "$@"
}

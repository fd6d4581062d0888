# The common part of the tests of holdfast-cc: a folder for each, and functions that state expectations.
# shellcheck shell=bash
# shellcheck disable=SC2034  # what the scripts use
work=$(mktemp -d)
pools=()
trap 'rm -rf "$work" "${pools[@]}"' EXIT
test_name=$(basename "$0" .sh)

fail() { printf '%s: %s\n' "$test_name" "$1" >&2; exit 1; }
# A test of something that is not installed: ctest counts 77 as skipped.
skip() { printf '%s: skipped: %s\n' "$test_name" "$1" >&2; exit 77; }
# says <expected text> <exit code> <command...>: its output, standard error included
says() {
  local text=$1 code=$2 status=0
  shift 2
  "$@" >"$work/out" 2>&1 || status=$?
  [ "$status" -eq "$code" ] || { cat "$work/out" >&2; fail "$*: exit code $status, expected $code"; }
  [ -z "$text" ] || grep -qF -- "$text" "$work/out" || { cat "$work/out" >&2; fail "$*: no '$text'"; }
}
# says_not <text> <command...>
says_not() {
  local text=$1
  shift
  "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "$*: exit code $?"; }
  ! grep -qF -- "$text" "$work/out" || { cat "$work/out" >&2; fail "$*: says '$text'"; }
}
# quietly <command...>: output only if it fails
quietly() { "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "$*: exit code $?"; }; }
# log_calls <object>: how often its code calls the log
log_calls() { objdump -dr "$1" | grep -cE '(call|R_X86_64_[A-Z0-9]+).*\b__nvm_log(_checked)?\b' || true; }
new_pool() {
  pool=$(mktemp -u /dev/shm/holdfast-cc-XXXXXX)
  pools+=("$pool")
}
# counts <program>: it keeps what it committed, and loses what it did not, when it dies
counts() {
  local status=0
  new_pool
  [ "$("$1" "$pool")" = "1 run 1" ] || fail "$1: first run"
  "$1" "$pool" die >"$work/out" || status=$?
  [ "$status" -eq 7 ] || fail "$1: exit code $status, expected 7"
  [ "$("$1" "$pool")" = "3 run 3" ] || fail "$1: run after its death"
}

#!/usr/bin/env bash
# stale_test.sh <holdfast-cc> <stale>: fields that are NVM_STALE_OK are not logged, and what cannot be one is refused.
set -euo pipefail
cc=$1 sources=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# is <expected> <what> <found>
is() {
  # shellcheck disable=SC2053  # a pattern
  [[ $3 == $1 ]] || { printf '%s: found\n%s\nexpected\n%s\n' "$2" "$3" "$1" >&2; exit 1; }
}
for level in -O0 -O2; do
  "$cc" -Wall -Wextra -Werror $level "$sources/program.c" -o program
  rm -f pool
  is $'after abort 1 200\nlogged 0' "made, $level" "$(./program make pool)"
  for run in show kill show; do
    is $'1 1 1 1\nafter abort 1 200\nlogged 0' "$run, $level" "$(./program "$run" pool 2>/dev/null || true)"
  done
  # Without the annotation the same turns are logged.
  sed 's/ NVM_STALE_OK//' "$sources/program.c" >logged.c
  "$cc" $level logged.c -o logged
  rm -f pool
  is $'after abort 1 100\nlogged [1-9]*' "without, $level" "$(./logged make pool)"
done
said=$("$cc" -O1 -Rpass=nvm-log -c "$sources/program.c" 2>&1)
is '*not logged: the field is NVM_STALE_OK*' 'remarks' "$said"

# refused <declaration> <part of the message>
refused() {
  printf '#include <nvm/malloc.h>\nstruct s { int x; %s };\nint f(struct s *s) { return s->x; }\n' "$1" >bad.c
  if said=$("$cc" -c bad.c 2>&1); then echo "$1 was taken" >&2; exit 1; fi
  is "*$2*" "$1" "$said"
}
refused 'char *text NVM_STALE_OK;' "'text' is NVM_STALE_OK and a 'char \*': only numbers and enumerations"
refused 'struct { int a; } inner NVM_STALE_OK;' 'only numbers and enumerations'
refused 'int more NVM_STALE_OK; } __attribute__((packed)); struct t { int y;' 'a crash could tear it'

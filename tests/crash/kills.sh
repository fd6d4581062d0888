#!/usr/bin/env bash
# The kill campaign: real processes, killed with SIGKILL at random moments, on each medium. A kill loses nothing that is
# in a cache, so this is an end-to-end check of creation, recovery, growth and reuse; what a power cut may lose is the
# explorer's part.
#
# usage: kills.sh [--kills N] [--seed N] [--medium shm|ssd] [--folder DIR]
#   --kills    per medium, 1000 when not given: four tenths on the index over texts, three tenths each on a B+tree and a
#              hash table under random changes
#   --folder   for the pools on ssd; when not given, below the build folder
# After each kill the pool file is checked, and each program walks its structure when it opens it. Prints one row for
# each medium and program. Exit code: 0 no damaged pool and all results as without kills, 1 not so, 2 wrong usage.
# HOLDFAST_BUILD names a build folder to use as it is; without it the release preset is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '6,9s/^# \{0,1\}//p' tests/crash/kills.sh >&2; exit 2; }
fail() { printf 'kills: %s\n' "$1" >&2; exit "${2:-1}"; }

kills=1000
seed=$(date +%s)
media=(shm ssd)
folder=
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case "$1" in
    --kills) kills=$2 ;;
    --seed) seed=$2 ;;
    --medium) media=("$2") ;;
    --folder) folder=$2 ;;
    *) usage ;;
  esac
  shift 2
done
case "$kills" in '' | *[!0-9]*) usage ;; esac
[ "$kills" -ge 10 ] || fail "--kills $kills: expected at least 10" 2
case "${media[0]}" in shm | ssd) ;; *) fail "--medium ${media[0]}: expected shm or ssd" 2 ;; esac
if [ -z "${HOLDFAST_BUILD:-}" ]; then
  ./dev build release index_volatile index_durable churn_volatile churn_durable kill_driver
fi
build=${HOLDFAST_BUILD:-$PWD/build/release}
programs=$build/examples
for program in index_volatile index_durable churn_volatile churn_durable kill_driver; do
  [ -x "$programs/$program" ] || fail "$programs/$program is absent: build first" 2
done
folder=${folder:-$build/kills}
shm_folder=
case "${media[*]}" in *shm*) shm_folder=$(mktemp -d /dev/shm/holdfast-kills.XXXXXX) ;; esac
finish() {
  if [ -d "$shm_folder" ] && ! rmdir "$shm_folder" 2>/dev/null; then
    printf 'kills: the files are in %s\n' "$shm_folder" >&2
  fi
}
trap finish EXIT

rows=
status=0
# campaign <medium> <name> <kills> <program> [driver argument...]
campaign() {
  local medium=$1 name=$2 count=$3 program=$4 at=$folder report code=0
  shift 4
  if [ "$medium" = shm ]; then at=$shm_folder; fi
  report=$("$programs/kill_driver" --name "$name" --medium "$medium" --folder "$at" --kills "$count" --seed "$seed" \
    --seconds 1.5 --check --volatile "$programs/${program}_volatile" --durable "$programs/${program}_durable" "$@") || code=$?
  [ "$code" -ne 2 ] || exit 2
  if [ "$code" -eq 0 ]; then
    printf '%s\n' "$report" | sed '$d'
    rows+=$(printf '%s\n' "$report" | tail -n 1)$'\n'
  else
    status=1
    rows+="$medium  $name  FAILED"$'\n'
  fi
}

printf 'seed %s\n' "$seed"
start=$SECONDS
for medium in "${media[@]}"; do
  campaign "$medium" index $((kills - 2 * (kills * 3 / 10))) index
  campaign "$medium" tree $((kills * 3 / 10)) churn --with --structure --with tree
  campaign "$medium" table $((kills * 3 / 10)) churn --with --structure --with table
done
printf '\n'
"$programs/kill_driver" --header
printf '%s%d kills per medium, %d s in all\n' "$rows" "$kills" $((SECONDS - start))
[ "$status" -eq 0 ] || fail "a pool was damaged, or a result differs from that of a run without kills"

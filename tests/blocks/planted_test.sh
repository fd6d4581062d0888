#!/usr/bin/env bash
# A library that leaves syncs out is found, with either way of leaving them out, and the state that shows it is kept and
# is wrong again. usage: planted_test.sh PROGRAM. Exit code 77: this cannot run here.
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf 'planted_test: %s\n' "$1" >&2; exit 1; }
for plant in no-syncs few-syncs; do
  code=0
  "$program" --plant "$plant" --engine undo --states 400 --seed 1 --keep "$folder" >"$folder/said" 2>&1 || code=$?
  cat "$folder/said"
  [ "$code" -ne 77 ] || exit 77
  [ "$code" -eq 1 ] || fail "--plant $plant: found exit code $code, expected 1"
  grep -q '^state .* after a crash' "$folder/said" || fail "--plant $plant: it is not a crash that shows it"
  kept=("$folder"/*.disk)
  code=0
  "$program" --again "${kept[0]}" || code=$?
  [ "$code" -eq 1 ] || fail "--plant $plant: what was kept: found exit code $code, expected 1"
  rm -f "$folder"/*.disk
done

#!/usr/bin/env bash
# A program that checks itself holds with ours, over volatile memory and over pools of both kinds.
# usage: language_test.sh <folder with libitm.so.1 of ours> <program>
set -euo pipefail
library=$1 program=$2
# shellcheck source=tests/itm/testing.sh
. "$(dirname "$0")/testing.sh"
for pool in "" "$folder/pool" "$disk/pool"; do
  with_ours "$pool" "$program" || fail "over ${pool:-volatile memory}"
done

#!/usr/bin/env bash
# A program that checks itself holds with ours, over volatile memory and over pools of each kind.
# usage: language_test.sh <folder with libitm.so.1 of ours> <holdfast> <program>
set -euo pipefail
library=$1 holdfast=$2 program=$3
# shellcheck source=tests/itm/testing.sh
. "$(dirname "$0")/testing.sh"
log_pool
for pool in "" "$folder/pool" "$folder/log" "$disk/pool"; do
  with_ours "$pool" "$program" || fail "over ${pool:-volatile memory}"
done

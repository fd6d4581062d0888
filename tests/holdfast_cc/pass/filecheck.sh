#!/bin/sh
# filecheck.sh OPT FILECHECK PLUGIN TABLE FILE: the module, through the pass, matches its CHECK lines and verifies.
# A line `; OPTIONS: ...` of the file gives more options.
set -e
options=$(sed -n 's/^; OPTIONS: //p' "$5")
# shellcheck disable=SC2086  # several words
"$1" -load-pass-plugin="$3" --load="$3" -nvm-unsafe="$4" $options -passes=nvm-log,verify -S "$5" | "$2" "$5"

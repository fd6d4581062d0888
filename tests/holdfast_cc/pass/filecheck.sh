#!/bin/sh
# filecheck.sh OPT FILECHECK PLUGIN TABLE FILE: the file's module, through the pass, matches its CHECK lines and verifies.
set -e
"$1" -load-pass-plugin="$3" --load="$3" -nvm-unsafe="$4" -passes=nvm-log,verify -S "$5" | "$2" "$5"

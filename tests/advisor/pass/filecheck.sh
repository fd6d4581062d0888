#!/bin/sh
# filecheck.sh OPT FILECHECK PLUGIN TABLE FILE: the file's module, counted, matches the file's CHECK lines and verifies.
set -e
"$1" -load-pass-plugin="$3" -load "$3" -nvm-profile-unsafe="$4" -passes=nvm-profile,verify -S "$5" | "$2" "$5"

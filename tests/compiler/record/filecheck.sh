#!/bin/sh
# filecheck.sh OPT FILECHECK PLUGIN FILE: the file's module, instrumented, matches the file's CHECK lines and verifies.
set -e
"$1" -load-pass-plugin="$3" -passes=nvm-record,verify -S "$4" | "$2" "$4"

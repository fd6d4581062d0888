#!/usr/bin/env bash
# usage: must_fail.sh <folder that the command leaves> <command...>
# Succeeds when the command ends with exit code 1, the code of a finding: neither 0, nor wrong usage, nor a crash.
folder=$1
shift
code=0
"$@" || code=$?
printf 'exit code %s\n' "$code"
rm -rf -- "$folder"
[ "$code" -eq 1 ]

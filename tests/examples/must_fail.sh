#!/usr/bin/env bash
# usage: must_fail.sh <folder that the command leaves> <expression> <command...>
# Succeeds when the command ends with exit code 1, the code of a finding, and what it says
# matches the expression.
folder=$1
expression=$2
shift 2
code=0
said=$("$@" 2>&1) || code=$?
printf '%s\nexit code %s\n' "$said" "$code"
rm -rf -- "$folder"
[ "$code" -eq 1 ] && [[ $said =~ $expression ]]

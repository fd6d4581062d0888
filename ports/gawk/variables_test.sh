#!/usr/bin/env bash
# variables_test.sh <durable gawk> <pool> <another build of it>: what outlives a gawk and what does not.
set -euo pipefail
gawk=$1 pool=$2 rebuilt=$3 other=$1-other-version
rm -f "$pool"
trap 'rm -f "$pool" "$pool.input" "$other"' EXIT
export GAWK_PERSIST_FILE=$pool

fail() { printf 'variables_test: %s\n' "$1" >&2; exit 1; }
# prints <expected output> <gawk argument>...
prints() {
  local expected=$1 found status=0
  shift
  found=$("$gawk" "$@" 2>&1 </dev/null) || status=$?
  [ "$found" = "$expected" ] || fail "$*: found '$found' (exit code $status), expected '$expected'"
}
# dies <text of the message> <gawk argument>...
dies() {
  local text=$1 found status=0
  shift
  found=$("$gawk" "$@" 2>&1 </dev/null) || status=$?
  if [ "$status" -eq 0 ] || [[ $found != *"$text"* ]]; then
    fail "$*: found '$found' (exit code $status), expected '$text'"
  fi
}

printf 'a 1\nb 2\nc 3\n' >"$pool.input"
# shellcheck disable=SC2016  # awk's dollars
{
  program='function twice(x) { return 2 * x }
    BEGIN { number = 41; text = "t" number; re = @/^[ab]+$/; nested["x"][1][-7] = "deep"
      list[1000000] = list["s"] = 5 }
    { seen[$1] += twice($2); last = $0; }'
  prints '' "$program" "$pool.input"
  prints '41 t41 deep 5 5 regexp 1 0' 'BEGIN { print number, text, nested["x"][1][-7], list[1000000], list["s"],
    typeof(re), "abba" ~ re, "abc" ~ re }'
  prints 'a 2 b 4 c 6 c 3' 'BEGIN { print "a", seen["a"], "b", seen["b"], "c", seen["c"], last }'
  # The same program again: its functions are its own, its variables go on.
  prints '' "$program" "$pool.input"
  prints '4 8 12' 'BEGIN { print seen["a"], seen["b"], seen["c"] }'
  # What gawk sets itself is new in each run.
  prints '0 1 x' 'BEGIN { print NR, ARGC, ENVIRON["HOLDFAST_TEST"] "x" }'

  # A record counts whole or not at all: the run dies in the middle of the second.
  dies 'division by zero' '{ seen[$1] = "new"; last = $0; if ($1 == "b") { delete nested; print 1 / ($2 - 2) } }' \
    "$pool.input"
  prints 'new 8 a 1 deep' 'BEGIN { print seen["a"], seen["b"], last, nested["x"][1][-7] }'
  dies 'syntax error' 'BEGIN { number = 7; }}'
  prints 41 'BEGIN { print number }'
  # exit is an end like any other.
  prints '' 'BEGIN { number = 42; exit }'
  prints 42 'BEGIN { print number; delete seen; delete list; delete nested }'
  prints '0 0 0' 'BEGIN { print length(seen), length(list), length(nested) }'

  # Commands see none of the pool and need none.
  prints 'out in both' 'BEGIN { "echo out" | getline a; command = "cat"; print "both" |& command; close(command, "to")
    command |& getline b; printf "%s ", a; system("printf in"); print " " b }'
  # With records in transactions of two, a run that dies loses two at most.
  export GAWK_PERSIST_RECORDS=2
  dies 'division by zero' '{ rows[NR] = $0 } NR == 5 { print 1 / none }' "$pool.input" "$pool.input"
  prints 1 'BEGIN { print length(rows) == 3 || length(rows) == 4 }'
}

# Another build has everything elsewhere, and goes on.
"$rebuilt" 'BEGIN { number++; more["y"] = "new"; nested["x"][2] = "deeper" }'
prints '43 new' 'BEGIN { print number, more["y"]; number = 42; delete more }'
# Another version refuses the pool and leaves it as it was.
sed 's/GNU Awk 5\.2\.1/GNU Awk 5.2.9/g' "$gawk" >"$other"
chmod +x "$other"
found=$("$other" 'BEGIN { number = 43 }' 2>&1) && fail "another version: found '$found', expected a refusal"
[[ $found == *"made by GNU Awk 5.2.1, expected GNU Awk 5.2.9"* ]] || fail "another version: found '$found'"
prints 42 'BEGIN { print number }'

dies 'arbitrary precision' -M 'BEGIN { x = 2 ^ 100 }'
"$gawk" 'BEGIN { system("sleep 2") }' &
sleep 0.5
dies 'failed to initialize' 'BEGIN { }'
wait
# Of gawks that start on a blank file at a time, one makes the heap; what those have stored that ended well is there.
for _ in {1..5}; do
  head -c 64M /dev/zero >"$pool"
  ended=$(for i in {1..6}; do { "$gawk" -v "i=$i" 'BEGIN { stored[i] = i }' 2>/dev/null && echo "$i"; } & done; wait)
  [ -n "$ended" ] || fail "a blank file: no gawk made a heap of it"
  for i in $ended; do prints "$i" "BEGIN { print stored[$i] }"; done
done
printf 'not a pool' >"$pool"
dies 'failed to initialize' 'BEGIN { }'
echo "variables_test: ok"

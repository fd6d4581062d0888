#!/usr/bin/env bash
# session_test.sh <holdfast-lua> <rebuilt holdfast-lua> <pool>: what outlives a process and what does not.
set -euo pipefail
lua=$1 rebuilt=$2 pool=$3
rm -f "$pool"
trap 'rm -f "$pool" "$pool".*' EXIT

fail() { printf 'session_test: %s\n' "$1" >&2; exit 1; }
# says <expected> <input> [program [argument]...]: a pattern; of output and errors.
says() {
  local expected=$1 input=$2 found
  shift 2
  found=$(printf '%s' "$input" | "${@:-$lua}" "$pool" 2>&1) || true
  # shellcheck disable=SC2053
  [[ $found == $expected ]] || fail "$input: found '$found', expected '$expected'"
}
says '' 'x = 41
t = setmetatable({}, {__index = function(_, k) return k .. "!" end})
function twice(n)
  return 2 * n
end
co = coroutine.wrap(function() for i = 1, 100 do coroutine.yield(i) end end)
first = co()
out = io.stdout
f = io.open("/dev/null", "w")
up = string.upper
'
says $'82\nhello!\n2\nABC\nout' 'twice(x)
t.hello
co()
up("abc")
do out:write("out\n") end
'
# In another build.
says $'3\n82\nABC' 'co()
twice(x)
up("abc")
' "$rebuilt"
says '4' 'co()
'
# A statement counts whole or not at all.
says '*attempt to perform arithmetic*41' 'x = 7; y = {} + 1
x
'
says '*unexpected symbol*' 'x = = 3
'
says 41 'x
'
says '*boom*' 'for i = 1, 1000 do x = {x} end error("boom")
'
says $'41\nclosed file' 'x
io.type(f)
'
# What commits in the middle stays.
says '*late*' 'x = 50 holdfast.commit() x = 60 error("late")
'
says 50 'x
'
# exit is an end like any other.
code=0
printf 'x = 51 os.exit(7)\n' | "$lua" "$pool" || code=$?
[ "$code" = 7 ] || fail "os.exit(7) gave $code"
says 51 'x
'
printf 'x = x + #arg\nprint(x, ...)\n' >"$pool.script"
[ "$("$lua" "$pool" "$pool.script" a b)" = $'53\ta\tb' ] || fail "a script with arguments"
[ "$("$lua" "$pool" -e 'print(x)')" = 53 ] || fail "a chunk of the command line"
"$lua" "$pool" -e 'error("x")' 2>/dev/null && fail "a failed chunk gave 0"
# Memory that runs out is an error of the statement.
small=$pool.small
[ "$(printf 'ok = 1\nt = {} for i = 1, 1e8 do t[i] = {} end\nok\n' | "$lua" --capacity 16777216 "$small" 2>&1 | sed 's/.*not enough memory.*/full/')" = \
  $'full\n1' ] || fail "a full pool: $(printf 'ok\n' | "$lua" "$small" 2>&1)"
# A pool that is open, and one of something else.
printf 'os.execute("sleep 2")\n' | "$lua" "$pool" >/dev/null &
sleep 0.7
[[ $("$lua" "$pool" -e 'x = 1' 2>&1) == *"has it open"* ]] || fail "a pool in use"
wait
printf 'not a pool' >"$pool.none"
"$lua" "$pool.none" -e 'x = 1' 2>/dev/null && fail "not a pool"
says 53 'x
'
echo "session_test: ok"

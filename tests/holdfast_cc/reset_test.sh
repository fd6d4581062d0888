#!/usr/bin/env bash
# reset_test.sh <holdfast-cc> <reset> <holdfast>: fields that are NVM_RESET are zero after each open and not logged, and
# what cannot be one is refused.
set -euo pipefail
cc=$1 sources=$2 holdfast=$3
work=$(mktemp -d)
shm=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work" "$shm"' EXIT
cd "$work"

# is <expected> <what> <found>
is() {
  # shellcheck disable=SC2053  # a pattern
  [[ $3 == $1 ]] || { printf '%s: found\n%s\nexpected\n%s\n' "$2" "$3" "$1" >&2; exit 1; }
}
# The folder of the program's own files is an ssd, or as good as one.
for level in -O0 -O2 '-O2 -fnvm-check'; do
  read -ra flags <<<"$level"
  "$cc" -Wall -Wextra -Werror "${flags[@]}" "$sources/program.c" -o program
  for pool in "$shm/pool" "$work/pool"; do
    rm -f "$pool"
    is $'after abort 49 123\nlogged 0' "made, $level, $pool" "$(NVM_CHECK=1 ./program make "$pool" 2>made || true)"
    # Whether a checked build has complained.
    is '' "said, $level, $pool" "$(grep -v Killed made || true)"
    for run in kill kill close kill; do
      is $'50 reset\nafter abort 49 123\nlogged 0' "$run, $level, $pool" "$(./program "$run" "$pool" 2>/dev/null || true)"
    done
    is '' 'check' "$("$holdfast" check --quiet "$pool" 2>&1)"
    is '*fd *reset of 4*"kind": "reset"*' 'types' "$("$holdfast" types "$pool")$("$holdfast" types --json "$pool")"
    # Tools see what the next process will, and change nothing.
    before=$(cksum <"$pool")
    is '*  fd = "00000000"*  value = 49*  fd = "00000000"*' 'dump' "$("$holdfast" dump --fields "$pool")"
    is '*49 pointers of 50 objects, none leads to no object' 'pointers' "$("$holdfast" pointers "$pool")"
    is "$before" 'the pool' "$(cksum <"$pool")"
  done
done
said=$("$cc" -O1 -Rpass=nvm-log -c "$sources/program.c" 2>&1)
is '*not logged: the field is NVM_RESET*' 'remarks' "$said"

# What begins in such a field and ends elsewhere, or leads elsewhere from its address, is logged.
for word in RESET STALE_OK; do
  for level in -O0 -O1 -O2; do
    said=$("$cc" -w "$level" -Rpass=nvm-log "-DWITHOUT_LOG=NVM_$word" -c "$sources/neighbours.c" 2>&1)
    found=$(sed -n "s/^[^:]*neighbours\.c:\([0-9]*\):.*not logged: the field is NVM_$word.*/\1/p" <<<"$said" | sort -nu)
    is "$(grep -n '/\* field \*/' "$sources/neighbours.c" | cut -d: -f1)" "stores to the field, $word, $level" "$found"
  done
done

# Without the annotation, which is another layout the other way round only.
sed 's/NVM_PTR(struct session) last_used NVM_RESET/NVM_VOLATILE_PTR(struct session) last_used/; s/ NVM_RESET//' \
  "$sources/program.c" >plain.c
"$cc" -w -Wno-nvm-library-type plain.c -o plain
rm -f pool
./plain make pool >/dev/null 2>&1 || true
is $'50 reset*' 'declared later' "$(./program close pool)"
"$cc" -O2 -Wall -Werror "$sources/time.c" -o time
is '1000 objects: *' 'time' "$(./time "$shm/time" 1000)"
is '*another layout in this program*lock: reset(40) at*' 'declared no longer' "$(./plain close pool || true)"

# refused <declaration> <part of the message> [<language>]
refused() {
  printf '#include <nvm/malloc.h>\n%s\n' "$1" >"bad.${3:-c}"
  if said=$("$cc" -c "bad.${3:-c}" 2>&1); then echo "$1 was taken" >&2; exit 1; fi
  is "*$2*" "$1" "$said"
}
refused 'NVM_STRUCT s { int a : 3 NVM_RESET; };' "'a' is NVM_RESET and a bit-field"
refused 'struct s { int a NVM_RESET; };' "'a' is NVM_RESET and in a structure that is not NVM_STRUCT"
refused 'NVM_STRUCT s { union { int a NVM_RESET; float b; } u; };' 'in a union, whose bytes'
refused 'NVM_STRUCT t { int a NVM_RESET; }; NVM_STRUCT s { union { struct t a; float b; } u; };' \
  "'u' of durable 'struct s' is a union, or of a library's type, with a field that is NVM_RESET"
refused 'NVM_STRUCT s { struct { int a; } NVM_RESET; };' 'it stands after the name of a field'
refused 'NVM_STRUCT s { struct { int a; } NVM_RESET b; };' 'it stands after the name of a field'
refused 'NVM_STRUCT s { int &a NVM_RESET; };' 'a reference, which is never zero' cpp
refused 'NVM_STRUCT s { int s::*a NVM_RESET; };' 'a pointer to a member' cpp
refused 'struct v { virtual void f(); }; NVM_STRUCT s { v a NVM_RESET; };' 'of a type with virtual functions' cpp
refused '#include <nvm/nvm.hpp>
NVM_STRUCT s { nvm::p<int> a NVM_RESET; };' 'of a type that logs its own changes' cpp
refused 'NVM_STRUCT s { int a NVM_RESET; char text[1]; };' "'text' is an array of one element at the end of 'struct s'"
refused 'NVM_STRUCT t { int a NVM_RESET; }; NVM_STRUCT s { struct t t; char text[1]; };' 'an array of one element'
# At the end of what is at the end.
for end in 'struct { long k; char text[1]; };' 'struct { long k; struct { char text[1]; } in; } end;' \
  'union { char text[1]; int k; };'; do
  refused "NVM_STRUCT s { int a NVM_RESET; $end };" "'text' is an array of one element"
done
refused 'struct e { long k; char text[1]; }; NVM_STRUCT s { int a NVM_RESET; struct e e; };' 'an array of one element'
refused 'struct e { long k; char text[1]; }; struct r { int a; }; NVM_STRUCT t { r a NVM_RESET; };
NVM_STRUCT s : t, e {};' 'an array of one element' cpp
# Arrays of no bytes are names for a place: what is stored there is other fields'.
refused 'NVM_STRUCT s { int mark[0] NVM_RESET; long a; };' "'mark' is NVM_RESET and of no bytes"
refused 'NVM_STRUCT s { struct {} mark[4] NVM_RESET; long a; };' "'mark' is NVM_RESET and of no bytes"
refused 'NVM_STRUCT s { long a; int mark[4][0] NVM_RESET; };' "'mark' is NVM_RESET and of no bytes"
refused 'NVM_STRUCT t { long a; int mark[0] NVM_RESET; };
NVM_STRUCT s { struct t t; long b; };' 'is not the last field'
refused 'NVM_STRUCT t { long a; int mark[0] NVM_STALE_OK; };
NVM_STRUCT s { struct t t; long b; };' 'is not the last field'
refused 'NVM_STRUCT t { int a NVM_RESET; }; NVM_STRUCT s { struct t mark[0]; long b; };' 'is not the last field'
refused 'struct e {}; NVM_STRUCT s { [[no_unique_address]] e a NVM_RESET; long b; };' 'no_unique_address' cpp
# What a type map has as bytes, and what has a visitor.
slot='NVM_STRUCT slot { int key; int hits NVM_RESET; }; '
for field in 'std::optional<slot>' 'std::variant<int, slot>' 'std::pair<int, std::optional<slot>>'; do
  refused "#include <optional>
#include <utility>
#include <variant>
$slot NVM_STRUCT s { $field a; };" "of a library's type, with a field that is NVM_RESET" cpp
done
refused '#include <array>
NVM_STRUCT slot { int hits NVM_RESET; int few : 3; };
NVM_STRUCT s { std::array<slot, 2> a; };' "of a library's type" cpp
refused '#include <optional>
NVM_STRUCT slot { int hits NVM_RESET; slot(); ~slot(); };
NVM_STRUCT s { std::optional<slot> a; };' "of a library's type" cpp
refused "#include <nvm/describe.h>
$slot union u { struct slot a; long b; };
static void look(const void *o, nvm_visit *v) { (void)o; (void)v; }
NVM_VISIT(union u, look);
NVM_STRUCT s { union u u; };" 'is a union, or'
refused "${slot}NVM_STRUCT s { union { _Atomic(struct slot) a; long b; } u; };" 'is a union, or'
# A tag is logged with its union.
for word in RESET STALE_OK; do
  refused "#include <nvm/describe.h>
NVM_STRUCT s { int kind NVM_$word; union { NVM_PTR(struct s) p; long n; } u NVM_UNION_TAG(kind); };" \
    "'u' of durable 'struct s' has an NVM_UNION_TAG that says nothing: 'kind' is stored without a log"
done
refused '#include <nvm/describe.h>
NVM_STRUCT s { struct { int kind; } in NVM_RESET; union { NVM_PTR(struct s) p; } u NVM_UNION_TAG(in.kind); };' \
  "'kind' is stored without a log"

cat >mark.c <<'END'
#include <nvm/malloc.h>
NVM_STRUCT s { long mark[0] NVM_STALE_OK; long a; };
void f(struct s *p) { p->mark[0] = 1; }
END
said=$("$cc" -w -O1 -Rpass=nvm-log -c mark.c 2>&1)
is '' 'a mark that may be stale' "$(grep 'not logged' <<<"$said" || true)"
# What C++ has.
printf '#include <nvm/malloc.h>\n#include <atomic>\n#include <mutex>\n%s\n' \
  'NVM_STRUCT s { std::mutex m NVM_RESET; std::atomic<int> n NVM_RESET; void* p NVM_RESET; struct { int* q; } r NVM_RESET; };' >good.cpp
is '' 'C++' "$("$cc" -Wall -Werror -c good.cpp 2>&1)"

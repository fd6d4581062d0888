#!/usr/bin/env bash
# The index programs from outside. usage: index_test.sh <folder of the programs> <case>
set -euo pipefail
programs=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { printf 'FAILED: %s\n' "$1" >&2; exit 1; }
# expect <exit code> <text in its messages> <command...>
expect() {
  local code=0 wanted=$1 text=$2
  shift 2
  "$@" >said 2>&1 || code=$?
  [ "$code" -eq "$wanted" ] || fail "$*: exit code $code, expected $wanted: $(cat said)"
  grep -qF -- "$text" said || fail "$*: said '$(cat said)', expected '$text'"
}
durable() { "$programs/index_durable" "$@"; }
volatile() { "$programs/index_volatile" "$@"; }

make_texts() {
  printf 'One two, TWO three.\nthree three' >plain
  : >empty
  printf '\n \t--- ***\n' >no_words
  printf 'na\303\257ve caf\303\251 \000\001zero\000bytes' >bytes
  head -c 100000 /dev/zero | tr '\0' 'w' >one_long_word
  for i in $(seq 2000); do printf 'word%d a b c %d\n' "$i" $((i % 7)); done >many
  texts=(plain empty no_words bytes one_long_word many)
}

# Counts by tools that share nothing with the index.
# shellcheck disable=SC2018,SC2019  # letters of ASCII only, as in the index
count_words() {
  for text in "${texts[@]}"; do cat "$text"; printf '\n'; done | LC_ALL=C tr 'A-Z' 'a-z' |
    LC_ALL=C tr -cs 'a-z0-9\200-\377' '\n' | sed '/^$/d' | LC_ALL=C sort | uniq -c |
    awk '{ print $2 "\t" $1 }' | LC_ALL=C sort
}

case "$2" in
  counts_every_word_once)
    make_texts
    volatile --result r --files "${texts[@]}"
    grep -v '^# file' r | cut -f 1 >words
    paste words <(grep -v '^# file' r | cut -f 2 | cut -d ' ' -f 1) | LC_ALL=C sort >counted
    count_words >expected
    cmp counted expected
    # As many postings as the count says.
    grep -v '^# file' r | cut -f 2 | awk 'NF != $1 + 1 { exit 1 }'
    ;;
  is_the_same_on_every_medium)
    make_texts
    volatile --result v --passes 3 --files "${texts[@]}"
    for medium in shm ssd; do
      durable --pool pool.$medium --medium $medium --result $medium --check --passes 3 --files "${texts[@]}"
      cmp v $medium
    done
    ;;
  counts_nothing_twice_when_run_again)
    make_texts
    for run in 1 2 3; do durable --pool pool --result r$run --check --files "${texts[@]}"; done
    cmp r1 r2
    cmp r1 r3
    ;;
  refuses_texts_that_it_was_not_made_of)
    make_texts
    durable --pool pool --result r --files "${texts[@]}"
    expect 1 'its index is of other texts' "$programs/index_durable" --pool pool --result s --files plain
    printf 'more' >>plain
    expect 1 'its index is of other texts' "$programs/index_durable" --pool pool --result s --files "${texts[@]}"
    [ ! -e s ] || fail 'a result was written'
    ;;
  says_when_there_is_no_text)
    make_texts
    expect 2 'no text found' "$programs/index_volatile" --result r --files
    expect 2 'no text found: the files have no words' "$programs/index_durable" --pool p --result r --files empty no_words
    expect 2 'absent: cannot be read' "$programs/index_durable" --pool p --result r --files absent
    expect 2 'expected a regular file' "$programs/index_volatile" --result r --files .
    [ ! -e r ] || fail 'a result was written'
    ;;
  leaves_a_foreign_file_alone)
    make_texts
    cp many foreign
    expect 1 'foreign' "$programs/index_durable" --pool foreign --result r --files plain
    cmp many foreign
    ;;
  *) fail "no case '$2'" ;;
esac

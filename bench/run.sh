#!/usr/bin/env bash
# Runs benchmarks and leaves their results as JSON: ./dev bench calls this after building.
#
# usage: bench/run.sh [--quick] [transactional|suite|stm|lockfree|region|region-parts|mapping|pages|logheap|gc|ssd|recovery|relocation|tier|stores|compiler|server|churn|ycsb|ablation|comparison|lewat|counting]... [option of the programs]...
#
# Without a name all of them run but relocation, tier, ycsb (YCSB on memcached, Redis and their durable ports, which
# --durable-memcached and --durable-redis name; Breeze's Fig. 9) and the last four, which are the suite as papers measure: the steps of
# LSNVMM's mapping (ablation, its section 5.2) and the log-structured engine beside others (comparison, 5.3), each over
# that paper's workloads; regions as a key-value store (lewat: Lewat's figures 12 to 14); and what counting references
# costs a commit (counting). The programs' options: --runs N, --threads 1,2, --filter NAME,..., --records N,
# --count-steps N; --help of a program lists them. The suite's --emulate PRESET (lsnvmm, log-free), and that of logheap,
# makes memory as slow as a paper's; its results have the preset's name. With --on-ssd the suite measures pools of the
# medium ssd, and server measures servers that are durable on a file system.
# Environment: HOLDFAST_BUILD   build directory (default: build/measure)
#              HOLDFAST_RESULTS where <name>.json goes (default: build/bench; build/bench-quick with --quick)
#              HOLDFAST_SSD     directory on the file system to measure commits, and files of stores, on (default: beside the results)
set -euo pipefail
cd "$(dirname "$0")/.."

build=${HOLDFAST_BUILD:-build/measure}
names=()
options=()
quick=
variant=
on_ssd=
while [ $# -gt 0 ]; do
  case "$1" in
    transactional | suite | stm | lockfree | region | region-parts | mapping | pages | logheap | gc | ssd | recovery | relocation | tier | stores | compiler | server | churn | ycsb | \
      ablation | comparison | lewat | counting) names+=("$1") ;;
    --on-ssd) on_ssd=yes ;;
    --emulate) variant=-${2:?"$1 needs a value"}; options+=("$1" "$2"); shift ;;
    --quick) quick=-quick; options+=("$1") ;;
    -*=* | --no-limits | --help | -h) options+=("$1") ;;
    -*)
      options+=("$1" "${2:?"$1 needs a value"}")
      shift
      ;;
    *)
      printf "bench: no benchmark '%s'; there are transactional, suite, stm, lockfree, region, region-parts, mapping, pages, logheap, gc, ssd, recovery, relocation, tier, stores, compiler, server, churn, ycsb, ablation, comparison, lewat, counting\n" "$1" >&2
      exit 2
      ;;
  esac
  shift
done
[ ${#names[@]} -gt 0 ] || names=(transactional suite stm lockfree region region-parts mapping pages logheap gc ssd recovery stores compiler server churn)

results=${HOLDFAST_RESULTS:-build/bench$quick}
mkdir -p "$results"
HOLDFAST_BENCH_COMMIT=$(git describe --always --dirty 2>/dev/null || echo unknown)
export HOLDFAST_BENCH_COMMIT

# What LSNVMM runs (section 5.1), and with which systems; an option of the command line comes before these.
paper_workloads="=sps-1,=hashtable-insert,=hashtable-update,=bptree-insert,=bptree-update,=rbtree-insert,=rbtree-update,=store-insert,=store-update"
steps=
for step in "base list" "two layers" "group update" "node cache" "lock-free readers" "leaves translated" "leaves materialised"; do
  steps+="=stm over log: $step,=kv B+tree over log: $step,"
done
beside="=libpmemobj,=mnemosyne,=mnemosyne-undo,write-through,=stm over redo,"
beside+="=kv B+tree over mnemosyne,=kv B+tree over mnemosyne-undo,=kv B+tree over undo,=kv B+tree over redo,"
for step in "lock-free readers" "leaves translated" "leaves materialised" "with a cleaner"; do
  beside+="=stm over log: $step,=kv B+tree over log: $step,"
done
# What Lewat runs as a key-value store (its section VII-D, E), and beside which systems.
stores="=store-ycsb-C-16B,store-insert-,store-rewrite-,store-fb-"
for mix in A B C D F; do stores+=",store-ycsb-$mix-64B,store-ycsb-$mix-2KB"; done
store_systems="=libpmemobj,=kv regions over undo,=kv hash table over undo,=lock-free hash table,"
store_systems+="announced stores,=stm over redo,=mnemosyne,=mnemosyne-undo"
unless_given() { # option [value]
  case " ${options[*]-} " in
    *" $1 "* | *" $1="*) ;;
    *) own+=("$@") ;;
  esac
}
of_stores() { # filter systems
  program=suite
  unless_given --filter "$1"
  unless_given --records "$([ -n "$quick" ] && echo 2000 || echo 100000)"
  [ -n "$quick" ] || unless_given --ops 30000
  unless_given --no-limits
  unless_given --systems "$2"
}

status=0
for name in "${names[@]}"; do
  own=()
  program=$name
  case "$name" in
    ablation | comparison)
      program=suite
      if [ "$name" = ablation ]; then
        unless_given --filter "$paper_workloads"
      else
        unless_given --filter "$paper_workloads,=store-ycsb-C"
      fi
      unless_given --records "$([ -n "$quick" ] && echo 2000 || echo 100000)"
      [ -n "$quick" ] || unless_given --ops 30000
      unless_given --no-limits
      if [ "$name" = ablation ]; then
        unless_given --systems "$steps"
        unless_given --count-steps 0
      else
        unless_given --systems "$beside"
      fi
      ;;
    lewat) of_stores "$stores" "$store_systems" ;;
    counting) of_stores "=hashtable-churn,=hashtable-insert,=bptree-churn,=bptree-insert" "described: " ;;
  esac
  program=$build/bench/bench-$program
  if [ ! -x "$program" ]; then
    printf 'bench: %s is not built: it needs fmt, CLI11 and nlohmann-json\n' "$program" >&2
    exit 2
  fi
  printf '\n== %s\n' "$name"
  where=()
  this=$variant
  if [ "$name" = ycsb ]; then
    disk=${HOLDFAST_SSD:-$results/data}
    mkdir -p "$disk"
    where=(--server "$build/src/server/nv-memcached" --disk "$disk")
  fi
  if [ "$name" = ssd ] || [ "$name" = stores ] || [ "$name" = tier ] || { [ -n "$on_ssd" ] && { [ "$name" = suite ] || [ "$name" = server ]; }; }; then
    ssd=${HOLDFAST_SSD:-$results/data}
    mkdir -p "$ssd"
    ssd=$(cd "$ssd" && pwd)  # servers change their directory
    where=(--directory "$ssd")
    if [ "$name" != ssd ] && [ "$name" != stores ] && [ "$name" != tier ]; then this=-ssd; fi
  fi
  if [ "$name" = server ]; then
    where+=(--server "$build/src/server/nv-memcached" ${on_ssd:+--on-ssd})
  fi
  if [ "$name" = churn ]; then where+=(--server "$build/src/server/nv-memcached"); fi
  HOLDFAST_BENCH_COMMAND="./dev bench $name${options[*]+ ${options[*]}}${on_ssd:+ --on-ssd}"
  export HOLDFAST_BENCH_COMMAND
  "$program" --json "$results/$name$this.json" ${where[@]+"${where[@]}"} ${own[@]+"${own[@]}"} \
    ${options[@]+"${options[@]}"} || status=1
  if [ "$name" = compiler ]; then
    # What the pass costs a program that never touches a pool.
    printf '\n'
    python3 bench/compiler/volatile_overhead.py --cc "$build/bin/holdfast-cc" --json "$results/volatile.json" \
      ${quick:+--quick} || status=1
  fi
done
printf '\nresults: %s; ./dev report turns them into docs/bench\n' "$results"
exit $status

#!/bin/bash
# Bodies whose result would be taken for a verdict do not compile; bodies without one, with a bool or an outcome do.
#   verdicts_test.sh COMPILER INCLUDE_FOLDER
set -euo pipefail
compiler=$1
include=$2

# Lines of a function that has a pool, a store, a pointer to int.
compiles() {
  { printf '#include <nvm/kv.hpp>\n#include <nvm/stm.hpp>\nvoid f(NVM_POOL *pool, nvm::kv &s, int *p) {\n'
    printf '  (void)%s;\n' "$@"
    printf '}\n'
  } | "$compiler" -std=c++17 -fsyntax-only -x c++ -I "$include" - 2>&1
}

good=()
for result in 'return true;' '' 'return nvm::outcome{};' 'return *p == 1;'; do
  good+=("nvm::transaction(pool, [&] { $result })" "nvm::atomic(pool, [&](nvm::tx &) { $result })"
    "nvm::atomic([&] { $result })" "s.update(\"k\", [&](std::string &) { $result })")
done
if ! said=$(compiles "${good[@]}"); then
  echo "$said"
  exit 1
fi

# A type is refused once, so each body has one of its own.
bad=(
  'nvm::transaction(pool, [&] { return 0; })'
  'nvm::transaction(pool, [&] { return p; })'
  'nvm::transaction(pool, [&]() -> short & { static short n; return n; })'
  'nvm::atomic(pool, [&](nvm::tx &) { return 0u; })'
  'nvm::atomic(pool, [&](nvm::tx &) { return "text"; })'
  'nvm::atomic([&] { return 1.5; })'
  's.update("k", [&](std::string &) { return 0l; })'
  's.update("k", [&](std::string &) { return &s; })'
)
if said=$(compiles "${bad[@]}"); then
  echo "all of these compile: ${bad[*]}"
  exit 1
fi
refused=$(grep -c 'error: static.*would be taken for that bool' <<< "$said" || true)
if [[ $refused -ne ${#bad[@]} ]]; then
  echo "$refused of ${#bad[@]} bodies are refused with the reason:"
  echo "$said"
  exit 1
fi

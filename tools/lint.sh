#!/usr/bin/env bash
# Everything that can be judged without running the code. --fix formats the code first.
# All checks run even when one fails; exit code 1 when any did.
# shellcheck disable=SC2317  # step calls the functions by name
set -euo pipefail
cd "$(dirname "$0")/.."

fix=
case "${1:-}" in
  "") ;;
  --fix) fix=1 ;;
  *) printf "lint: unknown argument '%s'; expected nothing or --fix\n" "$1" >&2; exit 2 ;;
esac

jobs=${HOLDFAST_JOBS:-$(nproc)}
tracked() { git ls-files -z -- "$@"; }

check_format() {
  if [ -n "$fix" ]; then
    tracked '*.c' '*.h' '*.cpp' '*.hpp' | xargs -0 -r clang-format-19 -i
  fi
  tracked '*.c' '*.h' '*.cpp' '*.hpp' | xargs -0 -r clang-format-19 --dry-run -Werror
}

check_shell() {
  {
    tracked '*.sh' .ci/run dev
  } | xargs -0 -r shellcheck -x
}

check_python() {
  tracked '*.py' | xargs -0 -r python3 -c '
import ast, sys
for name in sys.argv[1:]:
    ast.parse(open(name).read(), name)'
}

# The core, as GCC builds it.
check_tidy() {
  cmake --preset release >/dev/null || { echo "cannot configure"; return 1; }
  # Sources include it, and the build makes it.
  ninja -C build/release generated/advisor/coefficients_text.hpp >/dev/null || { echo "cannot make headers"; return 1; }
  python3 tools/tidy.py --jobs "$jobs"
}

status=0
step() {
  local name=$1 start=$SECONDS
  shift
  if "$@"; then
    printf 'lint: %-8s ok %4d s\n' "$name" $((SECONDS - start))
  else
    printf 'lint: %-8s FAILED\n' "$name"
    status=1
  fi
}

step format check_format
step layers python3 tools/layers.py
step words python3 tools/tree_rules.py
step links python3 tools/check_docs.py
step shell check_shell
step python check_python
step headers python3 tools/headers_alone.py
step tidy check_tidy
exit "$status"

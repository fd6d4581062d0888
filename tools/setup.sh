#!/usr/bin/env bash
# Installs the Debian packages that are missing. Idempotent; prints what it does. The lists are in tools/.
#   tools/setup.sh            all that building, testing and measuring need
#   tools/setup.sh --run      only what ./dev run needs: packages-run.txt
#   tools/setup.sh --build    only what ./dev build needs: also packages-build.txt
#   tools/setup.sh --sources  all, and makes package sources (deb-src) available to apt-get source
#   tools/setup.sh --blocks   all, and what ./dev explore blocks needs: packages-blocks.txt
#   tools/setup.sh --dax      all, and what ./dev explore dax needs: packages-dax.txt
# Exit codes: 0 all there, 1 installation failed, 2 wrong use or no apt-get on this system.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$1" >&2; exit "${2:-1}"; }

as_root=()
need_root() {
  if [ "$(id -u)" -eq 0 ]; then
    return
  fi
  command -v sudo >/dev/null || fail "needs root to $1; run it as root or install sudo"
  as_root=(sudo)
}

# RUNLEVEL=1: servers among the packages (peers of benchmarks) are installed and not started.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

installed() {
  dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    awk '$2 == "installed" { print $1 }'
}

# install_missing <name of a list of packages>...
install_missing() {
  local wanted have missing
  wanted=$(cat "${@/#/tools/}" | sed -e 's/#.*//' -e '/^[[:space:]]*$/d' | sort -u)
  # shellcheck disable=SC2086  # one word a package
  have=$(installed $wanted | sort -u) || true
  missing=$(comm -23 <(printf '%s\n' "$wanted") <(printf '%s\n' "$have"))
  if [ -z "$missing" ]; then
    say "nothing to install"
    return
  fi
  command -v apt-get >/dev/null ||
    fail "no apt-get here; install the equivalents of: $(echo "$missing" | tr '\n' ' ')" 2
  need_root "install packages"
  say "updating the package lists"
  apt update >/dev/null || fail "apt-get update failed"
  say "installing $(echo "$missing" | tr '\n' ' ')"
  # shellcheck disable=SC2086
  apt install --no-install-recommends $missing || fail "apt-get install failed"
  # shellcheck disable=SC2086
  missing=$(comm -23 <(printf '%s\n' "$wanted") <(installed $wanted | sort -u))
  [ -z "$missing" ] || fail "still missing: $missing"
  say "done"
}

# Adds a deb-src twin of each binary source that apt already uses, in a file of our own.
add_sources() {
  local list=/etc/apt/sources.list.d/holdfast-src.list
  local deb822=/etc/apt/sources.list.d/holdfast-src.sources
  local lines="" stanzas="" file
  # shellcheck disable=SC2016  # apt expands it
  if apt-get indextargets --format '$(CREATED_BY)' 2>/dev/null | grep -qx Sources; then
    say "package sources are available"
    return
  fi
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    if [ -f "$file" ]; then
      lines+=$(sed -n 's/^deb /deb-src /p' "$file")$'\n'
    fi
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    if [ -f "$file" ]; then
      stanzas+=$(sed 's/^Types:.*/Types: deb-src/' "$file")$'\n\n'
    fi
  done
  need_root "add package sources"
  if [ -n "${lines//[[:space:]]/}" ]; then
    say "writing $list"
    printf '%s' "$lines" | "${as_root[@]}" tee "$list" >/dev/null
  fi
  if [ -n "${stanzas//[[:space:]]/}" ]; then
    say "writing $deb822"
    printf '%s' "$stanzas" | "${as_root[@]}" tee "$deb822" >/dev/null
  fi
  apt update >/dev/null || fail "apt-get update failed"
}

all=(packages-run.txt packages-build.txt packages.txt)
case "${1:-}" in
  "") install_missing "${all[@]}" ;;
  --run) install_missing packages-run.txt ;;
  --build) install_missing packages-run.txt packages-build.txt ;;
  --sources) install_missing "${all[@]}"; add_sources ;;
  --blocks | --dax) install_missing "${all[@]}" "packages-${1#--}.txt" ;;
  *) fail "unknown argument '$1'; expected nothing, --run, --build, --sources, --blocks or --dax" 2 ;;
esac

#!/usr/bin/env bash
# Brings in what Emend needs and is missing: `tools/setup.sh build`, `test` (which includes build), `bench` (which includes both)
# or `certify` (build, and the solver HiGHS).
# What and which version stands in deps.txt. Debian packages are installed system-wide (as root or by sudo), PyPI's
# into the private environment .venv; what is built from source is kept in $EMEND_CACHE_DIR, by default ~/.cache/emend.
# When nothing is missing this takes a fraction of a second and touches nothing. EMEND_NO_SETUP=1 skips it altogether.
set -euo pipefail
cd "$(dirname "$0")/.."

tier=${1:-build}
case $tier in
  build) tiers='build' ;;
  test) tiers='build|test' ;;
  bench) tiers='build|test|bench' ;;
  certify) tiers='build|certify' ;;
  *) echo "usage: tools/setup.sh build|test|bench|certify" >&2; exit 2 ;;
esac
[ -z "${EMEND_NO_SETUP:-}" ] || exit 0

cache=${EMEND_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/emend}

# wanted SOURCE: the third column of the lines of this tier and source.
wanted() { sed 's/#.*//' deps.txt | awk -v tiers="^($tiers)\$" -v from="$1" '$1 ~ tiers && $2 == from { print $3 }'; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
available() { [ -n "$(apt-cache search --names-only "^$(sed 's/[+.]/\\&/g' <<<"$1")\$" 2>/dev/null)" ]; }

# The packages of deps.txt of which no alternative is installed, as deps.txt writes them.
missing_packages() {
  local line name
  for line in $(wanted debian); do
    for name in ${line//|/ }; do
      if installed "$name"; then continue 2; fi
    done
    echo "$line"
  done
}

# The first alternative that the package lists know; the first of all when they know none, so that apt names it.
choose() {
  local name
  for name in ${1//|/ }; do
    if available "$name"; then echo "$name"; return; fi
  done
  echo "${1%%|*}"
}

install_packages() {
  local missing names=() line as_root=()
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    for line in $missing; do names+=("$(choose "$line")"); done
    echo "setup: packages are missing, and installing them takes root or sudo. Run as root:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${names[*]}" >&2
    echo "setup: (if you have what they hold by other means, set EMEND_NO_SETUP=1)" >&2
    exit 1
  fi
  echo "setup: updating the package lists" >&2
  "${as_root[@]}" apt-get update -qq || echo "setup: the package lists could not be updated; trying with the old ones" >&2
  for line in $missing; do names+=("$(choose "$line")"); done
  echo "setup: installing ${names[*]}" >&2
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "${names[@]}" >&2; then
    echo "setup: apt-get could not install: ${names[*]}" >&2
    echo "setup: install them by hand, then run the same command again" >&2
    exit 1
  fi
}

# at_least WANTED FOUND NAME: distributions older than those we test with have the packages, but too old.
at_least() {
  [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ] && return
  echo "setup: $3 $2 is too old, Emend needs $1 or later; Debian 12 and Ubuntu 24.04 have it" >&2
  exit 1
}

# The environment is current when everything wanted stands in its stamp, which lists what pip was last asked for.
install_wheels() {
  local wheels stamp=.venv/emend-deps
  wheels=$(wanted pypi)
  [ -n "$wheels" ] || return 0
  if [ -x .venv/bin/python ] && [ -e $stamp ] && ! grep -Fxvq -f $stamp <<<"$wheels"; then return 0; fi
  echo "setup: filling .venv from deps.txt" >&2
  [ -x .venv/bin/python ] || python3 -m venv .venv
  # Without a cache of downloads: .venv stays, and PyTorch's larger build would take gigabytes twice.
  if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir $wheels >&2; then
    echo "setup: pip could not install what deps.txt pins; its message above says why" >&2
    exit 1
  fi
  echo "$wheels" > $stamp
}

# HiGHS as a static library in the cache, built once. Its archive leaves out two things that its build asks for.
build_highs() {
  local pin version target work
  pin=$(wanted source)
  [ -n "$pin" ] || return 0
  version=${pin##*==} target=$cache/highs-${pin##*==}
  [ ! -d "$target" ] || return 0
  echo "setup: building HiGHS $version into $target, once; this takes some minutes" >&2
  work=$(mktemp -d)
  trap "rm -rf '${work:?}'" EXIT
  python3 -m venv "$work/venv"
  if ! "$work/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary highspy \
      --dest "$work" "$pin" >&2; then
    echo "setup: pip could not download $pin; its message above says why" >&2
    exit 1
  fi
  tar -C "$work" -xf "$work/highspy-$version.tar.gz"
  touch "$work/highspy-$version/highs.pc.in"
  mkdir -p "$work/highspy-$version/app"
  touch "$work/highspy-$version/app/CMakeLists.txt"
  cmake -S "$work/highspy-$version" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$work/highs" \
    -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF -DBUILD_EXAMPLES=OFF -DBUILD_CXX_EXE=OFF -DZLIB=OFF \
    -DBUILD_SHARED_EXTRAS_LIB=OFF > "$work/log" 2>&1 && cmake --build "$work/build" --target install >> "$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    echo "setup: HiGHS could not be built" >&2
    exit 1
  }
  mkdir -p "$cache"
  mv "$work/highs" "$target"
}

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is neither Debian nor Ubuntu; please install what these Debian packages hold:" >&2
  echo "  $(wanted debian | tr '\n' ' ')" >&2
  echo "setup: then run the same command with EMEND_NO_SETUP=1" >&2
  exit 1
fi
install_packages
at_least 12 "$(g++ -dumpversion)" "GCC"
at_least 3.25 "$(cmake --version | awk 'NR == 1 { print $3 }')" "CMake"
if [ "$tier" != build ]; then
  at_least 3.11 "$(python3 -c 'import platform; print(platform.python_version())')" "Python"
fi
install_wheels
build_highs

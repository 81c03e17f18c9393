#!/usr/bin/env bash
# Installs what a target needs and is not there yet: Debian packages and a
# Python virtual environment. Idempotent and quiet; says in one line what it
# does. Usage: tools/bootstrap.sh build|demo|test|check|bench
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages=(
  g++ cmake ninja-build ccache pkg-config git
  libhwy-dev libtbb-dev libfmt-dev libcli11-dev
  nlohmann-json3-dev libyaml-cpp-dev zlib1g-dev libdeflate-dev libxxhash-dev
  libxlsxwriter-dev libsqlite3-dev libjs-chart.js libopenmpi-dev openmpi-bin
  libgtest-dev libgmock-dev librapidcheck-dev
)
test_packages=(python3 python3-dev python3-venv chromium chromium-driver clang
  libclang-rt-dev)
check_packages=(clang-format clang-tidy)
bench_packages=(libbenchmark-dev libdnnl-dev python3 python3-dev python3-venv)

# clang's sanitizer runtime is a package of its own, named by version.
runtime_package() {
  apt-cache depends clang 2>/dev/null |
    sed -n 's/.*Depends: clang-\([0-9]*\)$/libclang-rt-\1-dev/p' | head -n 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

missing() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null |
      grep -qx installed || echo "$package"
  done
}

refreshed=
refresh() {
  [ -n "$refreshed" ] || as_root apt-get update -qq
  refreshed=1
}

install_packages() {
  command -v apt-get >/dev/null || {
    echo "bootstrap: no apt-get here; install by hand: $*" >&2
    return 0
  }
  local wanted
  wanted=$(missing "$@")
  [ -n "$wanted" ] || return 0
  refresh
  wanted=$(echo "$wanted" | sed "s/^libclang-rt-dev$/$(runtime_package)/")
  wanted=$(missing $wanted)
  [ -n "$wanted" ] || return 0
  echo "bootstrap: installing" $wanted >&2
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $wanted >/dev/null
}

# python_env <folder> <requirements file>
python_env() {
  local stamp="$1/.installed-$(cksum <"$2" | cut -d' ' -f1)"
  [ -f "$stamp" ] && return 0
  echo "bootstrap: Python environment $1 from $2" >&2
  python3 -m venv "$1"
  "$1/bin/pip" install -q --disable-pip-version-check -r "$2"
  rm -f "$1"/.installed-*
  touch "$stamp"
}

case "${1:-build}" in
  build) install_packages "${build_packages[@]}" ;;
  demo)
    install_packages "${build_packages[@]}" python3 python3-venv
    python_env build/venv tests/requirements.txt ||
      echo "bootstrap: no Python environment; what needs it is left out" >&2
    ;;
  test)
    install_packages "${build_packages[@]}" "${test_packages[@]}"
    python_env build/venv tests/requirements.txt
    ;;
  check)
    install_packages "${build_packages[@]}" "${check_packages[@]}" \
      "${test_packages[@]}"
    python_env build/venv tests/requirements.txt
    ;;
  bench)
    install_packages "${build_packages[@]}" "${bench_packages[@]}"
    python_env build/venv-bench bench/requirements.txt
    ;;
  *)
    echo "usage: tools/bootstrap.sh build|demo|test|check|bench" >&2
    exit 2
    ;;
esac

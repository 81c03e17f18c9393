#!/usr/bin/env bash
# Installs the package as its users do, from a source distribution of this tree
# into an environment of its own, and tests what pip then has. Some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Other folders and the same compiler: ccache may know the objects already.
export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
export CC=${CC:-/usr/bin/cc} CXX=${CXX:-/usr/bin/c++}
[ -x /usr/bin/cmake ] && export PATH=/usr/bin:$PATH

echo "clients: source distribution"
build/venv/bin/python -c "from scikit_build_core.build import build_sdist
build_sdist('$work')" >"$work/log" || { cat "$work/log" >&2; exit 1; }
tar xzf "$work"/assay-*.tar.gz -C "$work"

echo "clients: pip install"
build/venv/bin/python -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check "$work"/assay-*/ \
  >"$work/log" 2>&1 || { tail -n 60 "$work/log" >&2; exit 1; }
ASSAY_TEST_PYTHON=$work/venv/bin/python build/venv/bin/python -m pytest -q \
  -p no:cacheprovider tests/python/test_installed.py

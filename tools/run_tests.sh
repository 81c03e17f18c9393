#!/usr/bin/env bash
# Every test of `make test`: C++ (release), per instruction set, the readers
# under sanitizers, a bounded fuzz of each reader, the command line, the docs'
# commands and the report in a browser. Prints each runner's closing line.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
section() { printf '\n== %s\n' "$1"; }
attempt() { "$@" || { failed=1; echo "FAILED: $*" >&2; }; }

section "C++ tests"
attempt ctest --test-dir build/release --output-on-failure -j 2 --timeout 600

section "readers under AddressSanitizer and UBSan"
if attempt tools/build.sh asan "${JOBS:-$(nproc)}" formats_test trace_test \
  numerics_test core_test base_test; then
  attempt ctest --test-dir build/asan --output-on-failure -j 2 --timeout 900 \
    -R '^(base|core|numerics|formats|trace)$'
fi

section "fuzzers, bounded"
attempt tools/run_fuzzers.sh 3

section "command line, documents, browser"
attempt build/venv/bin/python -m pytest -q -p no:cacheprovider tests/python \
  tests/browser

exit $failed

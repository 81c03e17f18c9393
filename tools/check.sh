#!/usr/bin/env bash
# Formatting of every tracked C++ file, clang-tidy on the changed ones (against
# the branch point, or the last commit), the include directions, and every
# command in the documents.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
fail() { failed=1; echo "check: $1" >&2; }

mapfile -t sources < <(git ls-files '*.h' '*.cpp')
clang-format --dry-run -Werror "${sources[@]}" || fail "clang-format"

base=$(git merge-base HEAD origin/main 2>/dev/null ||
  git rev-parse -q --verify HEAD~1 || git rev-parse HEAD)
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- \
  'assay/*.cpp')
if [ "${#changed[@]}" -gt 0 ]; then
  # clang reads GCC's command lines but not every one of its warnings.
  clang-tidy --quiet -p build/release --extra-arg=-Wno-unknown-warning-option \
    "${changed[@]}" || fail "clang-tidy"
fi

python3 tests/layers/layers.py . || fail "layers"
build/venv/bin/python -m pytest -q -p no:cacheprovider \
  tests/python/test_docs.py || fail "documents"
[ "$failed" = 0 ] && echo "check: all good"
exit $failed

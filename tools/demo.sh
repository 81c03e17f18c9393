#!/usr/bin/env bash
# The main job on two real dumps: verdict on the terminal, report in HTML.
set -uo pipefail
cd "$(dirname "$0")/.."
report=build/demo-report.html
echo '$ assay compare examples/gpt_dumps/golden examples/gpt_dumps/target' \
  "--html $report"
build/release/bin/assay compare examples/gpt_dumps/golden \
  examples/gpt_dumps/target --html "$report"
code=$?
# The dumps hold a planted fault: a mismatch is what must be found.
if [ "$code" != 1 ]; then
  echo "demo: expected a mismatch (exit 1), got exit $code" >&2
  exit 1
fi

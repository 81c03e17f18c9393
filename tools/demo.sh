#!/usr/bin/env bash
# Act one: the main job on two real dumps, verdict on the terminal, report in
# HTML. Act two: goldens of a reference, and two implementations held to them.
set -uo pipefail
cd "$(dirname "$0")/.."
assay=build/release/bin/assay
goldens=build/demo-goldens
report=build/demo-report.html
conform_report=build/demo-conform.html

# shown NAME ARGUMENT...: prints the command as a person would type it, runs it.
shown() {
  echo "\$ assay $*"
  "$assay" "$@"
}

shown compare examples/gpt_dumps/golden examples/gpt_dumps/target \
  --html "$report"
code=$?
# The dumps hold a planted fault: a mismatch is what must be found.
if [ "$code" != 1 ]; then
  echo "demo: expected a mismatch (exit 1), got exit $code" >&2
  exit 1
fi

echo
rm -rf "$goldens"
shown conform collect --worker reference --goldens "$goldens" || exit 1
echo
shown conform run --goldens "$goldens" --target cpu -o build/demo-cpu \
  --html "$conform_report" || {
  echo "demo: the engine's fast kernels do not conform" >&2
  exit 1
}
export ASSAY_PYTHON=$PWD/build/venv/bin/python
if ! "$ASSAY_PYTHON" -c 'import torch, safetensors' 2>/dev/null; then
  echo "demo: no PyTorch in build/venv, so the third implementation is left out"
  exit 0
fi
echo
shown conform run --goldens "$goldens" --target torch -o build/demo-torch \
  --html "$conform_report"
code=$?
case "$code" in
  0) ;;
  4) echo "demo: plain PyTorch was not compared in everything" >&2 ;;
  *) echo "demo: plain PyTorch does not conform" >&2 ;;
esac
exit "$code"

#!/usr/bin/env bash
# Configures and builds one preset, quietly: the log is shown only on failure.
# Usage: tools/build.sh PRESET JOBS [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 jobs=$2
shift 2
targets=("${@:-all}")
mkdir -p build
log=build/$preset.log
# Debian's own cmake and ninja, whatever else the PATH holds.
cmake=cmake
[ -x /usr/bin/cmake ] && cmake=/usr/bin/cmake
options=()
# The Python module, for the interpreter that tests or measurements run on.
for python in build/venv/bin/python build/venv-bench/bin/python; do
  [ "$preset" = release ] || break
  "$python" -c 'import nanobind' 2>/dev/null || continue
  options+=(-DASSAY_PYTHON=ON "-DPython_EXECUTABLE=$PWD/$python")
  break
done
run() {
  if [ -t 1 ]; then "$@" 2>&1 | tee -a "$log"; else "$@" >>"$log" 2>&1; fi
}
: >"$log"
echo "build: $preset (log in $log)"
if ! { run $cmake --preset "$preset" "${options[@]}" &&
  run $cmake --build --preset "$preset" -j "$jobs" --target "${targets[@]}"; }
then
  grep -nE 'error|Error|FAILED' "$log" | head -n 40 >&2 || true
  tail -n 40 "$log" >&2
  exit 1
fi

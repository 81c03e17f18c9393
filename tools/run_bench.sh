#!/usr/bin/env bash
# Every measurement of `make bench`, into build/bench.tsv and on the terminal:
# name, ours, peer, ratio, goal, ok or short.
set -euo pipefail
cd "$(dirname "$0")/.."
table=build/bench.tsv
work=build/bench-data
python=build/venv-bench/bin/python
mkdir -p "$work"
printf 'name\tours\tpeer\tratio\tgoal\tverdict\n' >"$table"
build/release/bin/bench_stats "$table"
"$python" bench/bench_compare.py build/release/bin/assay "$table" "$work" "$@"
"$python" bench/te/bench_te.py build/release/bin/bench_te "$table"
"$python" bench/capture/bench_capture.py build/release/python "$table" "$work"
"$python" bench/precheck/bench_precheck.py build/release/python "$table" "$work"
"$python" bench/precheck/bench_ratio.py "$table"
"$python" bench/fuzz/bench_fuzz.py build/release/python "$table"
tools/mpirun.sh 2 build/release/bin/bench_overlap "$table"
echo
column -t -s "$(printf '\t')" "$table"

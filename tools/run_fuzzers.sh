#!/usr/bin/env bash
# Fuzzes every reader for a bounded time, from its seed corpus and what earlier
# runs found. One line per target; fails when any has a finding, and prints how
# to repeat it. Usage: tools/run_fuzzers.sh [SECONDS_PER_TARGET=3]
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-3}
jobs=${JOBS:-$(nproc)}
tools/build.sh fuzz "$jobs" fuzzers || exit 1

fuzz_one() {
  local name=$1 seconds=$2
  local work=build/fuzz/work/$name log=build/fuzz/work/$name.log seeds=()
  mkdir -p "$work"
  [ -d "fuzz/corpus/$name" ] && seeds=("fuzz/corpus/$name")
  # Halts on a slow input (10 s), 2 GB in all, or one allocation of 512 MB.
  if build/fuzz/bin/"$name" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=16384 -verbosity=1 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/work/$name-" \
    "$work" "${seeds[@]}" >"$log" 2>&1; then
    printf '%-20s ok       %s inputs\n' "$name" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
  else
    printf '%-20s FINDING  %s\n' "$name" \
      "$(grep -m 1 -E 'SUMMARY|ERROR' "$log")"
    grep -m 1 'Test unit written to' "$log" |
      sed "s|.* to |  again: build/fuzz/bin/$name |"
    return 1
  fi
}
export -f fuzz_one

targets=()
for source in fuzz/fuzz_*.cpp; do targets+=("$(basename "$source" .cpp)"); done
printf '%s\n' "${targets[@]}" |
  xargs -P "$jobs" -I{} bash -c 'fuzz_one "$1" "$2"' _ {} "$seconds"

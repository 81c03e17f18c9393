#!/usr/bin/env bash
# One rank of two fails while the other waits for it: the job has to end, with
# an error, because that rank ended it. The ranks write their words to a file
# of ours: what a dying mpirun still prints is not to be relied on.
# Usage: ends_the_job.sh WORDS PROGRAM [ARGUMENT...]
set -uo pipefail
words=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout 50 "$(dirname "$0")/../../../tools/mpirun.sh" 2 \
  bash -c 'exec "$@" 2>>"$0"' "$log" "$@"
status=$?
cat "$log"
case $status in
0 | 124 | 137)
  echo "the job did not end with an error (status $status)"
  exit 1
  ;;
esac
grep -qF -- "$words" "$log" && exit 0
echo "no rank said: $words"
exit 1

#!/usr/bin/env bash
# Builds everything with warnings as errors and runs every test; the last line is "N passed, N failed".
# usage: tools/test.sh [--full] [--fuzz] [--no-setup] [--jobs N] [-- CTEST_ARGUMENT…]
#   --full   also address + undefined and thread sanitizers and a few seconds of each fuzz target
#            (the environment variable CORTIQ_TEST_FULL=1 does the same)
#   --fuzz   also the fuzz targets
set -euo pipefail
cd "$(dirname "$0")/.."

full=0
fuzz=0
setup=1
jobs=2
[ "${CORTIQ_TEST_FULL:-0}" = 1 ] && full=1
while [ $# -gt 0 ]; do
  case "$1" in
    --full) full=1 ;;
    --fuzz) fuzz=1 ;;
    --no-setup) setup=0 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --) shift; break ;;
    -h|--help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test: unknown option $1" >&2; sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
[ "$full" -eq 1 ] && fuzz=1

passed=0
failed=0
skipped=0
step=start
log=$(mktemp)
finish() {
  local status=$?
  rm -f "$log"
  if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
    echo "test: stopped at: $step"
    failed=1
  fi
  [ "$skipped" -gt 0 ] && echo "$skipped skipped (each says why: ctest -V)"
  echo "$passed passed, $failed failed"
  exit "$status"
}
trap finish EXIT

launcher=()

build() {  # preset
  step="configure $1"
  cmake --preset "$1" "${launcher[@]}" >/dev/null
  step="build $1"
  SECONDS=0
  cmake --build --preset "$1"
  echo "== Build: $1 took $SECONDS s"
}

# preset, ctest arguments: runs the tests and adds up the results.
run_tests() {
  local preset=$1 summary run_failed run_total run_skipped
  local runner=()
  shift
  # The thread sanitizer of GCC 12 and 13 cannot place its shadow where the kernel randomizes addresses widely.
  if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
    runner=(setarch "$(uname -m)" -R)
  fi
  step="tests $preset"
  echo "== Tests: $preset"
  SECONDS=0
  "${runner[@]}" ctest --preset "$preset" -j "$jobs" --no-tests=error "$@" 2>&1 | tee "$log" || true
  echo "== Tests: $preset took $SECONDS s"
  summary=$(grep -E 'tests passed, [0-9]+ tests failed out of [0-9]+' "$log" | tail -n 1 || true)
  if [ -z "$summary" ]; then
    echo "test: ctest gave no summary for preset $preset"
    failed=$((failed + 1))
    return
  fi
  run_failed=$(sed -E 's/.* ([0-9]+) tests failed.*/\1/' <<<"$summary")
  run_total=$(sed -E 's/.*out of ([0-9]+).*/\1/' <<<"$summary")
  run_skipped=$(grep -cE '\*\*\*Skipped' "$log" || true)
  failed=$((failed + run_failed))
  skipped=$((skipped + run_skipped))
  passed=$((passed + run_total - run_failed - run_skipped))
}

if [ "$setup" -eq 1 ]; then
  step=setup
  if [ "$fuzz" -eq 1 ]; then tools/setup.sh --fuzz; else tools/setup.sh; fi
fi
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

build ci
run_tests ci "$@"
if [ "$full" -eq 1 ]; then
  for preset in asan tsan; do
    build "$preset"
    run_tests "$preset" -LE lint "$@"
  done
fi
if [ "$fuzz" -eq 1 ]; then
  build fuzz
  run_tests fuzz -L fuzz
fi
[ "$failed" -eq 0 ]

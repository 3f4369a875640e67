#!/usr/bin/env bash
# Runs every test of the build in $BUILD and ends with "N passed, N failed". A test program either
# speaks cmocka or ends with a line of that form; one that dies without it counts as one failure.
set -u
build=${BUILD:-build}
cd "$(dirname "$0")/.." || exit 1
export BUILD=$build
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

run_one() { # name command...
    local name=$1; shift
    local start end p f
    start=$(date +%s%N)
    "$@" >"$log" 2>&1 </dev/null
    local rc=$?
    end=$(date +%s%N)
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test(s).*/\1/p; s/^\([0-9]*\) passed, [0-9]* failed$/\1/p' "$log" | tail -n 1)
    f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test(s).*/\1/p; s/^[0-9]* passed, \([0-9]*\) failed$/\1/p' "$log" | tail -n 1)
    p=${p:-0} f=${f:-0}
    if [ "$rc" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ "$rc" -eq 0 ] && [ "$p" -eq 0 ]; then p=1; fi
    passed=$((passed + p)) failed=$((failed + f))
    printf '%-40s %4d passed %3d failed  %6d ms\n' "$name" "$p" "$f" $(((end - start) / 1000000))
    if [ "$f" -ne 0 ]; then
        echo "---- $name (exit code $rc)"
        tail -n 60 "$log"
        echo "----"
    fi
}

for t in "$build"/tests/unit/* "$build"/tests/ops/* "$build"/tests/laws/* "$build"/tests/serve/*; do
    [ -x "$t" ] && [ -f "$t" ] && run_one "${t#"$build"/tests/}" "$t"
done
[ -x "$build/tests/dequant" ] && run_one dequant "$build/tests/dequant" tests/data/dequant
[ -x "$build/tests/golden" ] && run_one golden "$build/tests/golden" tests/golden/*/
for t in tests/cli/*.sh; do
    [ -f "$t" ] && run_one "cli/$(basename "$t" .sh)" bash "$t"
done
for t in "$build"/fuzz/replay-*; do
    [ -x "$t" ] && [ -f "$t" ] && run_one "fuzz/$(basename "$t")" "$t" fuzz/corpus/"$(basename "$t" | sed 's/^replay-//')"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

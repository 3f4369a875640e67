#!/usr/bin/env bash
# Runs every test of the build in $BUILD and ends with "N passed, N failed". A test program either
# speaks cmocka or ends with a line of that form; one that dies without it counts as one failure.
# check.sh unit: tests/unit and the test of the exported symbols only.
# JOBS=N runs N of them at a time; 2 by default, as most use one core for most of the time. Tests of
# the server and of the program, some of which wait for a time, run alone.
set -u
build=${BUILD:-build}
jobs=${JOBS:-2}
cd "$(dirname "$0")/.." || exit 1
export BUILD=$build
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
count=0

run_one() { # number name command...
    local log=$results/$1.log name=$2; shift 2
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
    {
        printf '%-40s %4d passed %3d failed  %6d ms\n' "$name" "$p" "$f" $(((end - start) / 1000000))
        if [ "$f" -ne 0 ]; then
            echo "---- $name (exit code $rc)"
            tail -n 60 "$log"
            echo "----"
        fi
    } >"$log.report"
    cat "$log.report"
    echo "$p $f" >"${log%.log}.sum"
}

queue() { # name command...
    count=$((count + 1))
    if [ "$jobs" -le 1 ]; then
        run_one "$count" "$@"
        return
    fi
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    run_one "$count" "$@" &
}

run_programs() { # folders of $build/tests
    local folder t
    for folder in "$@"; do
        for t in "$build/tests/$folder"/*; do
            [ -x "$t" ] && [ -f "$t" ] && queue "${t#"$build"/tests/}" "$t"
        done
    done
}

run_programs unit
if [ "${1:-}" = unit ]; then
    queue cli/symbols bash tests/cli/symbols.sh
else
    run_programs ops invariants
    [ -x "$build/tests/dequant" ] && queue dequant "$build/tests/dequant" tests/data/dequant
    [ -x "$build/tests/golden" ] && queue golden "$build/tests/golden" tests/golden/*/ tests/golden-vision/*/
    for t in "$build"/fuzz/replay-*; do
        [ -x "$t" ] && [ -f "$t" ] && queue "fuzz/$(basename "$t")" "$t" fuzz/corpus/"$(basename "$t" | sed 's/^replay-//')"
    done
    wait
    jobs=1
    run_programs serve
    for t in tests/cli/*.sh; do
        [ -f "$t" ] && queue "cli/$(basename "$t" .sh)" bash "$t"
    done
fi
wait
cat "$results"/*.sum | {
    passed=0 failed=0
    while read -r p f; do passed=$((passed + p)) failed=$((failed + f)); done
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

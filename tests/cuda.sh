#!/usr/bin/env bash
# cuda.sh PROGRAM: a build with the CUDA device starts everywhere; without a card it says so in one
# sentence, and "auto" computes on the cpu.
set -u
program=$1
out=$("$program" run --device cuda -n 4 --temp 0 "one two" 2>&1)
code=$?
if [ $code -ne 0 ] && ! { [ $code -eq 1 ] && grep -q 'no CUDA device: ' <<<"$out"; }; then
    echo "FAILED: --device cuda ends with $code: $out"
    exit 1
fi
"$program" run --device auto -n 4 --temp 0 "one two" >/dev/null || exit 1
echo "--device cuda: $([ $code -eq 0 ] && echo computes || echo "says what is missing")"

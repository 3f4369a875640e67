#!/usr/bin/env bash
# cuda.sh PROGRAM: a build with the CUDA device starts everywhere; without a card it says so in one
# sentence, and "auto" computes on the cpu. With a card, layers on both sides write the same.
set -u
program=$1
out=$("$program" run --device cuda -n 4 --temp 0 "one two" 2>&1)
code=$?
if [ $code -ne 0 ] && ! { [ $code -eq 1 ] && grep -q 'no CUDA device: ' <<<"$out"; }; then
    echo "FAILED: --device cuda ends with $code: $out"
    exit 1
fi
reply() { "$program" run --temp 0 -n 16 -q "$@" "How do I use grep?"; }
for layers in 1 3 6; do
    [ $code -eq 0 ] || break
    if [ "$(reply --device cuda -ngl $layers)" != "$(reply --device cpu)" ]; then
        echo "FAILED: --device cuda -ngl $layers replies something else than --device cpu"
        exit 1
    fi
done
"$program" run --device auto -n 4 --temp 0 "one two" >/dev/null || exit 1
echo "--device cuda: $([ $code -eq 0 ] && echo computes || echo "says what is missing")"

#!/usr/bin/env bash
# cuda.sh PROGRAM: a build with the CUDA device starts everywhere; without a card it says so in one
# sentence, and without --device it computes on the cpu. With a card it computes there, and layers
# on both sides write the same.
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
device=$("$program" bench -p 0 -n 1 -r 1 --json 2>/dev/null | grep -o '"device": *"[a-z]*"' | grep -o '[a-z]*"$')
if [ "$device" != "$([ $code -eq 0 ] && echo 'cuda"' || echo 'cpu"')" ]; then
    echo "FAILED: without --device it computes on $device, --device cuda ends with $code"
    exit 1
fi
echo "--device cuda: $([ $code -eq 0 ] && echo computes || echo "says what is missing")"

#!/usr/bin/env bash
# cuda.sh PROGRAM: a build with CUDA starts on every machine. Without a GPU, --device cuda fails with
# one message, and the default device is the CPU. With a GPU the default is the GPU, and splitting the
# layers over both devices gives the same response.
set -u
program=$1
out=$("$program" run --device cuda -n 4 --temp 0 "one two" 2>&1)
code=$?
if [ $code -ne 0 ] && ! { [ $code -eq 1 ] && grep -q 'no CUDA device: ' <<<"$out"; }; then
    echo "FAILED: --device cuda ends with $code: $out"
    exit 1
fi
response() { "$program" run --temp 0 -n 16 -q "$@" "How do I use grep?"; }
for layers in 1 3 6; do
    [ $code -eq 0 ] || break
    if [ "$(response --device cuda -ngl $layers)" != "$(response --device cpu)" ]; then
        echo "FAILED: --device cuda -ngl $layers gives another response than --device cpu"
        exit 1
    fi
done
device=$("$program" bench -p 0 -n 1 -r 1 --json 2>/dev/null | grep -o '"device": *"[a-z]*"' | grep -o '[a-z]*"$')
if [ "$device" != "$([ $code -eq 0 ] && echo 'cuda"' || echo 'cpu"')" ]; then
    echo "FAILED: without --device it computes on $device, --device cuda ends with $code"
    exit 1
fi
echo "--device cuda: $([ $code -eq 0 ] && echo works || echo "reports that there is no GPU")"

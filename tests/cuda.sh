#!/usr/bin/env bash
# cuda.sh PROGRAM: a build with the CUDA device starts on every machine. Without a GPU, --device cuda
# fails with one clear message, and without --device the CPU is used. With a GPU, the GPU is used by
# default, and a model split between GPU and CPU generates the same text.
set -u
program=$1
out=$("$program" run --device cuda -n 4 --temp 0 "one two" 2>&1)
code=$?
if [ $code -ne 0 ] && ! { [ $code -eq 1 ] && grep -q 'no CUDA device: ' <<<"$out"; }; then
    echo "FAILED: --device cuda exits with $code: $out"
    exit 1
fi
generate() { "$program" run --temp 0 -n 16 -q "$@" "How do I use grep?"; }
for layers in 1 3 6; do
    [ $code -eq 0 ] || break
    if [ "$(generate --device cuda -ngl $layers)" != "$(generate --device cpu)" ]; then
        echo "FAILED: --device cuda -ngl $layers and --device cpu generate different text"
        exit 1
    fi
done
device=$("$program" bench -p 0 -n 1 -r 1 --json 2>/dev/null | grep -o '"device": *"[a-z]*"' | grep -o '[a-z]*"$')
if [ "$device" != "$([ $code -eq 0 ] && echo 'cuda"' || echo 'cpu"')" ]; then
    echo "FAILED: without --device the device is $device, --device cuda exits with $code"
    exit 1
fi
# a line of each GPU, and of no other one
line='^cuda(:[0-9]+)?: .+, (discrete|integrated) GPU, [0-9.]+ GiB, [0-9.]+ GiB free, driver NVIDIA.* \(CUDA [0-9]+\.[0-9]+\), compute capability [0-9]+\.[0-9]+$'
devices=$("$program" run --list-devices)
if [ $code -eq 0 ] && ! grep -Eq "$line" <<<"$devices" || [ "$(grep -c '^cuda' <<<"$devices")" -ne "$(grep -Ec "$line" <<<"$devices")" ]; then
    echo "FAILED: --list-devices prints $devices"
    exit 1
fi
echo "--device cuda: $([ $code -eq 0 ] && echo works || echo "reports that there is no GPU")"

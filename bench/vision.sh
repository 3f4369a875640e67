#!/usr/bin/env bash
# Time of a vision tower, and of prompts with one image of 256, 1024 and 4096 tokens:
#   [LLAMA=FOLDER] bench/vision.sh MODEL.gguf MMPROJ.gguf [DEVICE [ROUNDS]]
# LLAMA is the folder of llama-mtmd-cli: llama.cpp then reads the same files and pictures, and reports the time of its
# tower. It has limits of its own: a Qwen image has at most 4096 tokens there, and a Gemma image at most 280. Each run
# is a process of its own, so that its tower runs for the first time after a warm-up of the program's.
# Models of the real shapes with random weights will do:
#   foretoken synth 27b q4_k_m 27b.gguf; foretoken synth 27b-mmproj bf16 27b-mmproj.gguf
# BUILD is the folder of the programs (default build), SIZES the numbers of tokens.
set -eu
model=$1 tower=$2 device=${3:-cpu} rounds=${4:-3} llama=${LLAMA:+$LLAMA/llama-mtmd-cli}
build=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)]; else print 0 }'; }
field() { sed -n "s/.*\"$1\": *\([0-9.e+]*\).*/\1/p" | head -n 1; }
case $(od -An -c -N 4096 "$tower" | tr -d ' \n') in 
*qwen3vl*) unit=32 mark='<|vision_start|><|image_pad|><|vision_end|>' ;;
*) unit=48 mark='<|image|>' ;;
esac

echo "tower, $device"
# shellcheck disable=SC2086
"$build/bench/vision" "$tower" "$device" 5 ${SIZES:-256 1024 4096} ops

for tokens in ${SIZES:-256 1024 4096}; do
    side=$(awk -v t="$tokens" -v u=$unit 'BEGIN { print int(sqrt(t) + 1e-9) * u }')
    "$build/bench/vision" --picture "$side" "$dir/$tokens.png"
    for ((i = 0; i < rounds; i++)); do
        # Gemma reads an image in one step, which has to have rows for all of it.
        "$build/foretoken" run -q --json -m "$model" --mmproj "$tower" --device "$device" -ub 4608 -c 8192 \
            --image-max-tokens "$tokens" --image "$dir/$tokens.png" --temp 0 -n 1 \
            --raw "${mark}What is this?" >"$dir/json"
        field prompt_ms <"$dir/json" >>"$dir/ours-$tokens"
        field prompt_tokens <"$dir/json" >"$dir/count"
        [ -n "$llama" ] || continue
        gpu=0
        [ "$device" = cpu ] || gpu=99
        "$llama" --jinja -m "$model" --mmproj "$tower" -ngl $gpu -c 8192 -ub 4608 -b 4608 --image-max-tokens "$tokens" \
            --image "$dir/$tokens.png" --temp 0 -n 1 -p "What is this?" >"$dir/llama" 2>&1 ||
            { tail -n 3 "$dir/llama" >&2; continue; }
        # "image slice encoded in N ms" or, in newer versions, "mtmd batch encoding done in N ms"
        sed -n 's/.*\(encoded\|encoding done\) in \([0-9]*\) ms.*/\2/p' "$dir/llama" | head -n 1 >>"$dir/llama-$tokens"
    done
    ms=$(median <"$dir/ours-$tokens")
    awk -v n="$(cat "$dir/count")" -v ms="$ms" -v t="$tokens" 'BEGIN {
        printf "prompt with an image of %d tokens: %d tokens in %.1f ms, tower included, %.0f tokens/s\n", t, n, ms, n / ms * 1000 }'
    [ ! -s "$dir/llama-$tokens" ] || echo "    llama.cpp: tower $(median <"$dir/llama-$tokens") ms"
done

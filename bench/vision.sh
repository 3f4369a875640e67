#!/usr/bin/env bash
# Time of a vision tower, and of prompts with one image of 256, 1024 and 4096 tokens:
#   bench/vision.sh MODEL.gguf MMPROJ.gguf [DEVICE [LLAMA_MTMD_CLI [ROUNDS]]]
# With the path of llama-mtmd-cli, llama.cpp reads the same files and pictures. It has limits of its own: a Qwen image
# has at most 4096 tokens there, and a Gemma image at most 280. Models of the real shapes with random weights will do:
#   foretoken synth 27b q4_k_m 27b.gguf; foretoken synth 27b-mmproj bf16 27b-mmproj.gguf
# BUILD is the folder of the programs (default build), SIZES the numbers of tokens.
set -eu
model=$1 tower=$2 device=${3:-cpu} peer=${4:-} rounds=${5:-3}
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
        [ -n "$peer" ] || continue
        gpu=0
        [ "$device" = cpu ] || gpu=99
        "$peer" -m "$model" --mmproj "$tower" -ngl $gpu -c 8192 -ub 4608 -b 4608 --image "$dir/$tokens.png" \
            --temp 0 -n 1 -p "What is this?" >"$dir/peer" 2>&1 || { tail -n 3 "$dir/peer" >&2; continue; }
        sed -n 's/.*image slice encoded in \([0-9]*\) ms.*/\1/p' "$dir/peer" | head -n 1 >>"$dir/peer-tower-$tokens"
        sed -n 's/.*prompt eval time = *\([0-9.]*\) ms.*/\1/p' "$dir/peer" | head -n 1 >>"$dir/peer-$tokens"
    done
    ms=$(median <"$dir/ours-$tokens")
    awk -v n="$(cat "$dir/count")" -v ms="$ms" -v t="$tokens" 'BEGIN {
        printf "prompt with an image of %d tokens: %d tokens in %.1f ms, tower included, %.0f tokens/s\n", t, n, ms, n / ms * 1000 }'
    [ -z "$peer" ] || awk -v a="$(median <"$dir/peer-tower-$tokens")" -v b="$(median <"$dir/peer-$tokens")" \
        'BEGIN { printf "    llama.cpp: tower %.1f ms, prompt %.1f ms\n", a, b }'
done

#!/usr/bin/env bash
# Runs foretoken and llama-bench of llama.cpp interleaved on one file and prints medians and their ratio:
#   bench/peer.sh LLAMA_BENCH MODEL.gguf [PROMPT [TOKENS [ROUNDS [THREADS]]]]
# FORETOKEN is the path of foretoken (default build/foretoken).
set -eu
peer=$1 model=$2 prompt=${3:-512} tokens=${4:-128} rounds=${5:-5} threads=${6:-$(nproc)}
ours=${FORETOKEN:-build/foretoken}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
for ((i = 0; i < rounds; i++)); do
    "$ours" bench -q --json -m "$model" -t "$threads" -p "$prompt" -n "$tokens" -r 1 >"$dir/json"
    sed -n 's/^  "prompt_tps": \([0-9.e+]*\).*/\1/p' "$dir/json" >>"$dir/ours-prompt"
    sed -n 's/^  "decode_tps": \([0-9.e+]*\).*/\1/p' "$dir/json" >>"$dir/ours-decode"
    "$peer" -m "$model" -t "$threads" -p "$prompt" -n "$tokens" -r 1 -o jsonl 2>/dev/null |
        sed -n 's/.*"n_gen": \([0-9]*\),.*"avg_ts": \([0-9.]*\).*/\1 \2/p' >"$dir/peer"
    awk -v d="$dir" '{ print $2 >>(d "/peer-" ($1 == 0 ? "prompt" : "decode")) }' "$dir/peer"
done
for what in prompt decode; do
    a=$(median "$dir/ours-$what") b=$(median "$dir/peer-$what")
    awk -v w=$what -v a="$a" -v b="$b" 'BEGIN { printf "%s: foretoken %.1f, llama.cpp %.1f tokens/s, ratio %.2f\n", w, a, b, a / b }'
done

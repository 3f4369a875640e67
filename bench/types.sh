#!/usr/bin/env bash
# Decode and prompt speed of every weight type, with llama-bench of llama.cpp interleaved if it is given:
#   bench/types.sh [--llama LLAMA_BENCH] [--shape 9b] [--types "Q4_K IQ3_S ..."] [--device cuda]
#                  [--threads N] [--prompt 2048] [--tokens 64] [--repetitions 3] [--runs 1] [--dir DIR]
#                  [--machine TEXT] [--json FILE]
# The files are those of `foretoken synth SHAPE TYPE`, one at a time in DIR (default: a temporary folder).
# Both programs run once in each repetition, with --runs measurements after their own warm-up.
# Prints a table of medians; --json writes it as a record for docs/bench.
# FORETOKEN is the path of foretoken (default build/foretoken).
set -eu
llama='' shape=9b device=cuda threads='' prompt=2048 tokens=64 repetitions=3 runs=1 dir='' machine=$(uname -m) json=''
types="F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S \
IQ3_XXS IQ3_S IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0 Q2_0 TQ3_1S TQ4_1S"
while [ $# -gt 0 ]; do
    case $1 in
    --llama | --shape | --types | --device | --threads | --prompt | --tokens | --repetitions | --runs | --dir | --machine | --json)
        [ $# -gt 1 ] || { echo "bench/types.sh: $1 needs a value" >&2; exit 2; }
        printf -v "${1#--}" %s "$2"
        shift 2
        ;;
    *)
        echo "bench/types.sh: unknown option \"$1\"" >&2
        exit 2
        ;;
    esac
done
ours=${FORETOKEN:-build/foretoken}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
dir=${dir:-$tmp}
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
field() { sed -n "s/^  \"$1\": \([0-9.e+]*\).*/\1/p" "$2"; }

# Types that llama.cpp does not have, or has no CUDA kernels for.
own_type() {
    case $1 in
    TQ3_1S | TQ4_1S) true ;;
    TQ1_0 | TQ2_0) [ "$device" != cpu ] ;;
    *) false ;;
    esac
}

measure() { # FILE TYPE: appends to $tmp/{ours,llama}-{prompt,decode}
    local t=(${threads:+-t "$threads"})
    "$ours" bench -q --json -m "$1" --device "$device" "${t[@]}" -p "$prompt" -n "$tokens" -r "$runs" >"$tmp/json"
    field prompt_tps "$tmp/json" >>"$tmp/ours-prompt"
    field decode_tps "$tmp/json" >>"$tmp/ours-decode"
    [ -n "$llama" ] && ! own_type "$2" || return 0
    "$llama" -m "$1" "${t[@]}" -p "$prompt" -n "$tokens" -r "$runs" -fa 1 -ub 2048 -o jsonl 2>"$tmp/log" |
        sed -n 's/.*"n_gen": \([0-9]*\),.*"avg_ts": \([0-9.]*\).*/\1 \2/p' >"$tmp/both"
    awk -v d="$tmp" '{ print $2 >>(d "/llama-" ($1 == 0 ? "prompt" : "decode")) }' "$tmp/both"
}

number() { awk -v v="$1" 'BEGIN { if (v > 0) printf "%.1f", v; else printf "\"\"" }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "\"\"" }'; }

printf '%-8s %10s %10s %10s %10s\n' type decode llama.cpp prompt llama.cpp
: >"$tmp/rows"
for type in $types; do
    file=$dir/types-$shape-$type.gguf
    "$ours" synth "$shape" "$type" "$file" -q
    rm -f "$tmp"/ours-* "$tmp"/llama-*
    for ((i = 0; i < repetitions; i++)); do measure "$file" "$type"; done
    rm -f "$file"
    for what in decode prompt; do
        for who in ours llama; do
            [ -s "$tmp/$who-$what" ] && median "$tmp/$who-$what" >"$tmp/$who.$what" || echo 0 >"$tmp/$who.$what"
        done
    done
    read -r d <"$tmp/ours.decode"; read -r ld <"$tmp/llama.decode"
    read -r p <"$tmp/ours.prompt"; read -r lp <"$tmp/llama.prompt"
    printf '%-8s %10.1f %10.1f %10.0f %10.0f\n' "$type" "$d" "$ld" "$p" "$lp"
    printf '    ["%s", %.1f, %s, %s, %.0f, %s, %s],\n' "$type" "$d" "$(number "$ld")" \
        "$(ratio "$d" "$ld")" "$p" "$(number "$lp")" "$(ratio "$p" "$lp")" >>"$tmp/rows"
done
[ -n "$json" ] || exit 0
{
    printf '{\n  "section": "Whole models on the %s",\n' "$([ "$device" = cpu ] && echo CPU || echo GPU)"
    printf '  "title": "Every weight type, %s",\n  "machine": "%s",\n  "date": "%s",\n  "commit": "%s",\n' \
        "$shape" "$machine" "$(date +%F)" "$(git rev-parse --short=8 HEAD 2>/dev/null || echo unknown)"
    printf '  "command": "bench/types.sh --shape %s --device %s%s --prompt %s --tokens %s --repetitions %s --runs %s",\n' \
        "$shape" "$device" "${threads:+ --threads $threads}" "$prompt" "$tokens" "$repetitions" "$runs"
    printf '  "columns": ["type", "decode, tokens/s", "llama.cpp", "ratio", "prompt of %s, tokens/s", "llama.cpp", "ratio"],\n' "$prompt"
    printf '  "rows": [\n'
    sed '$s/,$//' "$tmp/rows"
    printf '  ]\n}\n'
} >"$json"

#!/usr/bin/env bash
# Servers under load: foretoken and, if given, llama.cpp's server, one after the other on the same file, for each number of
# streams (bench/clients.c: tokens per second, time to the first token, gaps between tokens, while prompts arrive):
#   bench/clients.sh MODEL.gguf [LLAMA_SERVER [STREAMS,... [SECONDS [WORDS [TOKENS]]]]]
# DEVICE is foretoken's --device (default: its own choice), BUILD the build folder, RUNS the number of interleaved runs.
set -eu
model=$1 peer=${2:-} streams=${3:-64,128} seconds=${4:-30} words=${5:-200} tokens=${6:-128} build=${BUILD:-build}
context=$((8 * words + 2 * tokens + 64)) # synthetic files have up to five tokens per word
dir=$(mktemp -d) pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
measure() { # name, streams, command
    local name=$1 n=$2 port=$((20000 + RANDOM % 20000)) i
    shift 2
    "$@" --port "$port" >"$dir/log" 2>&1 &
    pid=$!
    for ((i = 0; i < 1200; i++)); do
        curl -fs "http://127.0.0.1:$port/health" >/dev/null 2>&1 && break
        if ! kill -0 "$pid" 2>/dev/null; then
            echo "clients.sh: $name ended: $(tail -n 1 "$dir/log")" >&2
            exit 1
        fi
        sleep 0.25
    done
    "$build/bench/clients" "http://127.0.0.1:$port" "$n" "$seconds" "$words" "$tokens" >"$dir/out"
    sed -n 1p "$dir/out" | sed 's/^/                /' >"$dir/head"
    printf '%-16s%s\n' "$name" "$(sed -n 2p "$dir/out")" >>"$dir/all"
    kill "$pid"
    wait "$pid" 2>/dev/null || true
    pid=
}
for ((run = 0; run < ${RUNS:-1}; run++)); do
    for n in ${streams//,/ }; do
        measure foretoken "$n" "$build/foretoken" serve -m "$model" -np "$n" -c "$context" ${DEVICE:+--device "$DEVICE"}
        [ -z "$peer" ] || measure llama.cpp "$n" "$peer" -m "$model" -np "$n" -c $((context * n)) -ngl 99 -fa on -ub 2048 -b 2048
    done
done
cat "$dir/head"
sort -s -k2,2n -k1,1 "$dir/all"

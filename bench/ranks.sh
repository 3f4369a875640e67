#!/usr/bin/env bash
# ranks.sh [MODEL [THREADS [ROUNDS]]]: the cost of several processes on one machine. A prompt in one
# process with THREADS threads, on as many CPU devices with a thread each, and over as many ranks;
# for a model with experts also with the experts spread over the ranks. Interleaved; prints the
# medians of tokens/s and of the CPU time (user and system, all processes), and the ratio to one
# process. Tokens/s mean something on a quiet machine only; with RT=1 (root) the programs run with
# real-time priority, the threads that drive messages above those that compute.
#   FT=build/foretoken MPI=build/mpi/foretoken PROMPT=2048 bench/ranks.sh models/foretoken-tiny.gguf 2 5
set -u
model=${1:-models/foretoken-tiny.gguf}
threads=${2:-$(nproc)}
rounds=${3:-5}
one=${FT:-build/foretoken}
mpi=${MPI:-build/mpi/foretoken}
prompt=${PROMPT:-2048}
export LC_ALL=C
TIMEFORMAT='%U %S'
out=$(mktemp)
trap 'rm -f "$out" "$out".*' EXIT
job=(mpirun --oversubscribe --bind-to none -n "$threads")
[ "$(id -u)" -ne 0 ] || job+=(--allow-run-as-root)
line=(bench -m "$model" -p "$prompt" -n 0 -r 2 --json)

# raise COMMAND...: its other threads get a higher priority than the one that computes
raise() {
    local t pid
    "$@" &
    pid=$!
    for _ in 1 2 3 4 5; do
        sleep 0.15
        for t in /proc/$pid/task/*; do
            [ "${t##*/}" = "$pid" ] || chrt -f -p 30 "${t##*/}"
        done 2>/dev/null
    done
    wait "$pid"
}
export -f raise
first=() each=()
[ -z "${RT:-}" ] || first=(chrt -f 20) each=(bash -c 'raise "$@"' raise)

# measure NAME COMMAND...: adds a line "CPU-seconds tokens/s"
measure() {
    local name=$1 cpu speed
    shift
    cpu=$({ time ${first[@]+"${first[@]}"} "$@" >"$out" 2>"$out.err"; } 2>&1 | awk '{ print $1 + $2 }')
    speed=$(sed -n 's/.*"prompt_tps": *\([0-9.]*\).*/\1/p' "$out" | head -n 1)
    [ -n "$speed" ] || { cat "$out.err" >&2; exit 1; }
    echo "$cpu $speed" >>"$out.$name"
}
median() { sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

cpus=cpu$(printf ',cpu%.0s' $(seq 2 "$threads"))
experts=$("$one" inspect "$model" 2>/dev/null | grep -c exps)
for _ in $(seq "$rounds"); do
    measure one "$one" "${line[@]}" --device cpu -t "$threads"
    measure threads "$one" "${line[@]}" --device "$cpus" -t 1
    measure ranks "${job[@]}" ${each[@]+"${each[@]}"} "$mpi" "${line[@]}" --device cpu -t 1
    [ "$experts" -eq 0 ] ||
        measure experts "${job[@]}" ${each[@]+"${each[@]}"} "$mpi" "${line[@]}" --device cpu -t 1 -sm expert
done
base=$(cut -d' ' -f2 "$out.one" | median)
for name in one threads ranks experts; do
    [ -f "$out.$name" ] || continue
    speed=$(cut -d' ' -f2 "$out.$name" | median)
    cpu=$(cut -d' ' -f1 "$out.$name" | median)
    awk -v n="$name" -v c="$cpu" -v s="$speed" -v b="$base" \
        'BEGIN { printf "%-8s CPU %.2f s, %.0f tokens/s, %.2f of one process\n", n, c, s, s / b }'
done

#!/usr/bin/env bash
# ranks.sh [MODEL [THREADS [ROUNDS]]]: the cost of several processes on one machine. A prompt in one
# process with THREADS threads, and over two ranks with half of them each; for a model with experts
# also with the experts spread over the ranks. Interleaved; prints the best tokens/s and the CPU time
# (user and system, all processes) of each. Tokens/s mean something on a quiet machine only.
#   FT=build/foretoken MPI=build/mpi/foretoken PROMPT=2048 bench/ranks.sh models/foretoken-tiny.gguf 2 3
set -u
model=${1:-models/foretoken-tiny.gguf}
threads=${2:-$(nproc)}
rounds=${3:-3}
one=${FT:-build/foretoken}
mpi=${MPI:-build/mpi/foretoken}
prompt=${PROMPT:-2048}
export LC_ALL=C
TIMEFORMAT='%U %S'
out=$(mktemp)
trap 'rm -f "$out" "$out".*' EXIT
job=(mpirun --oversubscribe --bind-to none -n 2)
[ "$(id -u)" -ne 0 ] || job+=(--allow-run-as-root)
line=(bench -m "$model" --device cpu -p "$prompt" -n 0 -r 2 --json)

# measure NAME COMMAND...: keeps the best of all rounds
measure() {
    local name=$1 cpu speed
    shift
    cpu=$({ time "$@" >"$out" 2>"$out.err"; } 2>&1 | awk '{ print $1 + $2 }')
    speed=$(grep -o '"prompt_tps_best": *[0-9.]*' "$out" | grep -o '[0-9.]*$' | sort -g | tail -n 1)
    [ -n "$speed" ] || { cat "$out.err" >&2; exit 1; }
    echo "$cpu $speed" >>"$out.$name"
}
for _ in $(seq "$rounds"); do
    measure one "$one" "${line[@]}" -t "$threads"
    measure ranks "${job[@]}" "$mpi" "${line[@]}" -t $((threads / 2))
    grep -q exps <("$one" inspect "$model" 2>/dev/null) &&
        measure experts "${job[@]}" "$mpi" "${line[@]}" -t $((threads / 2)) -sm expert
done
for name in one ranks experts; do
    [ -f "$out.$name" ] || continue
    sort -g "$out.$name" | head -n 1 | awk -v n="$name" '{ printf "%-8s CPU %.2f s", n, $1 }'
    sort -gk2 "$out.$name" | tail -n 1 | awk '{ printf ", %.0f tokens/s\n", $2 }'
done

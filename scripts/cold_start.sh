#!/usr/bin/env bash
# Starts a server cold, waits until it is healthy, generates some responses and compares the time to
# start and the median speed with a baseline. Exit status 1: more than 5 % worse.
# usage: scripts/cold_start.sh [-b BASELINE.json] [-n RUNS] [-t TOKENS] [PROGRAM [OPTIONS OF serve]]
# Prints the result as JSON, which is the baseline of the next run.
set -u
baseline='' runs=5 tokens=64
while getopts b:n:t: option; do
    case $option in
    b) baseline=$OPTARG ;;
    n) runs=$OPTARG ;;
    t) tokens=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
program=${1:-build/foretoken}
[ $# -gt 0 ] && shift
log=$(mktemp)
start=$(date +%s%N)
"$program" serve --port 0 "$@" 2>"$log" &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -f "$log"' EXIT
url=''
until [ -n "$url" ] && curl -sf "$url/health" >/dev/null; do
    if ! kill -0 $server 2>/dev/null; then
        cat "$log" >&2
        exit 2
    fi
    url=$(grep -o 'http://[0-9.]*:[0-9]*' "$log" | head -1)
    sleep 0.05
done
ready_ms=$((($(date +%s%N) - start) / 1000000))
body='{"prompt":"The quick brown fox","n_predict":'$tokens',"ignore_eos":true,"temperature":0,"cache_prompt":false}'
speeds=''
for ((i = 0; i < runs; i++)); do
    speed=$(curl -sf "$url/completion" -d "$body" | sed -n 's/.*"predicted_per_second": *\([0-9.]*\).*/\1/p')
    if [ -z "$speed" ]; then
        cat "$log" >&2
        exit 2
    fi
    speeds+="$speed"$'\n'
done
machine="$(uname -m), $(nproc) cores"
read -r median spread < <(printf '%s' "$speeds" | sort -g |
    awk '{ v[NR] = $1 } END { m = v[int((NR + 1) / 2)]; print m, (v[NR] - v[1]) / m }')
cat <<END
{"machine": "$machine", "date": "$(date -u +%F)", "runs": $runs, "tokens": $tokens,
 "ready_ms": $ready_ms, "tokens_per_second": $median, "spread": $spread}
END
[ -z "$baseline" ] && exit 0

was() { grep -o "\"$1\": *\"*[^\",}]*" "$baseline" | sed 's/.*: *"*//'; }
then_machine=$(grep -o '"machine": "[^"]*' "$baseline" | sed 's/.*"//')
if [ "$then_machine" != "$machine" ] || [ "$(was tokens)" != "$tokens" ]; then
    echo "$baseline: $(was tokens) tokens on $then_machine, here $tokens on $machine: not compared" >&2
    exit 2
fi
awk -v now="$median" -v was="$(was tokens_per_second)" -v ms="$ready_ms" -v was_ms="$(was ready_ms)" 'BEGIN {
    slow = now < 0.95 * was
    late = ms > 1.05 * was_ms + 100 # a tenth of a second is the resolution of the start
    printf "%s tokens/s, recorded %s%s; ready after %s ms, recorded %s%s\n", now, was,
        slow ? ": SLOWER" : "", ms, was_ms, late ? ": SLOWER" : "" > "/dev/stderr"
    exit slow || late
}'

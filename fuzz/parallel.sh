#!/usr/bin/env bash
# Fuzzes all targets at once, at the lowest priority.
#
#   fuzz/parallel.sh SECONDS PROCS OUTDIR [TARGETS [SEEDS]]
#
# TARGETS is the folder of the programs of `make fuzz-build` (default build-fuzz), SEEDS the one with
# a folder of inputs per target (default fuzz/corpus). PROCS processes run at a time; each target
# gets time in proportion to its weight below. OUTDIR receives
#   summary.txt      runs, CPU seconds and exit code of each target, and their sums
#   corpus.tar.xz    new inputs that reach new code, at most 2 MiB
#   crashes.tar.xz   inputs that failed, and what the program printed
# The exit code is 1 if an input failed.
set -u
SECONDS_ALL=${1:?SECONDS} PROCS=${2:?PROCS} OUT=${3:?OUTDIR} TARGETS=${4:-build-fuzz} SEEDS=${5:-fuzz/corpus}
CORPUS_MAX=$((2 << 20))
WEIGHT='fields:4 schema:3 request:2 grammar:2 template:2 gguf:2 image:2 prefix:2 ranks:2
        bpe:1 datauri:1 exif:1 hf:1 safetensors:1 stream:1 utf8:1'

mkdir -p "$OUT" && OUT=$(cd "$OUT" && pwd) || exit 2
WORK=$(mktemp -d) || exit 2
trap 'rm -rf "$WORK"' EXIT
mkdir "$WORK/crashes" "$WORK/logs"
START=$(date +%s)
MERGE_S=$((SECONDS_ALL / 12))
END=$((START + SECONDS_ALL - MERGE_S)) LAST=$((START + SECONDS_ALL))
export UBSAN_OPTIONS=print_stacktrace=1

# The order of the jobs: rounds of about two minutes, each target as often as its weight says.
names=() round=()
for w in $WEIGHT; do
    [ -x "$TARGETS/${w%:*}" ] || continue
    names+=("${w%:*}")
    mkdir -p "$WORK/corpus/${w%:*}"
done
for k in 1 2 3 4; do
    for w in $WEIGHT; do
        if [ -x "$TARGETS/${w%:*}" ] && [ "${w#*:}" -ge $k ]; then round+=("${w%:*}"); fi
    done
done
[ ${#round[@]} -gt 0 ] || { echo "no targets in $TARGETS" >&2; exit 2; }
SLICE=$(((SECONDS_ALL - MERGE_S) * PROCS / ${#round[@]}))
ROUNDS=$(((SLICE + 119) / 120))
SLICE=$((SLICE / ROUNDS))
[ $SLICE -ge 2 ] || SLICE=2

# Searching for leaks needs ptrace, which containers may refuse.
if ! "$TARGETS/${round[0]}" -runs=1 >/dev/null 2>&1 || ! "$TARGETS/utf8" -runs=1 >/dev/null 2>&1; then
    export ASAN_OPTIONS=detect_leaks=0
fi

# fuzz_one JOB TARGET: the result goes into a file of its own.
fuzz_one() {
    local log=$WORK/logs/$1-$2 left=$((END - $(date +%s))) rc
    local t=$((left < SLICE ? left : SLICE))
    mkdir -p "$SEEDS/$2"
    { TIMEFORMAT='cpu %U %S'; time nice -n 19 "$TARGETS/$2" -max_total_time=$t -rss_limit_mb=2048 \
        -timeout=60 -print_final_stats=1 -artifact_prefix="$WORK/crashes/$2-" \
        "$WORK/corpus/$2" "$SEEDS/$2" >"$log" 2>&1; rc=$?; } 2>"$log.time"
    awk -v t="$2" -v rc=$rc 'FNR == NR { if ($1 == "cpu") s = $2 + $3; next }
        $1 == "stat::number_of_executed_units:" { n = $2 }
        /^Done / && n == "" { n = $2 }
        END { print t, n + 0, s + 0, rc }' "$log.time" "$log" > "$log.result"
    if [ $rc != 0 ]; then tail -c 20000 "$log" > "$WORK/crashes/$2-$1.log"; fi
}

worker() {
    local job
    while [ "$(date +%s)" -lt $((END - 1)) ]; do
        job=$({ flock 9; j=$(cat "$WORK/next" 2>/dev/null || echo 0); echo $((j + 1)) > "$WORK/next"; echo "$j"; } 9>>"$WORK/lock")
        fuzz_one "$job" "${round[job % ${#round[@]}]}"
    done
}

# Inputs that reach code which the seeds do not.
minimise() {
    local left=$((LAST - $(date +%s)))
    mkdir -p "$WORK/new/$1"
    [ $left -gt 2 ] || { cp "$WORK/corpus/$1/"* "$WORK/new/$1/" 2>/dev/null; return; }
    cp -r "$SEEDS/$1" "$WORK/new-$1"
    timeout $left nice -n 19 "$TARGETS/$1" -merge=1 -rss_limit_mb=2048 -timeout=60 \
        -artifact_prefix="$WORK/crashes/$1-merge-" "$WORK/new-$1" "$WORK/corpus/$1" >/dev/null 2>&1
    for f in "$WORK/new-$1"/*; do
        [ -e "$f" ] && [ ! -e "$SEEDS/$1/${f##*/}" ] && mv "$f" "$WORK/new/$1/"
    done
}

pack_corpus() {
    local limit=$((1 << 20)) bytes
    while :; do
        (cd "$WORK/new" && find . -type f -size -${limit}c | sort | tar -cJf "$OUT/corpus.tar.xz" -T -)
        bytes=$(wc -c < "$OUT/corpus.tar.xz")
        if [ "$bytes" -le $CORPUS_MAX ] || [ $limit -lt 64 ]; then break; fi
        limit=$((limit / 2))
    done
}

for ((i = 0; i < PROCS; i++)); do worker & done
wait
for ((i = 0; i < PROCS; i++)); do
    for ((k = i; k < ${#names[@]}; k += PROCS)); do minimise "${names[k]}"; done &
done
wait
pack_corpus
if [ -n "$(ls "$WORK/crashes")" ]; then tar -C "$WORK/crashes" -cJf "$OUT/crashes.tar.xz" .; fi
{
    echo "target runs cpu_seconds worst_exit_code"
    cat "$WORK"/logs/*.result | sort | awk '
        { runs[$1] += $2; cpu[$1] += $3; if ($4 + 0 > rc[$1] + 0) rc[$1] = $4; r += $2; s += $3; if ($4) bad++ }
        END { for (t in runs) printf "%s %d %.0f %d\n", t, runs[t], cpu[t], rc[t] | "sort"
              close("sort"); printf "all %d %.0f %d failed jobs\n", r, s, bad }'
    echo "crashes: $(ls "$WORK/crashes" | grep -vc '\.log$\|slow-unit')"
} > "$OUT/summary.txt"
cat "$OUT/summary.txt"
grep -q '^crashes: 0$' "$OUT/summary.txt"

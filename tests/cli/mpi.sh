#!/usr/bin/env bash
# A model over several processes, started by mpirun: the same ids as in one process, prefix hits, a
# rank that is killed, a rank with another model.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
mpi=${ft%/*}/mpi
if ! command -v mpirun >/dev/null || [ ! -x "$mpi/foretoken" ]; then
    echo "no MPI: nothing is tested"
    finish
    exit
fi
tiny=models/foretoken-tiny.gguf
job=(mpirun --oversubscribe --bind-to none)
[ "$(id -u)" -ne 0 ] || job+=(--allow-run-as-root)
ranks() { local n=$1; shift; timeout 120 "${job[@]}" -n "$n" "$@" 2>"$dir/err"; }
line=(run -m "$tiny" --temp 0 -n 24 --json "How do I use grep?")

# the same ids, with and without drafts, with a compact cache, with a drafter in a file of its own
one=$("$ft" "${line[@]}" 2>/dev/null | field ids)
for n in 1 2 3; do
    same "$n ranks: the same ids" "$(ranks $n "$mpi/foretoken" "${line[@]}" -v | field ids)" "$one"
done
grep -q '^rank 1 (cpu on .*): layers 3 to 5, .*; rank 2 .*: layers 6 to 7 and the output, .*; cpu: layers 0 to 2' "$dir/err"
ok "the layers are split over the ranks" $?
same "without drafts" "$(ranks 2 "$mpi/foretoken" "${line[@]}" --draft-max 0 | field ids)" "$one"
same "with a compact cache" "$(ranks 2 "$mpi/foretoken" "${line[@]}" --kv balanced | field ids)" \
    "$("$ft" "${line[@]}" --kv balanced 2>/dev/null | field ids)"
pair=(run -m models/gemma4-nano.gguf -md models/gemma4-nano-assistant.gguf --temp 0 -n 24 --json "Hello")
same "Gemma with its assistant" "$(ranks 3 "$mpi/foretoken" "${pair[@]}" | field ids)" \
    "$("$ft" "${pair[@]}" 2>/dev/null | field ids)"
text=$dir/text
head -c 6000 README.md >"$text"
scored=(perplexity -m "$tiny" -f "$text" --json -q)
same "perplexity" "$(ranks 2 "$mpi/foretoken" "${scored[@]}" | field perplexity)" \
    "$("$ft" "${scored[@]}" 2>/dev/null | field perplexity)"
export FT_TEST_DEV=mpi
for n in 2 3; do
    works "every golden model on $n ranks: the ids of one process" ranks $n "$mpi/split"
done
works "golden models with drafts and batches on 3 ranks" ranks 3 "$mpi/drafting"
for n in 2 3; do
    works "micro-batches on $n ranks" ranks $n "$mpi/pipeline"
    works "prefix checkpoints that stay with $n ranks" ranks $n "$mpi/rank_prefix"
done
FT_TEST_DIRECT=1 works "rows that are sent from device memory, on 3 ranks" ranks 3 "$mpi/pipeline"
works "images on 3 ranks" ranks 3 "$mpi/images"
works "adapters on 2 ranks" ranks 2 "$mpi/lora"
works "the ends of responses on 2 ranks" ranks 2 "$mpi/ending"
unset FT_TEST_DEV

# errors
timeout 60 "${job[@]}" -n 1 "$mpi/foretoken" "${line[@]}" : -n 1 "$mpi/foretoken" run -m models/gemma4-nano.gguf hi >"$dir/out" 2>"$dir/err"
[ $? -ne 0 ] && [ ! -s "$dir/out" ] && grep -q 'rank 1 (.*): models/gemma4-nano.gguf is another file than that of rank 0' "$dir/err"
ok "another model on a rank" $?
cp "$tiny" "$dir/other.gguf"
size=$(wc -c <"$tiny")
head -c 1000000 /dev/zero | dd of="$dir/other.gguf" bs=1 seek=$((size - 2000000)) conv=notrunc obs=1M 2>/dev/null
timeout 60 "${job[@]}" -n 1 "$mpi/foretoken" "${line[@]}" : -n 1 "$mpi/foretoken" run -m "$dir/other.gguf" hi >"$dir/out" 2>"$dir/err"
[ $? -ne 0 ] && [ ! -s "$dir/out" ] && grep -q 'rank 1 (.*): .*other.gguf is another file than that of rank 0: its digest differs' "$dir/err"
ok "a model of the same size with other weights on a rank" $?
FT_TEST_DEV=mpi timeout 60 "${job[@]}" -n 1 "$mpi/foretoken" "${line[@]}" : -n 1 "$mpi/drafting" >"$dir/out" 2>"$dir/err"
[ $? -ne 0 ] && grep -q 'rank 1 (.*) is foretoken test, rank 0 is [0-9]' "$dir/err"
ok "another version on a rank" $?
! ranks 2 "$mpi/foretoken" run -m "$tiny" --device cpu,cpu hi >"$dir/out" && grep -q 'want one device for each rank' "$dir/err"
ok "several devices on a rank" $?

# the server, in its sandbox: a prefix hit, requests at the same time, and a rank that is killed
timeout 100 "${job[@]}" -n 3 "$mpi/foretoken" serve -m "$tiny" -np 3 --port 0 >"$dir/serve" 2>&1 &
server=$!
for _ in $(seq 300); do
    url=$(sed -n 's/.*ready at \(http:[^ ]*\).*/\1/p' "$dir/serve" | head -n 1)
    [ -n "$url" ] && break
    sleep 0.1
done
prompt=$(head -c 1500 README.md | tr -dc 'a-zA-Z .,\n' | tr '\n' ' ')
ask() { curl -s -m 60 "$url/completion" -d "{\"prompt\":\"$prompt $1\",\"n_predict\":8,\"temperature\":0,\"return_tokens\":true}"; }
cold=$(ask one)
warm=$(ask one)
same "the same answer from cached positions" "$(field tokens <<<"$warm")" "$(field tokens <<<"$cold")"
[ "$(field tokens_cached <<<"$warm")" -gt 100 ]
ok "which are a prefix hit" $?
! grep -q 'Read -1' "$dir/serve"
ok "all messages arrive" $?
for i in 1 2 3; do ask "$i" >"$dir/beside$i" & pids[i]=$!; done
wait "${pids[@]}"
same "requests beside each other" "$(field tokens <"$dir/beside2")" "$(ask 2 | field tokens)"
curl -s -m 30 "$url/completion" -d '{"prompt":"x","n_predict":7000,"ignore_eos":true}' >"$dir/long" &
long=$!
sleep 0.5
victim=$(pgrep -P "$(pgrep -P "$server")" | while read -r p; do
    [ "$(tr '\0' '\n' <"/proc/$p/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')" = 2 ] && echo "$p"; done)
kill -9 "$victim"
wait "$long"
same "a running request gets an error" "$(grep -c 'rank 2 (.*) has ended' "$dir/long")" 1
wait "$server" 2>/dev/null
grep -q 'signal 9' "$dir/serve"
ok "and the job ends" $?
finish

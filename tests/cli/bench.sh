#!/usr/bin/env bash
# foretoken bench: the figures are there, positive, and fit together.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
out=$("$ft" bench -m "$model" -p 32 -n 8 -r 3 --json)
for key in prompt_tps prompt_tps_best decode_tps decode_tps_best memory_bytes_per_second decode_bytes_per_second memory_percent; do
    awk -v x="$(field "$key" <<<"$out")" 'BEGIN { exit !(x + 0 > 0) }'
    ok "$key is above zero" $?
done
awk -v m="$(field decode_tps <<<"$out")" -v b="$(field decode_tps_best <<<"$out")" 'BEGIN { exit !(b >= m) }'
ok "the best is not below the median" $?
awk -v t="$(field decode_tps <<<"$out")" -v w="$(field bytes_per_token <<<"$out")" -v r="$(field decode_bytes_per_second <<<"$out")" \
    'BEGIN { d = t * w / r - 1; exit !(d < 0.01 && d > -0.01) }'
ok "bytes per second are tokens times bytes" $?
for key in commit date command cpu name threads weight_bytes; do
    [ -n "$(field "$key" <<<"$out")" ]
    ok "JSON names the $key" $?
done
for key in prompt_step decode_step prompt_spread decode_spread; do
    grep -q "\"$key\"" <<<"$out"
    ok "JSON has a $key" $?
done
same "no op of a step without a time" "$(grep -c '"seconds": 0.0,*$' <<<"$out")" 0
text=$("$ft" bench -m "$model" -p 32 -n 4 -r 1 -q --layers)
same "a table for the prompt and one for decoding" "$(grep -c 'op by op' <<<"$text")" 2
same "linear stands in both" "$(grep -c "^  linear " <<<"$text")" 2
grep -q '^  layer 0 ' <<<"$text"
ok "layers on demand" $?
"$ft" bench -m "$model" -d 300 -r 1 --plot "$dir/depth.svg" >"$dir/depth.txt"
same "speed at each depth" "$(grep -c '^after' "$dir/depth.txt")" 3
grep -q '<polyline' "$dir/depth.svg" && grep -q '>300<' "$dir/depth.svg"
ok "and a picture of it" $?
"$ft" bench -m "$model" --seqs 18 -n 4 -r 1 --plot "$dir/seqs.svg" >"$dir/seqs.txt"
same "speed of each number of sequences" \
    "$(awk '/sequences .*tokens/ { printf "%s ", $1 }' "$dir/seqs.txt")" "1 2 4 8 16 17 18 "
grep -q '<polyline' "$dir/seqs.svg" && grep -q '>17<' "$dir/seqs.svg"
ok "and a picture of that" $?
rows=$("$ft" bench -m "$model" --rows 3 -r 1 -q)
same "steps of 1, 2 and 3 rows" "$(grep -c ' ms per step ' <<<"$rows")" 3
grep -q 'a step of 3 rows, op by op' <<<"$rows"
ok "and the ops of the last" $?
"$ft" bench -m "$model" --rows 2 -r 1 --json | grep -q '"against_one"'
ok "the same as JSON" $?
# baselines: much faster, much slower, another machine
"$ft" bench -m "$model" -p 32 -n 8 -r 1 --json >"$dir/now.json"
times() { awk -v f="$1" '/"(prompt|decode)_tps"/ { $2 = $2 * f "," } { print }' "$dir/now.json"; }
again() { "$ft" bench -m "$model" -p 32 -n 8 -r 1 -q --baseline "$dir/$1.json" >"$dir/out" 2>"$dir/err"; }
times 1e9 >"$dir/fast.json"
times 1e-9 >"$dir/slow.json"
sed 's/"cpu": "/&another /' "$dir/now.json" >"$dir/other.json"
again fast
same "slower than the baseline" $? 1
same "is said of both speeds" "$(grep -c SLOWER "$dir/err")" 2
again slow
same "faster than the baseline" $? 0
again other
same "a baseline of another machine" $? 2
grep -q 'cpu is "another .*not compared' "$dir/err"
ok "is not compared" $?
fails "a baseline that is no JSON" 'is no JSON' "$ft" bench -m "$model" -p 32 -n 8 -r 1 -q --baseline "$dir/depth.svg"
fails "a baseline of rows" 'want it alone or with --spec' "$ft" bench -m "$model" --rows 2 --baseline "$dir/now.json"
mkdir "$dir/records"
cp "$dir/other.json" "$dir/records"
bash scripts/bench_check.sh "$dir/records" "$ft" >"$dir/out" 2>&1
same "bench-check without a record of this machine" $? 2
grep -q 'bench -p 512 -n 128 -r 5 --json >' "$dir/out" && grep -q '"instruction_sets"' "$dir/out"
ok "says how to write one, and what this machine is" $?
sed "s|\"command\": \".*\"|\"command\": \"foretoken bench -m $model -p 32 -n 8 -r 1 -q\"|" "$dir/slow.json" >"$dir/records/slow.json"
bash scripts/bench_check.sh "$dir/records" "$ft" >"$dir/out" 2>&1
same "bench-check against a slow record" $? 0
sed "s|\"command\": \".*\"|\"command\": \"foretoken bench -m $model -p 32 -n 8 -r 1 -q\"|" "$dir/fast.json" >"$dir/records/fast.json"
bash scripts/bench_check.sh "$dir/records" "$ft" >"$dir/out" 2>&1
same "bench-check against a fast record" $? 1
same "says how many" "$(tail -1 "$dir/out")" "2 records compared, 1 with a lower speed"

# a server from its cold start
cold() { bash scripts/cold_start.sh -n 2 -t 8 "$@" "$ft" -m "$model" >"$dir/cold" 2>"$dir/err"; }
if "$ft" --version | grep -q microhttpd; then
    cold
    same "a cold start" $? 0
    sed -E 's/"(tokens_per_second)": [0-9.]+/"\1": 0.000001/; s/"ready_ms": [0-9]+/"ready_ms": 999999999/' "$dir/cold" >"$dir/was"
    cold -b "$dir/was"
    same "a cold start against a slow baseline" $? 0
    sed -i 's/"tokens_per_second": 0.000001/"tokens_per_second": 1000000000/' "$dir/was"
    cold -b "$dir/was"
    same "and against a fast one" $? 1
    sed -i 's/"tokens": 8/"tokens": 9/' "$dir/was"
    cold -b "$dir/was"
    same "and against another test" $? 2
fi
# the bars of drafting: a record of this machine can only be missed where it misses a bar itself
bars() { bash scripts/bench_bars.sh -b "${BUILD:-build}" -d cpu -t 1 -m "$model" -w "$model" -r 1 -s 1 "$@" "$dir/records" >"$dir/out"; }
bars -o "$dir/records/bars.json"
[ $? -le 1 ]
ok "bars are measured" $?
sed -i 's/lowest of 9", ">= 0.985", [0-9.]*/lowest of 9", ">= 0.985", 0.001/; s/ rows over one of one row", "\(<= [0-9.]*\)", [0-9.]*/ rows over one of one row", "\1", 1000/' "$dir/records/bars.json"
bars
same "bars that the record misses" $? 0
grep -q '^0 bars missed that should be met' "$dir/out"
ok "are not counted" $?
# long contexts: every number of draft tokens generates the same ids
long=${BUILD:-build}/bench/long
"$long" -m "$model" -l 64,200 -n 16 -k 0,1,2,3,4 -t 1 -x 0 >"$dir/long"
same "long contexts" $? 0
same "five numbers of draft tokens for two lengths" "$(grep -c '^ *\(64\|200\) ' "$dir/long")" 10
"$long" -m "$model" -l 64 -n 16 -k 0,3 -t 1 -x 1000 >"$dir/long" 2>"$dir/err"
same "a prompt that a drafter makes slower" $? 1
grep -q 'lines with other ids or a slow prompt: 2' "$dir/err"
ok "is said" $?
fails "no length" 'usage: long' "$long" -l 0
# acceptance over the length of the context
context=${BUILD:-build}/bench/context
"$context" -m "$model" -f docs/glossary.md -l 64,128 -q 2 -c 1 -t 1 >"$dir/context"
same "acceptance after texts and in a conversation" $? 0
same "a line without text and for each length" "$(grep -cE '^ +[0-9]+ +2 ' "$dir/context")" 3
grep -qE '^   0- 255 ' "$dir/context"
ok "and by position in a conversation" $?
fails "no length" 'usage: context' "$context" -l 0
# adaptive drafting relative to no drafting
drafting=${BUILD:-build}/bench/drafting
"$drafting" -m "$model" -s 1,2 -n 8 -a 0,1 -r 2 -t 1 -x 0 >"$dir/drafting"
same "drafting for two numbers of streams" $? 0
same "a line for each combination" "$(grep -cE '^ +[12] +8 ' "$dir/drafting")" 4
same "with the noise of the machine" "$(awk '$2 == 8 && $9 > 0' "$dir/drafting" | wc -l)" 4
"$drafting" -m "$model" -s 1 -n 8 -a 0 -r 1 -t 1 -x 1000 >"$dir/drafting"
same "drafting that is slower than wanted" $? 1
grep -q 'BELOW' "$dir/drafting"
ok "is marked" $?
fails "no acceptance rate" 'usage: drafting' "$drafting" -a 2
"$ft" bench -m "$model" -p 8 -n 2 -r 1 -q --device ref >"$dir/ref"
same "no share of a peak that is not known" "$(grep -cE 'GFLOP/s|inf|MFLOP +[0-9]+ %' "$dir/ref")" 0
fails "too many rows" 'from 1 to 16' "$ft" bench -m "$model" --rows 17
same "no prompt asked for" "$("$ft" bench -m "$model" -p 0 -n 4 -r 1 -q | grep -c '^prompt')" 0
"$ft" bench -m "$model" -p 0 -n 4 -r 1 -d 64 -q | grep -q 'after 64 tokens'
ok "decoding in the middle of a text" $?
three=$("$ft" bench -m "$model" -p 0 -n 4 -r 1 -q --seqs 3)
grep -q '3 sequences together' <<<"$three" && grep -q 'a step of 3 rows, op by op' <<<"$three"
ok "sequences that decode together, and the ops of their step" $?
grep -q 'a step of 64 rows, op by op' <<<"$("$ft" bench -m "$model" -b 64 -p 4160 -n 0 -r 1 -q)"
ok "the ops of the last step of a long prompt" $?
sim=$("$ft" bench -m "$model" -p 32 -n 48 -r 1 --sim-accept 1 --spec-draft-n-max 2 --json)
same "a simulated acceptance is named" "$(grep -c '"simulated_acceptance"' <<<"$sim")" 1
same "ways: off, governed, 1 and 2 drafts" "$(grep -c '"drafts"' <<<"$sim")" 4
same "all draft tokens are accepted with probability 1" \
    "$(awk '/"draft_n"/ { d = $2 + 0 } /"draft_n_accepted"/ { print (d == $2 + 0) }' <<<"$sim" | sort -u)" 1
same "and none with probability 0" \
    "$("$ft" bench -m "$model" -p 0 -n 12 -r 1 --seqs 2 --sim-accept 0 --json | awk '/"draft_n_accepted"/ { n += $2 } END { print n + 0 }')" 0
text=$("$ft" bench -m "$model" -p 0 -n 8 -r 1 -q --sim-accept 0.8,0.75)
same "the table says that it is simulated" "$(grep -c '^SIMULATED acceptance: 0.8, 0.75 ' <<<"$text")" 1
fails "several sequences with --spec" "bench --spec: --seqs 2, want 1" "$ft" bench -m "$model" --spec --seqs 2
fails "an acceptance above 1" 'probabilities from 0 to 1' "$ft" bench -m "$model" --sim-accept 0.8,1.5
fails "an acceptance that is no number" 'probabilities from 0 to 1' "$ft" bench -m "$model" --sim-accept high
fails "no drafter to simulate" 'none: disabled' "$ft" bench -m "$model" --sim-accept 0.8 --spec-type none
# clients: servers under load
if [ -x "${BUILD:-build}/bench/clients" ]; then
    out=$(bash bench/clients.sh "$model" "" 1,2 3 5 8) # one second was too short on a busy machine
    same "a line for each number of streams" "$(awk '$1 == "foretoken" && $4 > 0 && $8 > 0 {print $2}' <<<"$out" | tr '\n' ' ')" "1 2 "
    fails "no server" "Couldn't connect" "${BUILD:-build}/bench/clients" http://127.0.0.1:9 1 1
    fails "no number of streams" 'argument 2 is "many", want 1 to 512' "${BUILD:-build}/bench/clients" http://127.0.0.1:9 many
fi
fails "nothing to measure" 'want at least one above 0' "$ft" bench -m "$model" -p 0 -n 0
fails "words" 'bench has 1 argument, want' "$ft" bench -m "$model" fast
fails "no such model" 'No such file' "$ft" bench -m "$dir/none.gguf"
finish

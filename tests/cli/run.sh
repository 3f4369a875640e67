#!/usr/bin/env bash
# foretoken run: prompts from everywhere, what JSON says, what options change, how it ends.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
run() { "$ft" run -m "$model" -n 12 --temp 0 "$@"; }

# prompts: the same ids from words, -p, a file and standard input
ids=$(run --raw --json one two | field ids)
[[ $ids == \[*,*\] ]]
ok "ids are a list" $?
same "-p is the words" "$(run --raw --json -p 'one two' | field ids)" "$ids"
printf 'one two' >"$dir/prompt"
same "-f is the words" "$(run --raw --json -f "$dir/prompt" | field ids)" "$ids"
same "standard input is the words" "$(run --raw --json <"$dir/prompt" | field ids)" "$ids"
same "-f - is standard input" "$(run --raw --json -f - <"$dir/prompt" | field ids)" "$ids"
[ "$(run --json one two | field ids)" != "$ids" ]
ok "a template makes another prompt" $?
[ "$(run --json -sys 'be brief' one two | field prompt_tokens)" -gt "$(run --json one two | field prompt_tokens)" ]
ok "a system prompt is part of it" $?
same "-e reads escapes" "$(run --raw --json -e -p 'one\ttwo' | field ids)" "$(run --raw --json -p $'one\ttwo' | field ids)"
same "special tokens are parsed" "$(run --raw --json '<|im_start|>' | field prompt_tokens)" 1

# the reply
out=$(run --raw --json one two)
same "12 tokens were asked for" "$(field predicted_n <<<"$out")" 12
same "and that ended it" "$(field finish_reason <<<"$out")" '"length"'
same "completion_tokens says so too" "$(field completion_tokens <<<"$out")" 12
for key in cache_n prompt_n prompt_ms prompt_per_token_ms prompt_per_second predicted_ms \
    predicted_per_token_ms predicted_per_second text seed; do
    [ -n "$(field "$key" <<<"$out")" ]
    ok "JSON has $key" $?
done
same "one line of JSON" "$(wc -l <<<"$out")" 1
same "the text is that of the ids" \
    "$("$ft" tokenize -m "$model" --detokenize <<<"$(tr -d '[]' <<<"$ids")" | tr -cd 'a-z ')" \
    "$(run --raw --special one two | tr -cd 'a-z ')"
same "no drafts: the same ids" "$(run --raw --json --draft-max 0 one two | field ids)" "$ids"
same "--spec-type none: the same ids" "$(run --raw --json --spec-type none one two | field ids)" "$ids"
same "the plain device replies too" "$(run --raw --json --device ref one two | field predicted_n)" 12
same "read instead of mapped: the same ids" "$(run --raw --json --no-mmap one two | field ids)" "$ids"
! run --raw --json --draft-max 0 one two | grep -q draft_n
ok "no drafts, no draft_n" $?
same "one token has no rate" "$(run --raw --json -n 1 one | field predicted_per_second)" 0.0
top=$(run --raw --json --logprobs 3 -n 2 one | grep -o '"logprob":' | wc -l)
same "--logprobs 3: a token and three more, twice" "$top" 8
first=$(tr -d '[]' <<<"$ids" | cut -d, -f1)
[[ $(run --raw --json -l "$first-inf" one two | field ids) != "[$first,"* ]]
ok "a bias forbids a token" $?
same "a seed repeats itself" "$("$ft" run -m "$model" --raw --json -n 12 --temp 1 --top-k 0 -s 7 one | field ids)" \
    "$("$ft" run -m "$model" --raw --json -n 12 --temp 1 --top-k 0 --seed 7 one | field ids)"
[ "$("$ft" run -m "$model" --raw --json -n 12 --temp 1 --top-k 0 -s 7 one | field ids)" != \
    "$("$ft" run -m "$model" --raw --json -n 12 --temp 1 --top-k 0 -s 8 one | field ids)" ]
ok "another seed does not" $?
same "the seed is reported" "$(run --raw --json -s 123 one | field seed)" 123
run --raw --json --ignore-eos --typical 0.9 --top-nsigma 2 --xtc-probability 0.1 --xtc-threshold 0.2 --min-p 0.1 \
    --dynatemp-range 0.2 --dynatemp-exp 1.5 --repeat-penalty 1.1 --repeat-last-n -1 --presence-penalty 0.1 \
    --frequency-penalty 0.1 --dry-multiplier 0.5 --dry-base 1.5 --dry-allowed-length 3 \
    --dry-penalty-last-n -1 --dry-sequence-breaker ';' --temp 1 --samplers 'top_k;temperature' \
    --logit-bias 5+1.5 -ctk q8_0 -ctv q8_0 -c 128 -b 64 -t 1 one | grep -q '"predicted_n":12'
ok "every sampling option is taken" $?
run --raw --json --ignore-eos --mirostat 2 --mirostat-ent 4 --mirostat-lr 0.2 --temp 1 one | grep -q '"predicted_n":12'
ok "mirostat too" $?
same "a line of statistics on demand" "$(run --raw --show-timings one 2>&1 >/dev/null |
    grep -c -E '^\[[0-9]+ tokens?, [0-9.]+ tok/s \| prompt [0-9]+ tokens, [0-9.]+ tok/s( \| draft acceptance [0-9]+ % \([0-9]+/[0-9]+\), [0-9.]+ tokens per step)?\]$')" 1
same "and none without a terminal" "$(run --raw one 2>&1 >/dev/null | wc -c)" 0

# thoughts: apart in JSON, and nothing of them in a pipe
out=$(run --json --thinking on hello)
[ -n "$(field reasoning_content <<<"$out")" ]
ok "a thought is apart" $?
same "a pipe gets no thought" "$(run --thinking on hello | tr -d '\n')" ""
[ -n "$(run --no-thinking hello)" ]
ok "but the answer" $?
[ -z "$(run --no-thinking --json hello | field reasoning_content)" ]
ok "--no-thinking has no thought" $?

# stop texts, grammars
text=$(run --raw --json one two | field text | tr -d '"')
out=$(run --raw --json --stop "${text:6:2}" one two)
same "a stop text ends the reply" "$(field finish_reason <<<"$out"):$(field predicted_n <<<"$out" | grep -c '^12$')" '"stop":0'
same "a grammar is followed" "$(run --raw --grammar 'root ::= "yes" | "no"' one | grep -c -x -e yes -e no)" 1
run --raw -j '{"type": "integer", "minimum": 7, "maximum": 7, "not": {}}' one >"$dir/out" 2>"$dir/err"
same "a keyword that cannot be enforced warns" "$(cat "$dir/out"):$(grep -c 'not enforced: not at #' "$dir/err")" "7:1"
same "so is a schema" "$(run --raw --json-schema '{"type": "boolean"}' one | grep -c -x -e true -e false)" 1
for draft in "" "--draft-max 0"; do
    # shellcheck disable=SC2086
    out=$(run --raw --json --ignore-eos $draft --grammar 'root ::= "yes"{1,2}' one)
    same "an end that is ignored waits for the grammar's ($draft)" \
        "$(field text <<<"$out"):$(field finish_reason <<<"$out")" '"yesyes":"stop"'
done

tiny=models/foretoken-tiny.gguf
out=$("$ft" run -m "$tiny" -n 40 --temp 0 --json Hi)
same "a model ends its reply" "$(field finish_reason <<<"$out")" '"stop"'
for draft in "" "--draft-max 0"; do
    # shellcheck disable=SC2086
    out=$("$ft" run -m "$tiny" -n 40 --temp 0 --json --ignore-eos $draft Hi)
    same "an end that is ignored is not said ($draft)" \
        "$(field finish_reason <<<"$out"):$(field predicted_n <<<"$out"):$(field ids <<<"$out" | grep -c -e '\[2,' -e ',2,' -e ',2\]')" '"length":40:0'
done

# what cannot be done
fails "a grammar that is none" 'grammar' "$ft" run -m "$model" --grammar 'root ::= (' one
fails "an empty prompt" 'prompt is empty' "$ft" run -m "$model" ''
fails "an empty input" 'prompt is empty' "$ft" run -m "$model"
fails "two prompts" 'want one of them' "$ft" run -m "$model" one -p two
fails "no such model" 'No such file' "$ft" run -m "$dir/none.gguf" one
fails "a file that is no model" 'GGUF' "$ft" run -m "$dir/prompt" one
fails "a prompt longer than the context" 'context' "$ft" run -m "$model" --raw -c 8 "$(seq 100)"
fails "an unknown device" 'device "abacus"' "$ft" run -m "$model" -dev abacus one
fails "an unknown cache type" 'cache type "q9"' "$ft" run -m "$model" -ctk q9 one
fails "a bias that is none" 'logit-bias' "$ft" run -m "$model" -l abc one
fails "a token that is none" '999999' "$ft" run -m "$model" -l 999999+1 one
fails "a temperature below zero" 'temp' "$ft" run -m "$model" --temp -1 one
fails "kwargs that are no object" 'chat-template-kwargs' "$ft" run -m "$model" --chat-template-kwargs '[1]' one
fails "grammar and schema" 'want one of them' "$ft" run -m "$model" --grammar 'root ::= "a"' -j '{}' one
printf 'a\0b' >"$dir/zero"
fails "a zero byte" 'zero byte' "$ft" run -m "$model" -f "$dir/zero"

# a template's BOS reaches the model once
"$ft" synth micro-gemma q8_0 "$dir/gemma.gguf" -q
prompt=$(echo '{"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": true}' |
    "$ft" template -m "$dir/gemma.gguf" --jsonl | sed 's/{"prompt"/{"text"/')
same "a template with BOS" "${prompt:0:14}" '{"text": "<bos'
same "BOS comes once" "$("$ft" run -m "$dir/gemma.gguf" --json -n 1 hi | field prompt_tokens)" \
    "$("$ft" tokenize -m "$dir/gemma.gguf" --jsonl <<<"$prompt" | tr -cd ',' | wc -c | awk '{print $1 + 1}')"

# endings
run --raw -n 4000 -c 4096 --ignore-eos one 2>"$dir/.err" | head -c 5 >/dev/null
same "a closed pipe is no error" "${PIPESTATUS[0]}:$(wc -c <"$dir/.err")" "0:0"
if [ -w /dev/full ]; then
    run --raw one >/dev/full 2>"$dir/.err"
    same "a full disk is one" "$?:$(grep -c 'standard output' "$dir/.err")" "1:1"
fi
# background jobs ignore SIGINT unless job control is on
set -m
for wait in 0.05 0.5; do
    "$ft" run -m "$model" --raw --temp 0 -n 100000 -c 131072 --ignore-eos one >"$dir/.out" 2>"$dir/.err" &
    job=$!
    sleep "$wait"
    kill -INT "$job"
    wait "$job"
    same "Ctrl-C after $wait s" "$?:$(wc -c <"$dir/.err")" "130:0"
done
set +m
# words and standard input together: the words come first, then an empty line
both=$(echo 'some input' | "$ft" run -m "$model" --temp 0 -n 4 --json "The words:" | field ids)
same "words and standard input" "$both" \
    "$("$ft" run -m "$model" --temp 0 -n 4 --json -p $'The words:\n\nsome input\n' </dev/null | field ids)"
same "an empty input changes nothing" "$(: | "$ft" run -m "$model" --temp 0 -n 4 --json "The words:" | field ids)" \
    "$("$ft" run -m "$model" --temp 0 -n 4 --json "The words:" </dev/null | field ids)"
[ "$both" != "$("$ft" run -m "$model" --temp 0 -n 4 --json "The words:" </dev/null | field ids)" ]
ok "and an input does" $?

finish

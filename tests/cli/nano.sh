#!/usr/bin/env bash
# The small trained models of models/: a Gemma 4 pair and a mixture of experts with an MTP head. Their
# drafters draft, the output stays the same, and most draft tokens are accepted.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
target=models/gemma4-nano.gguf
assistant=models/gemma4-nano-assistant.gguf
experts=models/qwen35moe-nano.gguf
# its standard input is not the list of prompts
run() { "$ft" run --json --temp 0 -n 64 "$@" </dev/null; }

# With the options plain and drafting: the same ids, and how many draft tokens are accepted.
check() { # NAME
    local drafted=0 accepted=0 ids out text
    while read -r prompt; do
        ids=$(run "${plain[@]}" "$prompt" | field ids)
        out=$(run "${drafting[@]}" "$prompt")
        same "$1: the same ids: $prompt" "$(field ids <<<"$out")" "$ids"
        drafted=$((drafted + $(field draft_n <<<"$out")))
        accepted=$((accepted + $(field draft_n_accepted <<<"$out")))
    done <<'END'
Who are you?
What can you do?
How do I start the server?
What does --ctx-size do?
What is 347 + 285?
What is speculative decoding?
END
    [ "$drafted" -gt 60 ]
    ok "$1: it drafts ($drafted tokens)" $?
    [ $((accepted * 10)) -gt $((drafted * 7)) ]
    ok "$1: more than 70 % of its tokens are accepted ($accepted of $drafted)" $?
    # past the sliding window of 256, a text that the model does not know
    text=$(seq -s ' ' 1 160)
    same "$1: the same ids after a long prompt" "$(run --raw "${drafting[@]}" "$text" | field ids)" \
        "$(run --raw "${plain[@]}" "$text" | field ids)"
    same "$1: a seed gives the same ids" \
        "$(run --temp 1 --seed 3 "${drafting[@]}" 'Tell me about tar.' | field ids)" \
        "$(run --temp 1 --seed 3 "${plain[@]}" 'Tell me about tar.' | field ids)"
}

plain=(-m "$target")
drafting=(-m "$target" -md "$assistant" --spec-adapt off)
check "Gemma 4 pair"
same "the head has centroids" "$("$ft" inspect "$assistant" | grep -c 'centroid head')" 1
same "layers share keys and values" "$("$ft" inspect "$target" | grep -c '5 layers keep a cache, per-layer embeddings of 32')" 1
size=$(($(stat -c %s "$target") + $(stat -c %s "$assistant")))
[ "$size" -le 12000000 ]
ok "the pair takes at most 12 MB ($size bytes)" $?

plain=(-m "$experts" --draft-max 0)
drafting=(-m "$experts" --spec-adapt off)
check "mixture of experts"
same "it has experts" "$("$ft" inspect "$experts" | grep -c '8 experts of width 128, 2 used, shared expert 128')" 1
size=$(stat -c %s "$experts")
[ "$size" -le 8000000 ]
ok "it takes at most 8 MB ($size bytes)" $?
finish

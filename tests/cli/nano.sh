#!/usr/bin/env bash
# The trained Gemma 4 pair of models/: its assistant drafts, the output stays the same, and most
# draft tokens are accepted.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
target=models/gemma4-nano.gguf
assistant=models/gemma4-nano-assistant.gguf
# its standard input is not the list of prompts
run() { "$ft" run -m "$target" --json --temp 0 -n 64 "$@" </dev/null; }
drafting=(-md "$assistant" --spec-adapt off)

drafted=0 accepted=0
while read -r prompt; do
    plain=$(run "$prompt" | field ids)
    out=$(run "${drafting[@]}" "$prompt")
    same "the same ids: $prompt" "$(field ids <<<"$out")" "$plain"
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
ok "the assistant drafts ($drafted tokens)" $?
[ $((accepted * 10)) -gt $((drafted * 7)) ]
ok "more than 70 % of its tokens are accepted ($accepted of $drafted)" $?

# past the sliding window of 256, a text that the model does not know
text=$(seq -s ' ' 1 160)
same "the same ids after a long prompt" "$(run --raw "${drafting[@]}" "$text" | field ids)" \
    "$(run --raw "$text" | field ids)"
same "a seed gives the same ids" "$(run --temp 1 --seed 3 "${drafting[@]}" 'Tell me about tar.' | field ids)" \
    "$(run --temp 1 --seed 3 'Tell me about tar.' | field ids)"
same "the head has centroids" "$("$ft" inspect "$assistant" | grep -c 'centroid head')" 1
same "layers share keys and values" "$("$ft" inspect "$target" | grep -c '5 layers keep a cache, per-layer embeddings of 32')" 1
size=$(($(stat -c %s "$target") + $(stat -c %s "$assistant")))
[ "$size" -le 12000000 ]
ok "the pair takes at most 12 MB ($size bytes)" $?
finish

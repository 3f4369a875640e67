#!/usr/bin/env bash
# The trained mixture of experts of models/: its MTP head drafts, the output stays the same, and most
# draft tokens are accepted.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
model=models/qwen35moe-nano.gguf
# its standard input is not the list of prompts
run() { "$ft" run -m "$model" --json --temp 0 -n 64 "$@" </dev/null; }

drafted=0 accepted=0
while read -r prompt; do
    plain=$(run --draft-max 0 "$prompt" | field ids)
    out=$(run --spec-adapt off "$prompt")
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
ok "the head drafts ($drafted tokens)" $?
[ $((accepted * 10)) -gt $((drafted * 7)) ]
ok "more than 70 % of its tokens are accepted ($accepted of $drafted)" $?

text=$(seq -s ' ' 1 160)
same "the same ids after a long prompt" "$(run --raw --spec-adapt off "$text" | field ids)" \
    "$(run --raw --draft-max 0 "$text" | field ids)"
same "a seed gives the same ids" "$(run --temp 1 --seed 3 --spec-adapt off 'Tell me about tar.' | field ids)" \
    "$(run --temp 1 --seed 3 --draft-max 0 'Tell me about tar.' | field ids)"
same "it has experts" "$("$ft" inspect "$model" | grep -c '8 experts of width 128, 2 used, shared expert 128')" 1
size=$(stat -c %s "$model")
[ "$size" -le 8000000 ]
ok "it takes at most 8 MB ($size bytes)" $?
finish

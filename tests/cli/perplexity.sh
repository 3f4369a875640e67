#!/usr/bin/env bash
# foretoken perplexity: a figure that repeats, does not depend on the device, and grows with nonsense.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
seq 600 >"$dir/text"
ppl() { "$ft" perplexity -m "$model" -f "$dir/text" -q "$@"; }

out=$(ppl -c 64 --chunks 3 --json)
same "three chunks" "$(field chunks <<<"$out")" 3
same "the second half of each is scored" "$(field tokens <<<"$out")" 93
same "chunks of 64" "$(field n_ctx <<<"$out")" 64
value=$(field ppl <<<"$out")
[[ $value =~ ^[0-9]+\.[0-9]+$ ]]
ok "ppl is a number" $?
same "it repeats" "$(ppl -c 64 --chunks 3 --json | field ppl)" "$value"
close() { awk -v a="$1" -v b="$2" 'BEGIN { d = a / b - 1; exit !(d < 0.01 && d > -0.01) }'; }
close "$value" "$(ppl -c 64 --chunks 3 --json --device ref | field ppl)"
ok "the plain device agrees within 1 %" $?
close "$value" "$("$ft" perplexity -m "$model" -q -c 64 --chunks 3 --json <"$dir/text" | field ppl)"
ok "standard input is a text too" $?
ppl -c 64 --chunks 1 | grep -q '^ppl [0-9.]* +- [0-9.]* (31 tokens scored in 1 chunks of 64'
ok "text for people" $?
# a draft head changes nothing, whatever the encoding of the cache
"$ft" synth micro q8_0 "$dir/plain.gguf" -q --no-mtp
for cache in f16 q8_0 turbo2 turbo3 turbo4; do
    of() { "$ft" perplexity -m "$1" -f "$dir/text" -q -c 64 --chunks 3 --json -ctk $cache -ctv $cache | field ppl; }
    same "$cache: the same with a draft head" "$(of "$model")" "$(of "$dir/plain.gguf")"
done
[ "$(of "$model")" != "$value" ]
ok "the encoding of the cache does" $?
same "512 is the usual chunk" "$(ppl --json --chunks 1 | field n_ctx)" 512
echo short >"$dir/short"
fails "a short text" 'want at least 64' "$ft" perplexity -m "$model" -q -f "$dir/short" -c 64
fails "no text" 'want at least 512' "$ft" perplexity -m "$model" -q
fails "no such file" 'No such file' "$ft" perplexity -m "$model" -q -f "$dir/none"
finish

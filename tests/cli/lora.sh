#!/usr/bin/env bash
# LoRA adapters: --lora in run, chat, bench, perplexity and serve, and files that do not fit. The
# server with scales per request, side by side.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
tiny=models/foretoken-tiny.gguf
one=$dir/one.gguf two=$dir/two.gguf
# its first tokens are far likelier than the second best ones, so that rounding does not change them
works "an adapter" "$ft" synth --adapter "$tiny" F16 "$one" --rank 8 --seed 7
works "another one" "$ft" synth --adapter "$tiny" F32 "$two" --rank 5 --alpha 10 --seed 2 --only attn -q
fails "no such matrix" 'has no matrix whose name contains nothing' "$ft" synth --adapter "$tiny" F16 "$dir/x" --only nothing
fails "a type without weights" 'type "Q4_K" of an adapter' "$ft" synth --adapter "$tiny" Q4_K "$dir/x"
works "inspect reads it" "$ft" inspect "$one"

ids() { "$ft" run -m "$tiny" --temp 0 -n 12 --json "$@" "How do I use grep?" 2>"$dir/err" </dev/null | field ids; }
plain=$(ids)
same "a scale of 0 changes nothing" "$(ids --lora "$one:0")" "$plain"
same "nor do adapters that are only loaded" "$(ids --lora "$one" --lora-init-without-apply)" "$plain"
adapted=$(ids --lora "$one")
[ -n "$adapted" ] && [ "$adapted" != "$plain" ]
ok "an adapter changes the response" $?
same "drafting does not" "$(ids --lora "$one" --draft-max 0)" "$adapted"
same "the same scale, written out" "$(ids --lora-scaled "$one:1.0")" "$adapted"
same "the reference device agrees on the first tokens" "$(ids --lora "$one" --device ref -n 3)" \
    "$(ids --lora "$one" -n 3)"
both=$(ids --lora "$one" --lora-scaled "$two:-2")
[ -n "$both" ] && [ "$both" != "$adapted" ]
ok "two adapters" $?
same "separated by a comma" "$(ids --lora "$one,$two:-2")" "$both"

fails "no such file" 'nothing.gguf: No such file' "$ft" run -m "$tiny" --lora "$dir/nothing.gguf" hi
fails "a model is no adapter" 'general.type is "model", want "adapter"' "$ft" run -m "$tiny" --lora "$tiny" hi
fails "an adapter is no model" 'general.type is "adapter", want "model"' "$ft" run -m "$one" hi
fails "the adapter of another model" 'the adapter was made for another model' "$ft" run -m "$model" --lora "$one" hi
fails "too many" 'more than 16 adapters' "$ft" run -m "$tiny" --lora a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q hi

head -c 6000 README.md >"$dir/text"
ppl() { "$ft" perplexity -m "$tiny" -f "$dir/text" -c 256 --chunks 2 -q "$@" | sed 's/ (.*//'; }
same "perplexity with a scale of 0" "$(ppl --lora "$one:0")" "$(ppl)"
[ "$(ppl --lora "$one")" != "$(ppl)" ]
ok "perplexity with an adapter" $?
works "bench" "$ft" bench -m "$tiny" -p 16 -n 4 -r 1 -q --lora "$one"
same "chat" "$(echo hi | "$ft" chat -m "$tiny" --temp 0 -n 8 --lora "$one:0" 2>/dev/null)" \
    "$(echo hi | "$ft" chat -m "$tiny" --temp 0 -n 8 2>/dev/null)"

"$ft" --version | grep -q microhttpd || { finish; exit; }
command -v curl >/dev/null || { finish; exit; }
serve -m "$tiny" --lora "$one" --lora "$two:0" --pooling none
ask() { # scales
    curl -s "$url/completion" -d "{\"prompt\": \"How do I use grep?\", \"n_predict\": 12,
        \"temperature\": 0, \"ignore_eos\": true, \"return_tokens\": true, \"lora\": $1}" |
        sed 's/.*"tokens":\(\[[0-9,]*\]\).*/\1/'
}
zero='[{"id":0,"scale":0}]' full='[{"id":0,"scale":1}]' some='[{"id":0,"scale":0.5},{"id":1,"scale":1}]'
a=$(ask "$zero") b=$(ask "$full") c=$(ask "$some")
[ "$a" != "$b" ] && [ "$b" != "$c" ] && [ "$a" != "$c" ]
ok "a request has its own scales" $?
jobs=()
for i in 1 2 3; do
    for s in zero full some; do
        ask "${!s}" >"$dir/$s.$i" &
        jobs+=($!)
    done
done
wait "${jobs[@]}"
same "nine requests at a time" "$(cat "$dir"/zero.? "$dir"/full.? "$dir"/some.?)" \
    "$(printf '%s' "$a" "$a" "$a" "$b" "$b" "$b" "$c" "$c" "$c")"
same "the scales of the server" "$(ask '[]')" "$b"
same "are changed" "$(curl -s "$url/lora-adapters" -d "$some")" '{"success":true}'
same "for later requests" "$(ask '[]')" "$c"
same "a vector per token" "$(curl -s "$url/embedding" -d '{"content": "one two three"}' | grep -o '\],\[' | wc -l)" \
    "$(($(curl -s "$url/tokenize" -d '{"content": "one two three", "add_special": true}' | tr -cd , | wc -c)))"
kill -TERM $pid
wait $pid
finish

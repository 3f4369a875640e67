#!/usr/bin/env bash
# foretoken convert from the outside: what it says, what it returns, what it leaves behind.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
build=${BUILD:-build} tmp=$dir

"$build/tests/golden" --folder "$tmp/hf" tests/golden/qwen35-gqa || exit 1
out=$tmp/out.gguf

works "converts" "$ft" convert "$tmp/hf" "$out" --no-vocab
cp "$dir/.out" "$tmp/said"
works "says so" grep -q 'out.gguf: qwen35, 71 tensors, BF16' "$tmp/said"
same "a file without vocabulary cannot be run" "$(grep -c 'to use it' "$tmp/said")" 0
works "starts with the magic" test "$(head -c 4 "$out")" = GGUF
cp "$out" "$tmp/first"
works "one thread" "$ft" convert "$tmp/hf" "$out" --no-vocab -t 1 -q
[ ! -s "$dir/.out" ]
ok "quiet is quiet" $?
works "gives the same bytes on one thread" cmp "$out" "$tmp/first"
works "is readable" test "$(stat -c %a "$out")" = "$(printf '%o' $((0666 & ~$(umask))))"
rm -f "$out"

refuse "no tokenizer" "tokenizer.json|--no-vocab" "$ft" convert "$tmp/hf" "$out"
refuse "no folder" "$tmp/nothing|config.json" "$ft" convert "$tmp/nothing" "$out" --no-vocab
refuse "wrong option" "--outtype|q9|bf16" "$ft" convert "$tmp/hf" "$out" --outtype q9
refuse "one word" "has 1 argument|FOLDER OUT.gguf" "$ft" convert "$tmp/hf"
refuse "nothing to write" "--vocab-only|--no-vocab" "$ft" convert "$tmp/hf" "$out" --vocab-only --no-vocab
refuse "no such folder for the output" "$tmp/no/x.gguf" "$ft" convert "$tmp/hf" "$tmp/no/x.gguf" --no-vocab
refuse "read-only target" "/proc/x.gguf" "$ft" convert "$tmp/hf" /proc/x.gguf --no-vocab
refuse "a folder as target" "$tmp|not a regular file" "$ft" convert "$tmp/hf" "$tmp" --no-vocab

# a vision tower goes to a file of its own
"$build/tests/golden" --folder "$tmp/see" tests/golden-vision/gemma4-vision-edge || exit 1
works "converts a folder with a tower" "$ft" convert "$tmp/see" "$tmp/m.gguf" --no-vocab
cp "$dir/.out" "$tmp/said"
works "names both files" grep -q 'mmproj-m.gguf: clip, [0-9]* tensors, BF16' "$tmp/said"
"$ft" inspect "$tmp/mmproj-m.gguf" | grep -q 'vision tower (gemma4v), 2 blocks of width 128, .* model of width 256'
ok "inspect shows the tower" $?
rm "$tmp/m.gguf" "$tmp/mmproj-m.gguf"
works "without the tower" "$ft" convert "$tmp/see" "$tmp/m.gguf" --no-vocab --no-mmproj -q
[ ! -e "$tmp/mmproj-m.gguf" ]
ok "--no-mmproj writes none" $?
works "the tower alone" "$ft" convert "$tmp/see" "$tmp/t.gguf" --mmproj-only --outtype q8_0
grep -qx "to use it: foretoken chat -m MODEL.gguf --mmproj $tmp/t.gguf" "$dir/.out"
ok "says how to use it" $?
"$ft" inspect "$tmp/t.gguf" | grep -q '^  Q8_0'
ok "in another type" $?
refuse "no tower" "vision_config" "$ft" convert "$tmp/hf" "$out" --mmproj-only

full() { (trap '' XFSZ; ulimit -f 1000; "$@"); } # files of at most 1000 blocks: a disk that fills up
refuse "full disk" "$out|too large" full "$ft" convert "$tmp/hf" "$out" --no-vocab -q

change() { # sed-script: a folder whose config is changed
    rm -rf "$tmp/bad"
    mkdir "$tmp/bad"
    ln -s "$tmp/hf/model.safetensors" "$tmp/bad/"
    sed "$1" "$tmp/hf/config.json" >"$tmp/bad/config.json"
}
bad() { refuse "$1" "$2" "$ft" convert "$tmp/bad" "$out" --no-vocab; }
change 's/"qwen3_5"/"mamba"/'; bad "unknown architecture" "mamba|qwen3_5, qwen3_5_moe, gemma4 or gemma4_assistant"
change 's/"vocab_size": *512/"vocab_size": 513/'; bad "wrong shape" "embed_tokens.weight|[512, 256]|[513, 256]"
change 's/"intermediate_size": *768/"intermediate_size": 767/'; bad "wrong width" "gate_proj.weight|[768, 256]|[767, 256]"
change 's/"linear_num_value_heads": *6/"linear_num_value_heads": 5/'; bad "heads do not divide" "linear_num_value_heads is 5|multiple of 2"
change '/"hidden_size"/d'; bad "missing key" "config.json|hidden_size is missing"
change 's/{/{{/'; bad "corrupt JSON" "config.json|line"
change 's/"text_config"/"text_confiq"/'; bad "no text config" "config.json|is missing"
change 's/x/x/'; rm "$tmp/bad/model.safetensors"; bad "no weights" "$tmp/bad"
change 's/x/x/'; rm "$tmp/bad/model.safetensors"
head -c 100000 "$tmp/hf/model.safetensors" >"$tmp/bad/model.safetensors"; bad "weights cut off" "model.safetensors"

finish

#!/usr/bin/env bash
# foretoken inspect: reports, moves drafters between files, and refuses bad files in one line.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
# looking for leaks costs seconds per process under the sanitizers: once, at the end, is enough
export ASAN_OPTIONS=detect_leaks=0

has() { # name, pattern: in the last report
    grep -q -- "$2" "$dir/.out"
    ok "$1" $?
}

"$ft" synth micro Q4_0 "$dir/m.gguf" -q
"$ft" synth micro Q4_0 "$dir/trunk.gguf" -q --no-mtp
"$ft" inspect "$dir/m.gguf" --ctx 1000 >"$dir/.out"
ok "a report" $?
has "the architecture in words" '^architecture: Qwen3.5 dense, 4 blocks (3 delta nets, 1 attention), width 64'
has "the drafter" '^drafter: MTP block inside (blk.4)'
# 4 bytes x 32 x 1 head x 1000 tokens for each cache; 3 x (3 x 128 + 16 x 64) x 4 + 64 x 4 of state
has "memory at a context length" 'memory at 1000 tokens.*KV at f16 125 KiB, recurrent state 16.75 KiB, MTP KV 125 KiB'
has "a head below 6 bits" 'warning: 8 tensors of the MTP block are below 6 bits (blk.4.attn_q.weight: Q4_0, 4.5 bits)'
has "keys" '  qwen35.embedding_length = 64'
has "arrays are cut short" 'tokenizer.ggml.tokens = \[352 str: .*, \.\.\.\]'
has "tensors" 'blk.0.attn_qkv.weight  *Q4_0  *64 x 128'
has "sizes per type" '^  Q4_0  *40 tensors'
"$ft" inspect "$dir/m.gguf" --no-mmap --ctx 1000 | cmp -s - "$dir/.out"
ok "--no-mmap says the same" $?
"$ft" inspect "$dir/m.gguf" --json | grep -q '"memory":{"ctx":8192,"weights":[0-9]*,"kv_f16":1048576,'
ok "--json" $?
"$ft" inspect "$dir/m.gguf" --json --ctx 1000 | grep -q '"caches":.*"cache":"turbo3","bytes":[0-9]*,"token_bytes":[0-9.]*,"ratio_to_f16":'
ok "--json has what caches take" $?
"$ft" inspect "$dir/m.gguf" --check | grep -q '^check: every scale is finite'
ok "--check" $?

"$ft" inspect "$dir/m.gguf" --extract-mtp "$dir/head.gguf" && "$ft" inspect "$dir/head.gguf" >"$dir/.out"
ok "--extract-mtp" $?
has "a head by itself is one" '^drafter: this file is one: an MTP head'
"$ft" inspect "$dir/trunk.gguf" >"$dir/.out"
has "no head, and why" '^drafter: none: qwen35.nextn_predict_layers is 0 or absent'
"$ft" inspect "$dir/trunk.gguf" --merge-mtp "$dir/head.gguf" "$dir/both.gguf" &&
    "$ft" inspect "$dir/both.gguf" | sed -n '/^tensors:/,$p' >"$dir/.merged" &&
    "$ft" inspect "$dir/m.gguf" | sed -n '/^tensors:/,$p' | cmp -s - "$dir/.merged"
ok "--merge-mtp undoes it" $?
[ "$(tail -c 65536 "$dir/m.gguf" | cksum)" = "$(tail -c 65536 "$dir/both.gguf" | cksum)" ]
ok "with the same data" $?

fails "a second head" 'has an MTP block already' \
    "$ft" inspect "$dir/m.gguf" --merge-mtp "$dir/head.gguf" "$dir/x.gguf"
fails "a head without a head" 'no MTP block' \
    "$ft" inspect "$dir/trunk.gguf" --merge-mtp "$dir/trunk.gguf" "$dir/x.gguf"
fails "no head to extract" 'no MTP block: blk.3.nextn.eh_proj.weight is absent' \
    "$ft" inspect "$dir/trunk.gguf" --extract-mtp "$dir/x.gguf"
fails "the file itself as output" 'would replace' \
    "$ft" inspect "$dir/m.gguf" --extract-mtp "$dir/m.gguf"
fails "merge without an output" 'no output' "$ft" inspect "$dir/m.gguf" --merge-mtp "$dir/head.gguf"
"$ft" synth tiny-moe Q8_0 "$dir/moe.gguf" -q --no-mtp
fails "a head of another architecture" 'architecture qwen35, want qwen35moe' \
    "$ft" inspect "$dir/moe.gguf" --merge-mtp "$dir/head.gguf" "$dir/x.gguf"
"$ft" synth tiny F16 "$dir/tiny.gguf" -q --no-mtp
fails "a head of another model" 'a head for 4 blocks, but the model has 8' \
    "$ft" inspect "$dir/tiny.gguf" --merge-mtp "$dir/head.gguf" "$dir/x.gguf"
rm "$dir/moe.gguf" "$dir/tiny.gguf"
"$ft" synth micro-gemma Q8_0 "$dir/gemma.gguf" -q
fails "a family without heads" 'Gemma 4 drafters are files of their own' \
    "$ft" inspect "$dir/gemma.gguf" --extract-mtp "$dir/x.gguf"
fails "a folder that cannot be written" 'cannot write there' \
    "$ft" inspect "$dir/m.gguf" --extract-mtp /proc/x.gguf

fails "a file that is not there" 'No such file' "$ft" inspect "$dir/absent.gguf"
fails "a folder" 'not a regular file' "$ft" inspect "$dir"
echo "some text, and long enough to be a header" >"$dir/text.gguf"
fails "a foreign file" 'text.gguf: not a GGUF file: it starts with "some"' "$ft" inspect "$dir/text.gguf"
: >"$dir/empty.gguf"
fails "an empty file" 'empty.gguf: 0 bytes, want at least 24' "$ft" inspect "$dir/empty.gguf"
for cut in 10 30 500 20000 100000; do
    head -c "$cut" "$dir/m.gguf" >"$dir/cut.gguf"
    fails "cut after $cut bytes" 'cut.gguf: ' "$ft" inspect "$dir/cut.gguf"
    fails "cut after $cut bytes, read" 'cut.gguf: ' "$ft" inspect "$dir/cut.gguf" --no-mmap
done
cp "$dir/m.gguf" "$dir/bad.gguf"
size=$(wc -c <"$dir/bad.gguf")
head -c 4096 /dev/zero | tr '\0' '\377' |
    dd of="$dir/bad.gguf" bs=1 seek=$((size - 30000)) conv=notrunc 2>/dev/null
refuse "a damaged scale" 'the scale of block|is not finite' "$ft" inspect "$dir/bad.gguf" --check
fails "two files" 'want one' "$ft" inspect "$dir/m.gguf" "$dir/m.gguf"
full() { "$@" >/dev/full; }
fails "a full disk behind standard output" 'standard output: write: No space left' \
    full "$ft" inspect "$dir/m.gguf"
ASAN_OPTIONS=detect_leaks=1 "$ft" inspect "$dir/m.gguf" --json >"$dir/.out"
ok "no leaks" $?
finish

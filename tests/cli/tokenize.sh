#!/usr/bin/env bash
# foretoken tokenize: its words, files, JSON lines, and what it says when something is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
passed=0 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$build/tests/mkvocab" tests/data/tokenizer/bytes.json "$dir/bytes.gguf" || exit 1
"$build/tests/mkvocab" tests/data/tokenizer/chars.json "$dir/chars.gguf" || exit 1

expect() { # what wanted found
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s\n  want: %s\n found: %s\n' "$1" "$2" "$3"
    fi
}
tok() { "$build/foretoken" tokenize "$@" 2>&1; }
fails() { # what sentence arguments...
    local what=$1 want=$2 out rc
    shift 2
    out=$("$build/foretoken" tokenize "$@" 2>&1 >/dev/null </dev/null)
    rc=$?
    expect "$what" "1 foretoken: $want" "$rc $out"
}
b="$dir/bytes.gguf" c="$dir/chars.gguf"

# words, file and standard input are the same text
want=$(tok -m "$b" --ids hello world)
printf 'hello world' >"$dir/in"
expect "a file" "$want" "$(tok -m "$b" --ids -f "$dir/in")"
expect "standard input" "$want" "$(tok -m "$b" --ids <"$dir/in")"
expect "words and back" "hello world" "$(tok -m "$b" --detokenize $want)"
expect "a list for people" '"hello world"' "$(tok -m "$b" -f "$dir/in" | sed 's/^ *[0-9]*  "\(.*\)"$/\1/' | tr -d '\n' | sed 's/.*/"&"/')"
expect "no text, no ids" "" "$(tok -m "$b" --ids </dev/null)"

# JSON lines: one for one, empty text, U+0000, no BOS
out=$(printf '%s\n' '{"text":""}' '{"text":"a\u0000b"}' '{"text":"1"}' | tok -m "$c" --jsonl)
expect "a line for each line" 3 "$(printf '%s\n' "$out" | wc -l)"
expect "an empty text" '{"ids":[]}' "$(printf '%s\n' "$out" | head -n 1)"
expect "back, U+0000 and all" '{"text":"a\u0000b"}' "$(printf '%s\n' "$out" | sed -n 2p | tok -m "$c" --jsonl --detokenize)"
expect "without a last newline" '{"ids":[]}' "$(printf '{"text":""}' | tok -m "$b" --jsonl)"
half=$(tok -m "$b" --ids "$(printf '\303')")
expect "half a character" '{"text":"\ufffd"}' "$(printf '{"ids":[%s]}\n' "$half" | tok -m "$b" --jsonl --detokenize | sed 's/\xef\xbf\xbd/\\ufffd/')"

# the torture file, every line, both ways
for v in bytes-qwen35:bytes chars:chars; do
    tok -m "$dir/${v#*:}.gguf" --jsonl -f tests/data/tokenizer/torture.jsonl >"$dir/ids"
    node_free=$(sed 's/ //g' "tests/data/tokenizer/${v%:*}.ids.jsonl" | cmp - "$dir/ids" 2>&1)
    expect "recorded ids, ${v%:*}" "" "$node_free"
done

# options
expect "special tokens are parsed" 1 "$(tok -m "$b" --ids '<|im_start|>' | wc -w)"
expect "or not" 1 "$(($(tok -m "$b" --ids --no-parse-special '<|im_start|>' | wc -w) > 1))"
expect "BOS on request" "2 " "$(tok -m "$c" --ids --add-special x | cut -c 1-2)"
e=$(printf 'e\314\201')
expect "normalisation" "$(tok -m "$b" --ids "$(printf '\303\251')")" "$(tok -m "$b" --ids "$e")"
expect "and none" "$e" "$(tok -m "$b" --detokenize $(tok -m "$b" --ids --no-nfc "$e"))"
head -c 3000 /dev/urandom >"$dir/noise"
tok -m "$b" --ids -f "$dir/noise" --no-nfc >"$dir/noise.ids"
expect "noise comes back" "" "$(tok -m "$b" --detokenize -f "$dir/noise.ids" | cmp - "$dir/noise" 2>&1)"

# errors: one sentence, exit code 1
fails "id too large" "id 999999, want one from 0 to 4273" -m "$b" --detokenize 999999
fails "not a number" '"12x" is no token id' -m "$b" --detokenize 12x
fails "two inputs" "both text on the command line and --file $dir/in are given, want one of them" -m "$b" -f "$dir/in" x
printf '{"text":"a"}\n{"text":7}\n' >"$dir/bad1"
fails "text is a number" 'line 2: want an object with a string "text"' -m "$b" --jsonl -f "$dir/bad1"
printf '{"ids":[1,-2]}\n' >"$dir/bad2"
fails "negative id" 'line 1: entry 1 of "ids" is no token id' -m "$b" --jsonl --detokenize -f "$dir/bad2"
printf '[]\n' >"$dir/bad3"
fails "no object" 'line 1: want an object with a string "text"' -m "$b" --jsonl -f "$dir/bad3"
printf '{"text":\n' >"$dir/bad4"
out=$(tok -m "$b" --jsonl -f "$dir/bad4")
expect "broken JSON" "1 1" "$? $(printf '%s\n' "$out" | grep -c '^foretoken: line 1: ')"
head -c 1000 "$b" >"$dir/cut.gguf"
tok -m "$dir/cut.gguf" x >/dev/null
expect "a cut file" 1 $?

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/usr/bin/env bash
# foretoken template: lines in, lines out; errors that go on; files that are none.
set -u
cd "$(dirname "$0")/../.."
bin=${BUILD:-build}/foretoken
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
check() { # name want got
    if [ "$2" = "$3" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf '%s:\n  want %s\n  got  %s\n' "$1" "$2" "$3"
    fi
}
contains() { # name part text
    case $3 in *"$2"*) passed=$((passed + 1)) ;; *) failed=$((failed + 1)); printf '%s: no "%s" in %s\n' "$1" "$2" "$3" ;; esac
}
tiny=tests/data/template/tiny.jinja
printf '%s' '{{ a }}|{{ b is defined }}|{{ c is none }}' >"$dir/t.jinja"

out=$(printf '%s\n' '{"a": 1}' '{"a": "x", "b": null, "c": null}' | "$bin" template --file "$dir/t.jinja" --jsonl)
check 'absent is undefined, null is none' '{"prompt": "1|False|False"}
{"prompt": "x|True|True"}' "$out"

out=$(printf '%s\n' 'nonsense' '[1]' '' '{"messages": [{"role": "bad", "content": ""}]}' \
    '{"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": true, "enable_thinking": true}' |
    "$bin" template --file $tiny --jsonl)
check 'goes on after errors: lines' 4 "$(wc -l <<<"$out")"
check 'goes on after errors: errors' 3 "$(grep -c '^{"error": ' <<<"$out")"
contains 'a refusal has its words' 'unknown role bad' "$out"
contains 'the last line is rendered' 'user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n"}' "$out"

check 'one object' 'x|False|False' "$(echo '{"a": "x"}' | "$bin" template --file "$dir/t.jinja")"
check 'no input lines' '' "$("$bin" template --file "$dir/t.jinja" --jsonl </dev/null)"

fails() { # name part command...
    local name=$1 part=$2 out rc
    shift 2
    out=$(echo '{}' | "$@" 2>&1)
    rc=$?
    check "$name: exit code" 1 $rc
    contains "$name" "$part" "$out"
}
printf '%s' 'a{% if %}' >"$dir/bad.jinja"
head -c 300 /dev/urandom >"$dir/noise"
fails 'a broken template' 'line 1' "$bin" template --file "$dir/bad.jinja" --jsonl
fails 'no template' 'want one of' "$bin" template --jsonl
fails 'two templates' 'want one of' "$bin" template --file $tiny -m x.gguf
fails 'no such file' 'foretoken:' "$bin" template --file "$dir/none" --jsonl
fails 'noise as a model' 'foretoken:' "$bin" template -m "$dir/noise" --jsonl
fails 'a single object that is none' 'not JSON' sh -c "echo '{' | '$bin' template --file '$dir/t.jinja'"
fails 'an undefined attribute' "'q' is undefined" sh -c "printf '%s' '{{ q.r }}' > '$dir/q.jinja'; echo '{}' | '$bin' template --file '$dir/q.jinja'"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

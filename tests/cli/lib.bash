# Shared by the tests of programs that need a model. Sets ft, dir (removed at the end) and model: a
# tiny one with random weights.
set -u
ft=${BUILD:-build}/foretoken
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
model=$dir/micro.gguf
"$ft" synth micro q8_0 "$model" -q || exit 1

ok() { # name, status
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $1"
    fi
}

# fails NAME PATTERN command...: exit code 1, one line on standard error that matches, no output
fails() {
    local name=$1 pattern=$2; shift 2
    "$@" >"$dir/.out" 2>"$dir/.err" </dev/null
    local rc=$?
    [ "$rc" -eq 1 ] && [ "$(wc -l <"$dir/.err")" -eq 1 ] && grep -q -- "$pattern" "$dir/.err" &&
        [ ! -s "$dir/.out" ]
    local st=$?
    [ "$st" -eq 0 ] || sed "s/^/  rc $rc: /" "$dir/.err"
    ok "$name" "$st"
}

same() { # name, found, wanted
    [ "$2" = "$3" ]
    local st=$?
    [ "$st" -eq 0 ] || printf '  found  %.300s\n  wanted %.300s\n' "$2" "$3"
    ok "$1" "$st"
}

field() { # the value of a plain or list field in the JSON on standard input
    sed -n "s/.*\"$1\": *\(\[[^]]*\]\|\"[^\"]*\"\|[^,}]*\).*/\1/p" | head -n 1
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

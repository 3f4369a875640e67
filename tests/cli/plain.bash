# Shared by the tests of all programs. Sets ft and dir (removed at the end).
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
ft=${BUILD:-build}/foretoken
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
exec </dev/null # run reads standard input beside its words

ok() { # name, status
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $1"
    fi
}

works() { # name command...
    local name=$1; shift
    "$@" >"$dir/.out" 2>&1
    local st=$?
    [ "$st" -eq 0 ] || sed 's/^/  /' "$dir/.out"
    ok "$name" "$st"
}

# fails NAME PATTERN command...: exit code 1, one line on standard error that matches, no output, and
# neither a part of a file nor a file x.gguf left behind
fails() {
    local name=$1 pattern=$2; shift 2
    "$@" >"$dir/.out" 2>"$dir/.err" </dev/null
    local rc=$?
    [ "$rc" -eq 1 ] && [ "$(wc -l <"$dir/.err")" -eq 1 ] && grep -q -- "$pattern" "$dir/.err" &&
        [ ! -s "$dir/.out" ] && [ -z "$(find "$dir" -name '*.part' -o -name 'x.gguf')" ]
    local st=$?
    [ "$st" -eq 0 ] || sed "s/^/  rc $rc: /" "$dir/.err"
    ok "$name" "$st"
}

# Exit code 1, one line on standard error with these words, no file out* in dir.
refuse() { # name "word|word" command...
    local name=$1 words=$2 rc w bad=""; shift 2
    "$@" >"$dir/stdout" 2>"$dir/stderr"
    rc=$?
    [ $rc -eq 1 ] || bad="exit code $rc"
    [ "$(wc -l <"$dir/stderr")" -eq 1 ] || bad="$bad; not one line"
    while IFS= read -r w; do grep -qF -- "$w" "$dir/stderr" || bad="$bad; no \"$w\""; done < <(tr '|' '\n' <<<"$words")
    [ -z "$(ls "$dir"/out* 2>/dev/null)" ] || bad="$bad; left $(ls "$dir"/out*)"
    rm -f "$dir"/out*
    if [ -z "$bad" ]; then passed=$((passed + 1)); else
        failed=$((failed + 1)); echo "failed: $name:$bad"; cat "$dir/stderr"
    fi
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

# serve OPTIONS...: starts a server. Sets pid, and url once it is ready; url is empty if it ended.
serve() {
    : >"$dir/log" # the child truncates it too, but perhaps after the old one was read here
    "$ft" serve -c 256 -n 12 --temp 0 --port 0 "$@" >/dev/null 2>"$dir/log" &
    pid=$!
    url=
    for _ in $(seq 600); do
        url=$(sed -n 's/^ready at //p' "$dir/log")
        [ -n "$url" ] && return
        kill -0 $pid 2>/dev/null || return
        sleep 0.05
    done
}

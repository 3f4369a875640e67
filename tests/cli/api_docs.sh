#!/usr/bin/env bash
# The examples of docs/api.md, as they are written: each answers with status 200, and with JSON.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
"$ft" --version | grep -q microhttpd && command -v python3 >/dev/null && command -v curl >/dev/null ||
    { echo "0 passed, 0 failed"; exit 0; }

# one example per line
awk '/^## /{on = $2 == "Examples"} on && /^    curl/{if (c) print c; c = $0; next}
     on && /^     /{c = c " " $0} on && /^$/{if (c) print c; c = ""} END{if (c) print c}' docs/api.md |
    sed 's/^ *//' >"$dir/examples"
[ "$(wc -l <"$dir/examples")" -ge 35 ]
ok "docs/api.md has examples" $?

mkdir "$dir/models" "$dir/slots"
cp models/foretoken-tiny.gguf "$dir/models/small.gguf"
serve --models-dir "$dir/models" --metrics --props --slot-save-path "$dir/slots" -c 1024

loaded() { curl -s "$S/v1/models/small" | grep -q '"value":"loaded"'; }

# JSON, a stream of events with JSON, or the text of the metrics
parses() {
    python3 -c '
import json, sys
text = open(sys.argv[1]).read()
if text.startswith("# HELP"):
    sys.exit(0)
events = [l[6:] for l in text.split("\n") if l.startswith("data: ") and l != "data: [DONE]"]
lines = text.strip().split("\n")
for one in events or ([text] if len(lines) == 1 else lines):
    json.loads(one)
assert events or lines' "$1"
}

S=$url
while IFS= read -r example; do
    status=$(eval "${example/#curl/curl -s -m 120 -o '$dir/body' -w '%{http_code}'}" </dev/null)
    same "$example" "$status" 200
    parses "$dir/body" 2>/dev/null
    ok "$example: JSON" $?
    case $example in *models/load*)
        for _ in $(seq 200); do
            loaded && break
            sleep 0.05
        done
        ;;
    esac
done <"$dir/examples"
kill -TERM $pid
wait $pid
finish

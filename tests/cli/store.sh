#!/usr/bin/env bash
# foretoken serve --manage-models: clients download, copy, create and delete models of the store.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$ft" --version | grep -q microhttpd && "$ft" --version | grep -qi curl && command -v python3 >/dev/null ||
    { echo "0 passed, 0 failed"; exit 0; }

# a host with one repository, served as files
host=$dir/host
mkdir -p "$host/api/models/me/mine/tree" "$host/me/mine/resolve/main"
cp "$model" "$host/me/mine/resolve/main/mine-Q8_0.gguf"
sum=$(sha256sum "$model" | cut -d' ' -f1)
cat >"$host/api/models/me/mine/tree/main" <<JSON
[{"type": "file", "path": "mine-Q8_0.gguf", "size": $(stat -c %s "$model"),
  "lfs": {"oid": "$sum", "size": $(stat -c %s "$model")}}]
JSON
python3 -u -c '
import functools, http.server
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="'"$host"'")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_port, flush=True)
server.serve_forever()' >"$dir/port" 2>/dev/null &
stub=$!
trap 'kill $stub 2>/dev/null; rm -rf "$dir"' EXIT
for _ in $(seq 100); do
    [ -s "$dir/port" ] && break
    sleep 0.05
done
export FT_MODELS=$dir/store HF_ENDPOINT=http://127.0.0.1:$(cat "$dir/port")
ask() { curl -s -m 60 "$url$1" -d "$2"; }
delete() { curl -s -m 60 -X DELETE "$url/api/delete" -d "{\"model\":\"$1\"}"; }
named() { ask /completion "{\"model\":\"$1\",\"prompt\":\"one two\"}"; }
tags() { curl -s "$url/api/tags" | grep -o '"name":"[^"]*"' | sort | tr -d '\n'; }

serve --manage-models
ask /api/pull '{"model":"hf.co/me/mine:Q8_0"}' >"$dir/pulled"
grep -q '^{"status":"pulling manifest"}$' "$dir/pulled" && grep -q '"total":.*"completed":.*"digest":"sha256:' "$dir/pulled"
ok "a pull tells its progress" $?
same "and its end" "$(tail -n 1 "$dir/pulled")" '{"status":"success"}'
same "the model can be used" "$(named mine-Q8_0 | field tokens_predicted)" 12
same "also by the name that was pulled" "$(named hf.co/me/mine:Q8_0 | field tokens_predicted)" 12
same "its digest is that of the file" "$(curl -s "$url/api/tags" | field digest)" "\"$sum\""
same "what the host does not have" "$(ask /api/pull '{"model":"me/none","stream":false}' | grep -c '"error":".*not found')" 1
same "a name that is none" "$(ask /api/pull '{"model":"llama3","stream":false}' | grep -c '"error":"model name')" 1

same "a copy" "$(ask /api/copy '{"source":"mine-Q8_0","destination":"second"}')" '{"status":"success"}'
same "is used like its original" "$(named second | field tokens_predicted)" 12
same "a model is created" "$(ask /api/create '{"model":"brief:latest","from":"second","parameters":{"num_predict":3,"temperature":0.5},"stream":false}')" '{"status":"success"}'
same "a created model has its parameters" "$(named brief | field tokens_predicted)" 3
same "a parameter that is none" "$(ask /api/create '{"model":"x","from":"second","parameters":{"nonsense":3}}' | grep -c 'parameter ..nonsense.. cannot be set')" 1
same "a value that is none" "$(ask /api/create '{"model":"x","from":"second","parameters":{"top_k":"many"}}' | grep -c 'want a whole number')" 1
same "a name with blanks" "$(ask /api/copy '{"source":"second","destination":"a]b"}' | grep -c 'want 1 to 120 letters')" 1
same "all of them" "$(tags)" '"name":"brief""name":"foretoken-tiny""name":"mine-Q8_0""name":"second"'
kill -TERM $pid
wait $pid
serve --manage-models
same "they survive a restart" "$(named brief | field tokens_predicted)" 3

same "a file that others use stays" "$(delete mine-Q8_0 | grep -c 'is used by')" 1
same "a copy is deleted" "$(delete second)" '{"status":"success"}'
same "and gone" "$(named second | field status)" 404
delete brief >/dev/null
same "a name can be used again" "$(ask /api/create '{"model":"brief","from":"mine-Q8_0","parameters":{"num_predict":5},"stream":false}')" '{"status":"success"}'
same "with other parameters" "$(named brief | field tokens_predicted)" 5
delete brief >/dev/null
same "then the file" "$(delete mine-Q8_0)" '{"status":"success"}'
[ ! -e "$dir/store/me--mine" ]
ok "its folder is removed" $?
same "nothing is left" "$(tags)" ""
same "what is not there cannot be deleted" "$(delete mine-Q8_0)" '{"error":"model \"mine-Q8_0\" not found"}'
kill -TERM $pid
wait $pid
same "it ends well" $? 0

serve
same "without the option nothing is changed" "$(ask /api/copy '{"source":"foretoken-tiny","destination":"x"}' | grep -c 'manage-models')" 1
kill -TERM $pid
wait $pid
fails "the option is for the store" "manage-models is for the models of the store" "$ft" serve -m "$model" --manage-models --port 0 -q
finish

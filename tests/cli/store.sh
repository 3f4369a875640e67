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
"$ft" quantize "$model" "$host/me/mine/resolve/main/mine-F16.gguf" f16 -q --allow-requantize
entry() { # file: its line of the list
    local path=$host/me/mine/resolve/main/$1 size
    size=$(stat -c %s "$path")
    echo "{\"type\": \"file\", \"path\": \"$1\", \"size\": $size,
        \"lfs\": {\"oid\": \"$(sha256sum "$path" | cut -d' ' -f1)\", \"size\": $size}}"
}
sum=$(sha256sum "$model" | cut -d' ' -f1)
echo "[$(entry mine-Q8_0.gguf), $(entry mine-F16.gguf)]" >"$host/api/models/me/mine/tree/main"
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
named() { ask /completion "{\"model\":\"$1\",\"prompt\":\"one two\",\"ignore_eos\":true}"; }
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
same "a model is created" "$(ask /api/create '{"model":"brief:latest","from":"second","parameters":{"num_predict":1,"temperature":0.5},"stream":false}')" '{"status":"success"}'
same "a created model has its parameters" "$(named brief | field tokens_predicted)" 1
same "a parameter that is none" "$(ask /api/create '{"model":"x","from":"second","parameters":{"nonsense":3}}' | grep -c 'parameter ..nonsense.. cannot be set')" 1
same "a value that is none" "$(ask /api/create '{"model":"x","from":"second","parameters":{"top_k":"many"}}' | grep -c 'want a whole number')" 1
same "a name with blanks" "$(ask /api/copy '{"source":"second","destination":"a]b"}' | grep -c 'want 1 to 120 letters')" 1
same "all of them" "$(tags)" '"name":"brief""name":"foretoken-tiny""name":"mine-Q8_0""name":"second"'
kill -TERM $pid
wait $pid
serve --manage-models
same "they survive a restart" "$(named brief | field tokens_predicted)" 1

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
# models and drafters by name
out=$("$ft" run -hf me/mine:Q8_0 -hfd me/mine:F16 --spec-adapt off --raw --temp 0 -n 12 --json -q one two)
echo /stats | "$ft" chat -hf me/mine:Q8_0 -hfd me/mine:F16 2>&1 | grep -q '^drafter .*MTP head in a separate file'
ok "-hfd is the drafter" $?
same "with the same ids" "$(field ids <<<"$out")" \
    "$("$ft" run -m "$model" --draft-max 0 --raw --temp 0 -n 12 --json one two | field ids)"
[ "$(field draft_n <<<"$out")" -gt 0 ]
ok "and draft tokens" $?

# list and rm
store=$FT_MODELS
rm -rf "$store"
same "an empty store" "$("$ft" list)" "0 models, 0 B in $store"
fails "nothing to remove" "no model \"x\": $store has no models" "$ft" rm x
mkdir -p "$store/me--mine/big" "$store/me--other"
"$ft" pull me/mine:Q8_0 -q >/dev/null
"$ft" quantize "$model" "$store/me--mine/plain.gguf" f16 -q --allow-requantize >/dev/null
cp "$store/me--mine/plain.gguf" "$store/me--other/huge-Q4_K_M-00001-of-00002.gguf"
echo 12345 >"$store/me--other/huge-Q4_K_M-00002-of-00002.gguf"
"$ft" synth micro-mmproj f16 "$store/me--mine/mmproj-F16.gguf" -q
cp "$store/me--mine/plain.gguf" "$store/me--mine/big/deep-Q5_K.gguf"
printf '[brief]\nmodel = %s\ntemp = 0.5\n' "$store/me--mine/mine-Q8_0.gguf" >"$store/models.ini"
echo junk >"$store/broken.gguf"
bytes() { stat -c %s "$@" | awk '{ n += $1 } END { print n }'; }
"$ft" list >"$dir/list"
same "list has each model once" "$(awk 'NR > 1 && !/ models, / { print $1 }' "$dir/list" | sort | tr '\n' ' ')" \
    "brief broken deep-Q5_K huge-Q4_K_M mine-Q8_0 plain "
same "the quantization and the date" "$(grep -c "^mine-Q8_0 .* Q8_0  *$(date -u -r "$model" +%Y)-" "$dir/list")" 1
same "without a name the type of the weights" "$(grep -c '^plain .* F16 ' "$dir/list")" 1
same "a file that cannot be loaded" "$(grep -c '^broken .* unknown .* cannot be loaded: ' "$dir/list")" 1
same "settings are marked" "$(grep -c '^brief .* settings in models.ini$' "$dir/list")" 1
"$ft" list --json >"$dir/list"
python3 - "$dir/list" "$(bytes "$store"/me--other/huge*)" "$sum" <<'PY'
import json, sys
j = json.load(open(sys.argv[1]))
m = {one["name"]: one for one in j["models"]}
assert m["huge-Q4_K_M"]["size"] == int(sys.argv[2]), "all parts"
assert m["mine-Q8_0"]["digest"] == sys.argv[3] and m["mine-Q8_0"]["quantization"] == "Q8_0"
assert m["mine-Q8_0"]["modified_at"].endswith("Z") and m["brief"]["file"] == m["mine-Q8_0"]["file"]
PY
ok "the same as JSON" $?
"$ft" pull --list | grep -q '^me/mine .*plain.gguf'
ok "pull --list lists the files" $?
fails "a name that is not there" 'no model "nope" in .*, which has .*mine-Q8_0' "$ft" rm plain nope
[ -e "$store/me--mine/plain.gguf" ]
ok "then nothing is removed" $?
fails "a name of several models" '"me/mine" may be any of deep-Q5_K, mine-Q8_0, plain' "$ft" rm me/mine
fails "a file that settings use" 'mine-Q8_0 is used by brief' "$ft" rm mine-Q8_0
cp "$store/models.ini" "$dir/ini"
echo junk >"$store/models.ini"
fails "a file of settings that is none" 'models.ini: line 1 of the preset is "junk"' "$ft" list
mv "$dir/ini" "$store/models.ini"
[ ! -e /dev/full ] || fails "a full disk" 'standard output: write' bash -c '"$0" list >/dev/full' "$ft"
fails "no name" 'rm has 0 arguments' "$ft" rm
head -c 500 /dev/zero >"$store/me--mine/late-Q4_K_M.gguf.part"
head -c 300 /dev/zero >"$store/me--other/huge-Q4_K_M-00002-of-00002.gguf.part"
head -c 200 /dev/zero >"$store/me--mine/half-00002-of-00003.gguf.part"
same "rm removes an unfinished download" "$("$ft" rm late-Q4_K_M half | cut -d '(' -f 1)" \
    "removed the unfinished download of late-Q4_K_M: 1 file, 500 bytes 
removed the unfinished download of half: 1 file, 200 bytes "
head -c 500 /dev/zero >"$store/me--mine/late-Q4_K_M.gguf.part"
same "but not one that is running" \
    "$(flock "$store/me--mine/late-Q4_K_M.gguf.part" "$ft" rm late-Q4_K_M 2>&1)" \
    'foretoken: "late-Q4_K_M" is being downloaded and cannot be removed'
[ -e "$store/me--mine/late-Q4_K_M.gguf.part" ] && "$ft" rm late-Q4_K_M >/dev/null
ok "which stays" $?
n=$(bytes "$store"/me--other/huge*)
same "rm removes all parts, finished or not" "$("$ft" rm huge-Q4_K_M | cut -d '(' -f 1)" \
    "removed huge-Q4_K_M: 3 files, $n bytes "
[ ! -e "$store/me--other" ]
ok "and the empty folder" $?
n=$(bytes "$store/me--mine/mine-Q8_0.gguf")
same "settings, then their file" "$("$ft" rm me/mine:Q8_0 brief | cut -d '(' -f 1)" \
    "removed brief: its settings in models.ini, 0 bytes
removed mine-Q8_0: 1 file, $n bytes "
same "models.ini has no section left" "$(cat "$store/models.ini")" ""
"$ft" rm plain.gguf broken >/dev/null
[ -e "$store/me--mine/mmproj-F16.gguf" ]
ok "a vision tower stays with a model in a subfolder" $?
n=$(bytes "$store/me--mine/mmproj-F16.gguf" "$store/me--mine/big/deep-Q5_K.gguf")
same "and goes with the last one" "$("$ft" rm deep-Q5_K:latest | cut -d '(' -f 1)" "removed deep-Q5_K: 2 files, $n bytes "
same "nothing is left" "$(find "$store" -name '*.gguf*' | wc -l):$("$ft" list | cut -d ' ' -f 1)" "0:0"

fails "the option is for the store" "manage-models is for the models of the store" "$ft" serve -m "$model" --manage-models --port 0 -q
finish

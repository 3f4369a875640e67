#!/usr/bin/env bash
# foretoken serve: the program with a model of its own, its options, and how it ends.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$ft" --version | grep -q microhttpd || { echo "0 passed, 0 failed"; exit 0; }

start() { serve -m "$model" --metrics "$@"; }
stop() { # the exit code of a server that was asked to end
    kill -TERM $pid
    wait $pid
}
ask() { curl -s -m 60 "$url$1" -d "$2"; }

start
[ -n "$url" ]
ok "it says where it listens" $?
grep -q '^cache: keys f16, values f16' "$dir/log"
ok "and what its cache takes" $?
grep -q '^drafter: the model.s MTP head.*, up to 3 draft tokens per step, adaptive' "$dir/log"
ok "and its drafter with its parameters" $?
grep -q '"speculative":{"type":"draft-mtp","active":true,"n_max":3,.*"description":"the model.s MTP head' <<<"$(curl -s "$url/props")"
ok "/props has them too" $?
same "health" "$(curl -s "$url/health")" '{"status":"ok"}'
alone=$("$ft" run -m "$model" --raw --json -n 12 --temp 0 one two | field ids)
body='{"prompt":"one two","return_tokens":true}'
same "the same ids as run" "$(ask /completion "$body" | field tokens)" "$alone"
same "and without drafts" "$(ask /completion '{"prompt":"one two","return_tokens":true,"speculative.n_max":0}' | field tokens)" "$alone"
same "and from the cache" "$(ask /completion "$body" | field tokens)" "$alone"
same "a cut is made" "$(ask /completion "$body" | field tokens_predicted)" 12

# erasing a slot leaves the prefixes that all slots share; a request can do without them
long=$(printf 'one two three %.0s' $(seq 12))
again() { ask /completion "{\"prompt\":\"$long\",\"n_predict\":1,\"id_slot\":0$1}" | field cache_n; }
again "" >/dev/null
again "" >/dev/null
same "an erased slot names the shared cache" "$(ask '/slots/0?action=erase' '{}' | field cache_shared)" true
[ "$(again "")" -gt 0 ]
ok "which still has the prompt" $?
ask '/slots/0?action=erase' '{}' >/dev/null
same "a request may do without it" "$(again ',"cache_prompt":false')" 0

grep -qE '^20[0-9T:.-]+Z POST /completion 200 [0-9.]+ ms, prompt [0-9]+ cached [0-9]+ output 12,' "$dir/log"
ok "a request is logged with time, method, path, status, duration and tokens" $?

# 1 and 7 others at the same time do not change a reply
for others in 1 7; do
    load=()
    for i in $(seq $others); do
        ask /completion "{\"prompt\":\"number $i says $i$i\",\"n_predict\":30}" >/dev/null &
        load+=($!)
    done
    same "the same ids beside $others others" "$(ask /completion "$body" | field tokens)" "$alone"
    wait "${load[@]}"
done

# what the model writes follows what was asked for
out=$(ask /v1/chat/completions '{"messages":[{"role":"user","content":"x"}],"max_tokens":400,"tool_choice":"required","parallel_tool_calls":false,"chat_template_kwargs":{"enable_thinking":false},"tools":[{"type":"function","function":{"name":"pick","parameters":{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":3}},"required":["n"],"additionalProperties":false}}}]}')
grep -q '"name":"pick","arguments":"{\\"n\\":[123]}"' <<<"$out"
ok "a call that is wanted is made, and fits" $?
out=$(ask /v1/chat/completions '{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"enable_thinking":false},"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":["left","right"]}}}}')
grep -q '"content":"\\"\(left\|right\)\\""' <<<"$out"
ok "an answer fits its schema" $?
out=$(ask /v1/chat/completions '{"messages":[{"role":"user","content":"x"}],"max_tokens":60,"thinking_budget_tokens":3,"chat_template_kwargs":{"enable_thinking":true}}')
[ "$(field reasoning_tokens <<<"$out")" -le 12 ]
ok "a thought keeps to its budget" $?
out=$(ask /v1/chat/completions '{"messages":[{"role":"user","content":"x"}],"max_tokens":60,"thinking_budget_tokens":3,"reasoning_budget_message":"that will do","chat_template_kwargs":{"enable_thinking":true}}')
grep -q '"reasoning_content":"[^"]*that will do"' <<<"$out"
ok "and ends with the words of the request" $?
out=$(ask /completion '{"prompt":"x","ignore_eos":true,"grammar":"root ::= [0-9]{1,3}"}')
grep -q '"content":"[0-9]\{3\}"' <<<"$out"
ok "an end that is ignored waits for the grammar's" $?
same "and is one" "$(field stop_type <<<"$out")" '"eos"'
out=$(ask /v1/chat/completions '{"messages":[{"role":"user","content":"x"}],"ignore_eos":true,"chat_template_kwargs":{"enable_thinking":false},"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":["left","right"]}}}}')
same "of a schema too" "$(field finish_reason <<<"$out")" '"stop"'
ask /v1/chat/completions '{"messages":[{"role":"user","content":"x"}],"grammar":"root ::= ("}' | grep -q '"status":400'
ok "a broken grammar is 400" $?
same "so is one that is too large, not 429" "$(ask /completion '{"prompt":"x","grammar":"root ::= [a-z]{200000}"}' | field status)" 400
ask /completion "{\"prompt\":\"$(printf 'word %.0s' $(seq 400))\"}" | grep -q exceed_context_size_error
ok "a prompt that is too long is refused" $?

# a client that leaves frees its lane
curl -s -N -m 0.3 "$url/completion" -d '{"prompt":"x","n_predict":-1,"ignore_eos":true,"stream":true}' >/dev/null
for _ in $(seq 100); do
    busy=$(curl -s "$url/metrics" | sed -n 's/^foretoken:requests_processing //p')
    [ "$busy" = 0 ] && break
    sleep 0.05
done
same "a reply nobody reads has ended" "$busy" 0

steps=$(curl -s "$url/metrics" | sed -n 's/^foretoken:step_seconds_count //p')
last=$(curl -s "$url/metrics" | sed -n 's/^foretoken:step_seconds_bucket{le="+Inf"} //p')
[ "${steps:-0}" -gt 20 ] && [ "$steps" = "$last" ]
ok "rounds are timed" $?

# SIGTERM: a running reply finishes
curl -s -N "$url/completion" -d '{"prompt":"one two","stream":true,"n_predict":12}' >"$dir/last" &
reader=$!
sleep 0.1
stop
same "SIGTERM ends it well" $? 0
wait $reader
grep -q '"stop":true' "$dir/last"
ok "the last reply was finished" $?
grep -q '/completion 200 .* ms, prompt .* cached .* output 12, .* length' "$dir/log"
ok "the log has a line for a request" $?

# options of other servers, as people type them
start --log-format json -ngl 999 --flash-attn on --cache-type-k q8_0 --cache-type-v turbo4 --spec-type draft-mtp --spec-draft-n-max 2 \
    --jinja -cb -kvu -sps 0.5 --no-context-shift --api-key k --no-cache-prompt -a mine
same "llama.cpp's options are taken" "$(curl -s -H 'X-Api-Key: k' "$url/v1/models" | field id)" '"mine"'
same "the key is wanted" "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/models")" 401
curl -s -H 'X-Api-Key: k' "$url/completion" -d '{"prompt":"one two"}' >/dev/null
stop
same "--log-format json: a line for each request" "$(grep -c '^{"time":"20.*"method":"[A-Z]*","path":"/.*"status":[0-9]*,"ms":[0-9.]*' "$dir/log")" 3
grep -q '^{.*"path":"/completion","status":200,.*"prompt_tokens":[0-9]*,"cached_tokens":[0-9]*,"output_tokens":[0-9]*,' "$dir/log"
ok "with the tokens" $?

# lanes as files, vectors
start --slot-save-path "$dir"
ask /completion '{"prompt":"one two three four five","id_slot":0,"n_predict":4}' >/dev/null
ask '/slots/0?action=save' '{"filename":"lane"}' >"$dir/saved"
n=$(field n_saved <"$dir/saved")
[ "${n:-0}" -gt 4 ] && [ -s "$dir/lane" ]
ok "a lane is saved" $?
same "n_written is the size of the file" "$(field n_written <"$dir/saved")" "$(stat -c %s "$dir/lane")"
ask '/slots/0?action=erase' '{}' >/dev/null
ask '/slots/0?action=restore' '{"filename":"lane"}' >"$dir/read"
same "and restored" "$(field n_restored <"$dir/read")" "$n"
same "n_read is the size of the file" "$(field n_read <"$dir/read")" "$(stat -c %s "$dir/lane")"
ask '/slots/0?action=restore' '{"filename":"../lane"}' | grep -q '"status":403.*without a path'
ok "but from its folder alone" $?
ask /v1/embeddings '{"input":["one two","three"]}' | grep -q '"object":"embedding","index":1'
ok "texts become vectors" $?
same "a list of slots" "$(curl -s "$url/slots" | grep -o '"id":' | wc -l)" 4
stop

# clients that leave a long list of embeddings behind: nobody waits for it, and neither does the end
serve -m models/foretoken-tiny.gguf -c 2048
text=$(printf 'the file is here %.0s' $(seq 330))
{
    printf '{"input":["0"'
    for i in $(seq 999); do printf ',"%s%d"' "$text" "$i"; done
    printf ']}'
} >"$dir/texts"
for _ in 1 2; do
    curl -s -m 1 "$url/v1/embeddings" -d "@$dir/texts" >/dev/null &
    leaves=$!
done
wait $leaves
same "slots are told after clients left their embeddings" "$(curl -s -m 20 -o /dev/null -w '%{http_code}' "$url/slots")" 200
curl -s -m 60 "$url/v1/embeddings" -d "@$dir/texts" >/dev/null &
reader=$!
sleep 0.5
kill -TERM $pid
sleep 0.3
kill -TERM $pid # the second: at once, though a client waits for its embeddings
for _ in $(seq 200); do
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
done
kill -9 $pid 2>/dev/null
wait $pid
same "SIGTERM ends it while embeddings run" $? 0
wait $reader

# --reasoning: auto turns thinking on, as llama.cpp does, also where the template does not
printf '%s' '{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %} (thinks){% endif %}' >"$dir/t.jinja"
template() { ask /apply-template "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]$1}" | field prompt; }
thinks=',"chat_template_kwargs":{"enable_thinking":true}' quiet=',"chat_template_kwargs":{"enable_thinking":false}'
start --chat-template-file "$dir/t.jinja"
same "--reasoning auto" "$(template "")" '"hi (thinks)"'
same "a request decides" "$(template "$quiet")" '"hi"'
stop
start --chat-template-file "$dir/t.jinja" --reasoning off --spec-type none
grep -q '"speculative":{"type":"none","active":false,.*"reason":"none: disabled"' <<<"$(curl -s "$url/props")"
ok "/props says why there is no drafter" $?
same "--reasoning off" "$(template ""):$(template "$thinks")" '"hi":"hi (thinks)"'
stop

# several models: a folder, a preset with options of its own
mkdir "$dir/models"
cp "$model" "$dir/models/first.gguf"
cp "$model" "$dir/models/second.gguf"
echo nonsense >"$dir/models/third.gguf"
named() { ask /completion "{\"model\":\"$1\",\"prompt\":\"one two\",\"return_tokens\":true}"; }
status_of() { curl -s "$url/v1/models" | grep -o "\"id\":\"$1\"[^}]*}" | field value; }
serve --models-dir "$dir/models" --models-max 1
same "nothing is loaded before somebody asks" "$(status_of first)" '"unloaded"'
same "a model by its name" "$(named second | field tokens)" "$alone"
same "it is loaded" "$(status_of second)" '"loaded"'
same "another by its own" "$(named first | field tokens)" "$alone"
same "the first had to go" "$(status_of second)" '"unloaded"'
named third | grep -q '"status":500.*third'
ok "a file that is no model says so" $?
same "and the others still answer" "$(named first | field tokens)" "$alone"
same "no such model" "$(named fourth | field status)" 404
same "a broken file is not the default" "$(ask /completion '{"prompt":"one two","return_tokens":true}' | field tokens)" "$alone"
mkdir -p "$dir/models/sub/deep"
"$ft" synth micro-mmproj f16 "$dir/models/sub/mmproj-F16.gguf" -q
cp "$model" "$dir/models/sub/parted-00001-of-00002.gguf"
cp "$model" "$dir/models/sub/parted-00002-of-00002.gguf"
curl -s "$url/models?reload=1" >"$dir/listed"
same "parts and vision towers are no models" "$(grep -o '"id":"[a-z0-9F-]*"' "$dir/listed" | tr -d '\n')" \
    '"id":"first""id":"second""id":"third""id":"parted"'
rm "$dir/models/sub/mmproj-F16.gguf" "$dir"/models/sub/parted*
cp "$model" "$dir/models/sub/deep/late.gguf"
sleep 1.1
same "a new file in a subfolder is noticed" "$(named late | field tokens)" "$alone"
same "with other spellings of its name" "$(named late.gguf | field tokens)" "$alone"
rm "$dir/models/sub/deep/late.gguf"
curl -s "$url/models?reload=1" | grep -q '"id":"late"'
same "and is not listed when it was removed" $? 1
stop
same "several models end well" $? 0
mkdir -p "$dir/store/me--mine"
cp "$model" "$dir/store/me--mine/mine-Q8_0.gguf"
FT_MODELS=$dir/store serve
same "without -m, the models of the store" "$(named mine-Q8_0 | field tokens)" "$alone"
same "which are listed" "$(status_of mine-Q8_0)" '"loaded"'
stop
cat >"$dir/preset.ini" <<INI
; options of all
[*]
n-predict = 5
[short]
model = $dir/models/first.gguf
[shorter]
model = $dir/models/second.gguf
n-predict = 2
cache-prompt = false
INI
serve --models-preset "$dir/preset.ini" --sleep-idle-seconds 1
same "a preset's option for all" "$(named short | field tokens_predicted)" 5
same "and for one" "$(named shorter | field tokens_predicted)" 2
for _ in $(seq 100); do
    [ "$(status_of short)" = '"unloaded"' ] && break
    sleep 0.1
done
same "a model that nobody asks sleeps" "$(status_of short)" '"unloaded"'
same "and wakes" "$(named short | field tokens_predicted)" 5
cat >"$dir/preset.ini" <<INI
[shorter]
model = $dir/models/second.gguf
[added]
model = $dir/models/first.gguf
n-predict = 3
INI
same "a preset is read again" "$(curl -s "$url/models?reload=1" | grep -o '"id":"[a-z]*"' | tr -d '\n')" '"id":"shorter""id":"added"'
same "a new section can be used" "$(named added | field tokens_predicted)" 3
same "one that was removed cannot" "$(named short | field status)" 404
stop
serve -m "$dir/models/first.gguf" -m "$dir/models/second.gguf" --verbose --n_predict 2
same "two -m: the first is there" "$(status_of first)" '"loaded"'
same "the second when it is asked, and an option with underscores" "$(named second | field tokens_predicted)" 2
same "--verbose adds the native object" "$(ask /v1/completions '{"model":"first","prompt":"one two"}' | grep -c '"__verbose":{')" 1
stop
fails "two models of one name" "two models are called first" "$ft" serve -m "$dir/models/first.gguf" -m "$dir/models/first.gguf" --port 0 -q
mkdir "$dir/none"
fails "an empty folder of models" "no .gguf" "$ft" serve --models-dir "$dir/none" --port 0 -q
echo "port" >"$dir/preset.ini"
fails "a preset that is none" "line 1 of the preset" "$ft" serve --models-preset "$dir/preset.ini" --port 0 -q

# TLS: a real handshake, a reply and a stream
if command -v openssl >/dev/null && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>/dev/null; then
    start --ssl-key-file "$dir/key.pem" --ssl-cert-file "$dir/cert.pem"
    same "TLS: it says so" "${url%%:*}" https
    tls() { curl -s -m 60 --cacert "$dir/cert.pem" "$url$1" "${@:2}"; }
    same "a certificate that is verified" "$(tls /health)" '{"status":"ok"}'
    same "a reply behind it" "$(tls /completion -d "$body" | field tokens)" "$alone"
    tls /v1/chat/completions -N -d '{"stream":true,"messages":[{"role":"user","content":"x"}]}' | tail -n 2 | grep -q '^data: \[DONE\]'
    ok "a stream behind it" $?
    openssl s_client -connect "${url#https://}" -CAfile "$dir/cert.pem" -verify_return_error </dev/null 2>/dev/null | grep -q 'TLSv1\.[23]'
    ok "the version of the protocol" $?
    curl -s -m 5 -o /dev/null "$url/health"
    same "a certificate that nobody vouches for" $? 60
    curl -s -m 5 -o /dev/null "http://${url#https://}/health"
    [ $? -ne 0 ]
    ok "no plain HTTP there" $?
    stop
    same "TLS ends well" $? 0
else
    echo "no openssl: TLS is not tested"
fi
fails "a key without its certificate" "want both" "$ft" serve -m "$model" --ssl-key-file "$dir/key.pem" --port 0 -q
fails "--context-shift is refused" "larger --ctx-size" "$ft" serve -m "$model" --context-shift
fails "a tower that is not there" "nowhere.gguf" "$ft" serve -m "$model" --mmproj nowhere.gguf --port 0 -q
fails "a port that is none" "port" "$ft" serve -m "$model" --port 99999
fails "a model that is not there" "nowhere.gguf" "$ft" serve -m nowhere.gguf --port 0 -q
fails "a key file without keys" "no key" "$ft" serve -m "$model" --api-key-file /dev/null --port 0 -q
finish

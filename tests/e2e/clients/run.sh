#!/usr/bin/env bash
# The official clients from npm against the server: over the scripted model, where every word is known,
# and over foretoken-tiny. Fetched once into $BUILD/e2e-clients (this needs the network).
set -eu
cd "$(dirname "$0")/../../.."
build=${BUILD:-build}
folder=$build/e2e-clients
mkdir -p "$folder"
[ -d "$folder/node_modules/ollama" ] ||
    npm install --silent --no-audit --no-fund --prefix "$folder" openai@6 @anthropic-ai/sdk@1 ollama@0 ai@6 \
        @ai-sdk/openai-compatible@2 zod@4 >/dev/null
cp tests/e2e/clients/*.mjs "$folder"
scripted=$((20000 + $$ % 10000)) real=$((30000 + $$ % 10000)) seeing=$((40000 + $$ % 10000))
managed=$((50000 + $$ % 10000)) hub=$((10000 + $$ % 10000))
mkdir -p "$folder/seeing"
"$build/foretoken" synth micro q8_0 "$folder/seeing/model.gguf" -q
"$build/foretoken" synth micro-mmproj f16 "$folder/seeing/mmproj.gguf" -q
# a host with one repository, from which the managed server downloads
rm -rf "$folder/hub" "$folder/store"
mkdir -p "$folder/hub/api/models/me/mine/tree" "$folder/hub/me/mine/resolve/main"
cp "$folder/seeing/model.gguf" "$folder/hub/me/mine/resolve/main/mine-Q8_0.gguf"
bytes=$(stat -c %s "$folder/seeing/model.gguf")
sum=$(sha256sum "$folder/seeing/model.gguf" | cut -d' ' -f1)
echo '[{"type": "file", "path": "mine-Q8_0.gguf", "size": '"$bytes"', "lfs": {"oid": "'"$sum"'", "size": '"$bytes"'}}]' \
    >"$folder/hub/api/models/me/mine/tree/main"
node "$folder/hub.mjs" "$folder/hub" "$hub" &
host=$!
mkfifo "$folder/hold.$$"
"$build/tests/serve_scripted" "$scripted" <"$folder/hold.$$" >/dev/null &
exec 9>"$folder/hold.$$"
rm "$folder/hold.$$"
"$build/foretoken" serve -q --port "$real" --temp 0 -c 4096 &
server=$!
"$build/foretoken" serve -q --port "$seeing" --temp 0 -c 1024 -m "$folder/seeing/model.gguf" &
eye=$!
FT_MODELS=$folder/store HF_ENDPOINT=http://127.0.0.1:$hub \
    "$build/foretoken" serve -q --port "$managed" --temp 0 -c 1024 --manage-models &
manager=$!
trap 'exec 9>&-; kill $server $eye $manager $host 2>/dev/null; wait' EXIT
for port in $scripted $real $seeing $managed; do
    for _ in $(seq 200); do
        if curl -sf "localhost:$port/health" >/dev/null; then break; fi
        sleep 0.1
    done
done
node "$folder/clients.mjs" "http://127.0.0.1:$scripted" "http://127.0.0.1:$real" "http://127.0.0.1:$seeing" \
    "http://127.0.0.1:$managed" tests/golden-vision/qwen35-vision/image0.png

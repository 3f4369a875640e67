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
mkdir -p "$folder/seeing"
"$build/foretoken" synth micro q8_0 "$folder/seeing/model.gguf" -q
"$build/foretoken" synth micro-mmproj f16 "$folder/seeing/mmproj.gguf" -q
mkfifo "$folder/hold.$$"
"$build/tests/serve_scripted" "$scripted" <"$folder/hold.$$" >/dev/null &
exec 9>"$folder/hold.$$"
rm "$folder/hold.$$"
"$build/foretoken" serve -q --port "$real" --temp 0 -c 4096 &
server=$!
"$build/foretoken" serve -q --port "$seeing" --temp 0 -c 1024 -m "$folder/seeing/model.gguf" &
eye=$!
trap 'exec 9>&-; kill $server $eye 2>/dev/null; wait' EXIT
for port in $scripted $real $seeing; do
    for _ in $(seq 200); do
        if curl -sf "localhost:$port/health" >/dev/null; then break; fi
        sleep 0.1
    done
done
node "$folder/clients.mjs" "http://127.0.0.1:$scripted" "http://127.0.0.1:$real" "http://127.0.0.1:$seeing" \
    tests/golden-vision/qwen35-vision/image0.png

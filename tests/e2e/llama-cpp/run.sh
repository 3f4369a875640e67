#!/usr/bin/env bash
# Runs llama.cpp's own server tests against foretoken: run.sh CHECKOUT [pytest options]. CHECKOUT (or
# LLAMA=CHECKOUT; without either nothing is run) is a clone of llama.cpp; nothing in it is built or
# changed. Needs python3 with pytest and requests; openai is replaced by shim/ where it is missing.
# expectations.txt lists the tests that do not pass, and why; exit status 1 if one fails that is not in
# the list.
# FT_SUITE_ALL=1 also runs the tests of missing features; FT_SUITE_WORDS=any accepts any words where a
# test looks for those of its own model, to see what else it checks.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
checkout=${1:-${LLAMA:-}}
if [ -z "$checkout" ]; then
    echo "e2e/llama-cpp: not run; set LLAMA to a checkout of llama.cpp"
    exit
fi
[ $# -eq 0 ] || shift
checkout=$(cd "$checkout" && pwd)
build=${BUILD:-$root/build}
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import pytest, requests' || {
    echo "run.sh: python3 needs pytest and requests (Debian: python3-pytest python3-requests)" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/models/seeing" "$work/modules" "$work/tree/tools/server" "$work/tree/tools/mtmd"
cp -r "$checkout/tools/server/tests" "$work/tree/tools/server"
ln -s "$checkout/models" "$work/tree/models"
cp "$checkout/tools/mtmd/test-1.jpeg" "$work/tree/tools/mtmd" # no link: --media-path refuses them
tests=$work/tree/tools/server/tests
mkdir -p "$tests/tmp"
cp "$root/models/foretoken-tiny.gguf" "$work/models/model.gguf"
"$build/foretoken" quantize "$work/models/model.gguf" "$work/models/draft.gguf" q4_0 \
    --allow-requantize >/dev/null
"$build/foretoken" synth --adapter "$work/models/model.gguf" f16 "$work/models/adapter.gguf" -q
"$python" "$here/ranker.py" "$work/models/model.gguf" "$work/models/ranker.gguf"
"$build/foretoken" synth micro q8_0 "$work/models/seeing/model.gguf" -q
"$build/foretoken" synth micro-mmproj f16 "$work/models/seeing/mmproj.gguf" -q
for name in ggml-org/tinygemma3-GGUF:Q8_0 ggml-org/test-model-stories260K:F32 \
    ggml-org/test-model-stories260K-infill:F32; do
    printf '[%s]\nmodel = %s\n' "$name" "$work/models/seeing/model.gguf"
done >"$work/models/router.ini"
"$python" -c 'import openai' 2>/dev/null || cp "$here/shim/openai.py" "$work/modules"
"$python" -c 'import wget' 2>/dev/null || : >"$work/modules/wget.py"
export FT_SUITE_BIN=$build/foretoken FT_SUITE_MODELS=$work/models FT_MODELS=$work/store
cp "$checkout/tools/mtmd/test-1.jpeg" "$work/models/truck.jpeg"
cp "$root/tests/golden-vision/qwen35-vision/image0.png" "$work/models/cat.png"
export LLAMA_SERVER_BIN_PATH=$here/llama-server PORT=${PORT:-$((21000 + $$ % 9000))}
export PYTHONPATH=$here:$work/modules:$tests PYTHONDONTWRITEBYTECODE=1
cd "$tests"
"$python" -m pytest -p foretoken_suite -p no:cacheprovider -q --tb=short -m "not slow" "$@"

#!/usr/bin/env bash
# The web page in a real browser, against a real server with the embedded model. Needs chromium (or
# CHROMIUM=path), node and a network for npm. Screenshots go to $BUILD/e2e/web. With names as arguments
# only the tests whose names contain one of them run; with --pictures the pictures of README.md are made.
set -euo pipefail
cd "$(dirname "$0")/../../.."
export BUILD=${BUILD:-build}
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [ -z "$chromium" ]; then
    echo "e2e/web: no chromium found; install it or set CHROMIUM" >&2
    exit 1
fi
make --no-print-directory "BUILD=$BUILD" "$BUILD/foretoken"
folder=$BUILD/e2e/web
mkdir -p "$folder"
rm -f "$folder"/*.png
cp tests/e2e/web/package.json tests/e2e/web/*.mjs "$folder/"
(cd "$folder" && npm install --no-audit --no-fund --loglevel=error)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null; wait "${servers[@]}" 2>/dev/null || true' EXIT
start() { # log options: sets address
    "$BUILD/foretoken" serve --port 0 "${@:2}" >"$1" 2>&1 &
    servers+=($!)
    for _ in $(seq 300); do
        address=$(sed -n 's/.*ready at \(http[^ ]*\).*/\1/p' "$1")
        [ -n "$address" ] && return
        sleep 0.1
    done
    cat "$1" >&2
    exit 1
}
mkdir -p "$folder/seeing"
"$BUILD/foretoken" synth micro q8_0 "$folder/seeing/model.gguf" -q
"$BUILD/foretoken" synth micro-mmproj f16 "$folder/seeing/mmproj.gguf" -q
start "$folder/seeing.log" -m "$folder/seeing/model.gguf" -n 16 --temp 0
export SEEING_ADDRESS=$address
start "$folder/serve.log" --spec-adapt off # the figures have an acceptance rate, however loaded the machine
if [ "${1:-}" = --pictures ]; then
    node "$folder/pictures.mjs" "$address" "$chromium" docs/img
    exit
fi
node "$folder/run.mjs" "$address" "$chromium" "$folder" "$@"

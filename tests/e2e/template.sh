#!/usr/bin/env bash
# Renders conversations with every template of a folder and compares with @huggingface/jinja, which
# is fetched once into $BUILD/e2e-template (this needs the network; make check replays recorded
# outputs instead). The templates of others are not in this tree: give a folder of *.jinja files.
# usage: template.sh FOLDER    or TEMPLATES=FOLDER template.sh
set -eu
templates=$(realpath "${1:-${TEMPLATES:?give a folder of templates, or set TEMPLATES}}")
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
folder=$build/e2e-template
make --no-print-directory "BUILD=$build" "$build/foretoken"
mkdir -p "$folder"
[ -d "$folder/node_modules/@huggingface/jinja" ] ||
    npm install --silent --no-audit --no-fund --prefix "$folder" @huggingface/jinja@0.5 >/dev/null
node tests/e2e/template.mjs "$folder" "$build" "$templates"

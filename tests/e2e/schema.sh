#!/usr/bin/env bash
# Samples every schema case and validates with ajv, which is fetched once into $BUILD/e2e-schema (this
# needs the network; make check has its own checks that do not). usage: schema.sh [documents per case]
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
folder=$build/e2e-schema
make --no-print-directory "BUILD=$build" "$build/tests/schema_sample"
mkdir -p "$folder"
[ -d "$folder/node_modules/ajv-formats" ] ||
    npm install --silent --no-audit --no-fund --prefix "$folder" ajv@8 ajv-formats@3 >/dev/null
node tests/e2e/schema.mjs "$folder" "$build" "${1:-1000}"

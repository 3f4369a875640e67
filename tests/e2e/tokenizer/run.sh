#!/usr/bin/env bash
# Compares foretoken's ids with those of Hugging Face's tokenizers on real vocabularies. Needs node,
# npm and a network; the packages go to $BUILD/e2e. `run.sh record` writes the expected ids of the
# small vocabularies in tests/data/tokenizer, which `make check` compares without a network.
set -euo pipefail
cd "$(dirname "$0")/../../.."
export BUILD=${BUILD:-build}
make --no-print-directory "BUILD=$BUILD" "$BUILD/foretoken" "$BUILD/tests/mkvocab"
mkdir -p "$BUILD/e2e"
cp tests/e2e/tokenizer/package.json "$BUILD/e2e/"
(cd "$BUILD/e2e" && npm install --no-audit --no-fund --loglevel=error)
exec node --max-old-space-size=4096 tests/e2e/tokenizer/compare.mjs "$@"

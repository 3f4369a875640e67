#!/usr/bin/env bash
# The pure functions of the web page, under node where it is installed.
cd "$(dirname "$0")/../.." || exit 1
if ! command -v node >/dev/null; then
    echo "no node: the functions of the web page are not tested"
    exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/tests"
cp -r web "$dir/"
cp -r tests/web "$dir/tests/"
echo '{"type": "module"}' >"$dir/package.json" # older versions of node do not find out by themselves
node "$dir/tests/web/run.mjs"

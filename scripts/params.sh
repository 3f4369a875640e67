#!/usr/bin/env bash
# Writes what is generated from the parameter table (src/base/request.def) into the files that show
# it: the fields of ft_sampling in include/foretoken.h and the field table of docs/api.md. The text
# goes between the lines "begin: generated from src/base/request.def" and "end: generated".
# With --check nothing is written, and files that are out of date are an error.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-cc}" -std=c11 -Isrc -Iinclude scripts/params.c -o "$work/params"
stale=0
put() { # block, file
    "$work/params" "$1" >"$work/block"
    awk -v block="$work/block" '
        /begin: generated from src\/base\/request.def/ {
            print; while ((getline line < block) > 0) print line; skip = 1; found = 1 }
        /end: generated/ { skip = 0 }
        !skip
        skip && /begin: generated/ { next }
        END { exit !found }' "$2" >"$work/new" || { echo "$2 has no place for generated text"; exit 1; }
    cmp -s "$work/new" "$2" && return
    if [ "${check:-}" ]; then
        echo "$2 is out of date: run scripts/params.sh"
        diff -u "$2" "$work/new" | sed -n 1,12p || true
        stale=1
    else
        cat "$work/new" >"$2"
        echo "$2 is written"
    fi
}
[ "${1:-}" = --check ] && check=1
put header include/foretoken.h
put api docs/api.md
exit $stale

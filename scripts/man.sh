#!/usr/bin/env bash
# Writes the manual pages into a folder: what a page says is in man/, the options come from the
# program's own --help-list, so that a page cannot name an option that does not exist.
set -euo pipefail
bin=$1 out=$2
cd "$(dirname "$0")/.."
mkdir -p "$out"
version=$("$bin" --version | sed -n '1s/^foretoken \([^ ]*\).*/\1/p')

roff() { # plain text to roff
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"
}

options() { # of the program $1: a section for each group, an entry for each option
    "$bin" "$1" --help-list | roff | awk -F '\t' '
        $3 != group { group = $3; printf ".SS %s\n", group }
        { gsub(/ /, ", ", $1)
          printf ".TP\n.B %s%s\n%s\n", $1, $2 == "" ? "" : " " $2, $4 }'
}

page() { # name of the page, program or ""
    local body=man/$1.man title
    title=$(tr '[:lower:]' '[:upper:]' <<<"$1")
    printf '.TH %s 1 "" "foretoken %s" "foretoken manual"\n' "$(roff <<<"$title")" "$version"
    if [ -z "$2" ]; then
        cat "$body"
        return
    fi
    "$bin" "$2" --help | head -n 3 | roff | sed -n \
        -e '1s/^foretoken \([a-z]*\) \\- \(.*\)/.SH NAME\nforetoken\\-\1 \\- \2/p' \
        -e '3s/^usage: foretoken \([a-z]*\) \?\(.*\)/.SH SYNOPSIS\n.B foretoken \1\n\2/p'
    if [ -f "$body" ]; then sed '/^\.SH EXAMPLES/,$d' "$body"; fi
    echo ".SH OPTIONS"
    options "$2"
    if [ -f "$body" ]; then sed -n '/^\.SH EXAMPLES/,$p' "$body"; fi
    printf '.SH SEE ALSO\n.BR foretoken (1)\n'
}

page foretoken "" >"$out/foretoken.1"
for p in $("$bin" --help | awk '/^  [a-z]/ { print $1 }'); do page "foretoken-$p" "$p" >"$out/foretoken-$p.1"; done

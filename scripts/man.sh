#!/usr/bin/env bash
# Writes the manual pages into a folder: the text of a page is in man/, the options come from --help
# of the program, so that a page cannot list an option that does not exist.
set -euo pipefail
bin=$1 out=$2
cd "$(dirname "$0")/.."
mkdir -p "$out"
version=$("$bin" --version | sed -n '1s/^foretoken \([^ ]*\).*/\1/p')

roff() { # plain text to roff
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"
}

options() { # of the program $1; a left side that is too long has its help on the next line
    "$bin" "$1" --help | awk '
        /^  -/ { line = substr($0, 3); at = match(line, /  +/)
                 if (at) { print line_of(substr(line, 1, at - 1)); print substr(line, at + RLENGTH) }
                 else { print line_of(line); getline; sub(/^ +/, ""); print } }
        function line_of(s) { gsub(/ -/, ", -", s); return s }' |
        while IFS= read -r left && IFS= read -r help; do
            printf '.TP\n.B %s\n%s\n' "$(roff <<<"$left")" "$(roff <<<"$help")"
        done
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

#!/usr/bin/env bash
# docs/: generated files are current, records are complete, links lead somewhere, lines fit in 100
# columns.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
shopt -s extglob
page=${BUILD:-build}/bench/page

mkdir "$dir/out"
works "bench.md is generated" "$page" docs/bench "$dir/out"
same "bench.md is current: run make docs" "$(cmp docs/bench.md "$dir/out/bench.md" 2>&1)" ""
for svg in "$dir"/out/img/*.svg; do
    same "$(basename "$svg") is current: run make docs" \
        "$(cmp "docs/img/$(basename "$svg")" "$svg" 2>&1)" ""
done
same "no chart without a record" \
    "$(comm -23 <(ls docs/img | grep '^bench-') <(ls "$dir/out/img"))" ""
grep -q '<rect class=.c1' "$dir/out/img/bench-10-decode.svg"
ok "a chart has bars" $?

# records that lack something
mkdir "$dir/rec"
cp docs/bench/intro.md "$dir/rec"
good='"machine": "m", "commit": "c", "date": "2026-01-02", "command": "x", "section": "s", "title": "t", "columns": ["a", "b"], "rows": [["x", 1]]'
record() { # name pattern text
    printf '%s\n' "$3" >"$dir/rec/10-x.json"
    rm -rf "$dir/out"
    mkdir "$dir/out"
    fails "$1" "$2" "$page" "$dir/rec" "$dir/out"
}
for key in machine commit date command section title; do
    record "a record without $key" "no text for \"$key\"" "{${good/\"$key\": \"*([^\"])\", /}}"
done
record "a date that is none" 'want YYYY-MM-DD' "{${good/2026-01-02/yesterday}}"
record "a row with too few cells" 'row 0 has 1 cells, want 2' "{${good/, 1\]/]}}"
record "a chart of a column that is not there" 'no column' \
    "{$good, \"chart\": {\"title\": \"t\", \"unit\": \"u\", \"group\": \"a\", \"series\": [\"q\"]}}"
record "no JSON" 'is no JSON' "{$good"
printf '{%s}\n' "$good" >"$dir/rec/10-x.json"
works "a complete record" "$page" "$dir/rec" "$dir/out"

# what foretoken bench prints is a record
"$ft" bench -m "$model" -p 16 -n 4 -r 1 --json >"$dir/rec/20-bench.json"
works "bench --json is a record" "$page" "$dir/rec" "$dir/out"
same "and becomes a row" "$(grep -c "^|.* %.*| $(date -u +%Y)-" "$dir/out/bench.md")" 1

mkdir "$dir/prompts"
for class in chinese code dialogue prose repetition; do echo "a b c" >"$dir/prompts/$class.txt"; done
"$ft" bench --spec -m "$model" -n 4 --spec-draft-n-max 1 --prompts "$dir/prompts" --json >"$dir/rec/30-spec.json"
works "bench --spec --json is a record" "$page" "$dir/rec" "$dir/out"
same "and becomes a row for each class" "$(grep -cE '^\|.*\| (chinese|code|dialogue|prose|repetition) \|' "$dir/out/bench.md")" 5

# pages
pages=$(git ls-files README.md CHANGELOG.md CONTRIBUTING.md 'docs/*.md' 'models/*.md' 'bench/*.md' 'tests/*.md' |
    grep -v docs/bench/intro.md) # its links are those of bench.md
same "lines of text have at most 100 columns" \
    "$(for f in $pages; do grep -nE '^.{101}' "$f" | grep -vE '^[0-9]+:(\||    |!\[|<)' | sed "s|^|$f:|"; done | cut -c1-80)" ""
same "lines of code have at most 120 columns" \
    "$(grep -nE '^    .{117}' $pages | cut -c1-80)" ""
same "links lead to files" "$(for f in $pages; do
    grep -oE '\]\([^)#:]+[)#]' "$f" | sed 's/^](//; s/[)#]$//' | sort -u | while read -r to; do
        [ -e "$(dirname "$f")/$to" ] || echo "$f: $to"
    done
done)" ""
# `engine/queue.c` means src/engine/queue.c, `queue.c` any file of that name; docs/log is history
git ls-files >"$dir/files"
same "source files that are named exist" "$(for f in $(grep -vE '^(docs/log/|CHANGELOG)' <<<"$pages"); do
    grep -oE '`[a-z0-9_./-]+\.(c|h|cu|cuh|def|sh|py|mjs)`' "$f" | tr -d '\`' | sort -u | while read -r name; do
        grep -qE "(^|/)${name//./\\.}\$" "$dir/files" || echo "$f: $name"
    done
done)" ""
# command lines: the program exists and has the options; what follows a comment sign is prose
options() { # program: a line for each name of an option
    [ -s "$dir/options.$1" ] || "$ft" "$1" --help-list 2>/dev/null | cut -f1 | tr ' ' '\n' >"$dir/options.$1"
    cat "$dir/options.$1"
}
same "options of command lines exist" "$(for f in $(grep -vE '^(docs/log/|CHANGELOG)' <<<"$pages") docs/bench/intro.md; do
    grep -hE '^    ([^#"]*[|;] *|[A-Z_]+=[^ ]+ )*(build/)?foretoken [a-z]+ ' "$f" | sed -E 's/ # .*//; s/.*foretoken ([a-z]+ )/\1/; s/[|;>].*//' |
        while read -r program words; do
            known=$(options "$program")
            [ -n "$known" ] || echo "$f: foretoken $program"
            for word in $(sed -E "s/\"[^\"]*\"|'[^']*'//g" <<<"$words"); do
                [[ $word =~ ^-[-a-z]+ ]] || continue
                grep -qx -- "${word%%=*}" <<<"$known" || [[ $word == --no-* ]] || echo "$f: foretoken $program $word"
            done
        done
done)" ""
same "anchors lead to headings" "$(for f in $pages; do
    grep -oE '\]\([^):]*#[^)]+\)' "$f" | sed 's/^](//; s/)$//' | sort -u | while IFS='#' read -r to anchor; do
        target=$f
        [ -n "$to" ] && target=$(dirname "$f")/$to
        sed -n 's/^##* //p' "$target" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g' |
            grep -qx -- "$anchor" || echo "$f: $to#$anchor"
    done
done)" ""
finish

#!/usr/bin/env bash
# web.sh OUT [ROOT]: lists what src/serve/ui.c embeds, as OUT/files.inc. That is every file of web/
# and, where Debian's packages have them below ROOT (default: the system), the JavaScript libraries
# that the page can use, compressed with gzip. OUT/libs.js tells the page which were found.
# Rewrites nothing when the inputs are the same as last time.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
share=${2:-}/usr/share

# name of the served file, then where it may be; the first place that has it is taken
libraries=(
    "markdown-it.js javascript/markdown-it/markdown-it.min.js javascript/markdown-it/markdown-it.js"
    "purify.js nodejs/dompurify/dist/purify.min.js nodejs/dompurify/dist/purify.js"
    "highlight.js javascript/highlight.js/highlight.min.js javascript/highlight.js/highlight.js"
    "katex.js javascript/katex/katex.min.js javascript/katex/katex.js"
    "katex.css javascript/katex/katex.min.css javascript/katex/katex.css"
    "pdf.js javascript/pdf/build/pdf.min.js javascript/pdf/build/pdf.js"
    "pdf.worker.js javascript/pdf/build/pdf.worker.min.js javascript/pdf/build/pdf.worker.js"
)

names=() sources=()
for row in "${libraries[@]}"; do
    read -r name places <<<"$row"
    for place in $places; do
        [ -r "$share/$place" ] || continue
        names+=("$name")
        sources+=("$share/$place")
        break
    done
done
fonts=()
if [ -r "$share/javascript/katex/katex.css" ]; then
    for font in "$share"/fonts/truetype/katex/*.woff2; do
        [ -r "$font" ] && fonts+=("$font")
    done
fi

mkdir -p "$out"
inputs=$(stat -L -c '%n %s %Y' scripts/web.sh "${sources[@]}" "${fonts[@]}"; echo web/*)
[ -f "$out/files.inc" ] && [ "$inputs" = "$(cat "$out/inputs" 2>/dev/null)" ] && exit 0

type_of() {
    case $1 in
    *.html) echo "text/html; charset=utf-8" ;;
    *.css) echo "text/css; charset=utf-8" ;;
    *.js) echo "text/javascript; charset=utf-8" ;;
    *.woff2) echo "font/woff2" ;;
    esac
}
rows=()
row() { # name path compressed
    rows+=("WEB_FILE(${#rows[@]}, \"$1\", \"$(type_of "$1")\", \"$2\", $3)")
}

for file in web/*; do row "${file#web/}" "$file" false; done
for i in "${!names[@]}"; do
    name=${names[$i]}
    # the fonts are served from the same folder, and every browser of today reads WOFF2
    if [ "$name" = katex.css ]; then
        sed -E 's#url\(fonts/([^)]*\.woff2)\)#url(\1)#g; s#, ?url\(fonts/[^)]*\) ?format\(.?(woff|truetype).?\)##g' "${sources[$i]}"
    else
        grep -v '^//# sourceMappingURL=' "${sources[$i]}"
    fi | gzip -9n >"$out/$name.gz"
    row "$name" "$out/$name.gz" true
done
for font in "${fonts[@]}"; do row "${font##*/}" "$font" false; done
{
    echo '/* Libraries that this build of the server has; written by scripts/web.sh. */'
    printf 'export const FOUND = ['
    [ ${#names[@]} -eq 0 ] || printf "'%s', " "${names[@]}"
    echo '];'
} >"$out/libs.js"
row libs.js "$out/libs.js" false

printf '%s\n' "${rows[@]}" >"$out/files.inc"
echo "$inputs" >"$out/inputs"

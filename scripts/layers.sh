#!/usr/bin/env bash
# Checks the structure of src/:
#   - includes between modules follow the table below;
#   - a type name that other files can see (ft_...) is defined once;
#   - foretoken.h and base/status.h define the same status codes;
#   - only the programs (cli/ and serve/) print.
# layers.sh [--table] [ROOT]     --table prints the table and checks nothing
set -u
here=$(cd "$(dirname "$0")/.." && pwd)

# A module, and the modules it may include besides itself. "api" is src/api (and src/*.[ch]);
# "foretoken.h" is the public header.
table='base:
quant:  base
gguf:   base
image:  base
tools:  quant gguf base
text:   gguf base
dev:    quant base
kv:     dev base
model:  kv dev gguf quant image base
engine: model kv dev base
api:    foretoken.h text engine model kv dev gguf image base
report: foretoken.h base
serve:  foretoken.h report base
cli:    foretoken.h serve report tools base'

if [ "${1:-}" = --table ]; then
    echo "$table"
    exit 0
fi
cd "${1:-$here}" || exit 1

# Prints FILE:LINE: MODULE for every include of a project file. A name without a folder is a file
# beside the including one, else one of src/ (the API) or include/.
includes() {
    grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' src \
        --include='*.c' --include='*.h' --include='*.cu' --include='*.cuh' --include='*.S' |
        while IFS=: read -r file line text; do
            name=${text#*[\"<]} name=${name%%[\">]*} target=
            if [ -e "${file%/*}/$name" ]; then
                target=$(realpath -m --relative-to=src "${file%/*}/$name")
            elif [ -e "src/$name" ]; then
                target=$name
            elif [ -e "include/$name" ]; then
                target=include/foretoken.h
            elif [[ $text == *\"* ]]; then
                target=missing/$name
            fi
            [ -n "$target" ] && echo "$file:$line:$target:$name"
        done
}

# Prints NAME FILE for every definition of a type that other files can see.
types() {
    find src include -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) ! -path src/base/status.h |
        sort | xargs sed -nE '
            s/^(typedef )?(struct|union|enum) (ft_[a-z0-9_]+) \{.*/\3/p; t out
            s/^\} (ft_[a-z0-9_]+);.*/\1/p; t out
            /^typedef (struct|union|enum) (ft_[a-z0-9_]+) \2;/d
            s/^typedef [^({]*[ *](ft_[a-z0-9_]+)(\[.*|;.*|\(.*)/\1/p; t out
            s/^typedef [^({]*\(\*(ft_[a-z0-9_]+)\)\(.*/\1/p; t out
            d
            :out
            F' | paste - - | sort -u
}

bad=$(
    includes | awk -F: -v table="$table" '
        function module(path) { return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : "api" }
        BEGIN {
            n = split(table, row, "\n")
            for (i = 1; i <= n; i++) {
                colon = index(row[i], ":")
                name = substr(row[i], 1, colon - 1)
                known[name] = 1
                allowed[name] = " " substr(row[i], colon + 1) " "
            }
        }
        {
            from = module(substr($1, 5))
            to = $3 == "include/foretoken.h" ? "foretoken.h" : module($3)
            if (!(from in known)) {
                if (!said[from]++) print "layers: src/" from "/ has no row in the table of scripts/layers.sh"
            } else if ($4 == "files.inc" || $4 ~ /[.]spv[.]h$/) { # made by scripts/web.sh and glslang
            } else if (to == "missing")
                print "layers: " $1 ":" $2 ": \"" $4 "\" is no file of src/ or include/"
            else if (to != from && index(allowed[from], " " to " ") == 0)
                print "layers: " $1 ":" $2 ": " from " may not include " to (to == "foretoken.h" ? "" : "/")
        }'
    types | awk '
        { file[$1] = file[$1] " " $2; count[$1]++ }
        END { for (name in count) if (count[name] > 1) print "layers: type " name " is defined more than once:" file[name] }' |
        sort
    grep -rnE '\b(stdout|stderr|STDOUT_FILENO|STDERR_FILENO)\b|\b(perror|puts|putchar|printf|vprintf) *\(' src |
        grep -vE '^src/(cli|serve)/' | sed -E 's/^([^:]*:[0-9]*):.*/layers: \1: only cli\/ and serve\/ print/'
    status() { sed -n '/^#define FT_STATUS_DEFINED/,/^#endif/p' "$1"; }
    [ -n "$(status src/base/status.h)" ] && [ "$(status include/foretoken.h)" = "$(status src/base/status.h)" ] ||
        echo "layers: the status codes of include/foretoken.h and src/base/status.h differ"
)
[ -z "$bad" ] && exit 0
echo "$bad"
exit 1

#!/usr/bin/env bash
# Prints the linker's version script for the shared library: the functions that a header declares
# are exported under a version name, nothing else is.
# exports.sh HEADER VERSION_NAME     CC is the compiler whose preprocessor is used
set -euo pipefail
header=$1 name=$2
functions=$(${CC:-cc} -E -P "$header" | grep -oE '\bft_[a-z0-9_]+\(' | tr -d '(' | sort -u)
echo "$name {"
echo "global:"
while read -r f; do echo "    $f;"; done <<<"$functions"
echo "local:"
echo "    *;"
echo "};"

#!/usr/bin/env bash
# Includes point one way between the rooms of src/; this says which, and fails on any other.
set -u
cd "$(dirname "$0")/.." || exit 1
allowed() { # the rooms that a room may include
    case $1 in
    base) echo "" ;;
    quant | gguf | image) echo "base" ;;
    tools) echo "quant gguf base" ;;
    text) echo "gguf base" ;;
    dev) echo "quant base" ;;
    kv) echo "dev base" ;;
    model) echo "kv dev gguf quant image base" ;;
    engine) echo "model kv dev base" ;;
    serve) echo "base" ;;
    cli) echo "serve tools base" ;;
    api) echo "text engine model kv dev gguf image base" ;;
    *) echo "?" ;;
    esac
}
bad=0
while IFS=: read -r file line text; do
    room=${file#src/}
    room=${room%%/*}
    target=$(sed -n 's/.*#include "\([a-z_]*\)\/.*/\1/p' <<<"$text")
    [ -z "$target" ] || [ "$target" = "$room" ] && continue
    case " $(allowed "$room") " in
    *" $target "*) ;;
    *) echo "layers: $file:$line: $room/ may not include $target/"; bad=1 ;;
    esac
done < <(grep -rn '#include "' src --include='*.[ch]' --include='*.cu' --include='*.cuh')
exit $bad

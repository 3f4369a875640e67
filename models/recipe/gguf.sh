#!/usr/bin/env bash
# Converts and quantises the trained checkpoints.
# usage: gguf.sh FORETOKEN CHECKPOINTS OUT
#   CHECKPOINTS   folder with foretoken-tiny/, gemma4-nano/ and gemma4-nano-assistant/, as train.py and vocabulary.py write them
set -eu
ft=$1 from=$2 out=$3
mkdir -p "$out"
make() { # name, type, options
    "$ft" convert "$from/$1" "$out/$1-bf16.gguf" -q
    "$ft" quantize "$out/$1-bf16.gguf" "$out/$1.gguf" "${@:2}" -q
    rm "$out/$1-bf16.gguf"
}
make foretoken-tiny Q5_K_M
make gemma4-nano Q5_K_M
make gemma4-nano-assistant Q4_K_M --token-embedding-type q5_K

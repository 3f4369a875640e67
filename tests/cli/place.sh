#!/usr/bin/env bash
# Layers and experts on two devices, from the command line: ref stands for a card.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
tiny=models/foretoken-tiny.gguf
run() { "$ft" run -m "$tiny" --temp 0 -n 8 --json --device ref "$@" "How do I use grep?"; }
whole=$(run -ngl all | field ids)
for n in 1 3 8; do
    same "-ngl $n: the same ids" "$(run -ngl "$n" | field ids)" "$whole"
done
says() { run -v "$@" 2>&1 >"$dir/out" | grep -c "$what"; }
what='^ref: layers 6 to 7 and the output, .*; cpu: layers 0 to 5, the embedding$'
same "what lies where is said" "$(says -ngl 3)" 1
what='^ref: the output, .* cpu: layers 0 to 7'
same "--n-gpu-layers 1 is the output" "$(says --n-gpu-layers 1)" 1
what='^cpu: all of the model'
same "-ngl 0 is the processor" "$(says -ngl 0)" 1
what='no experts'
same "a model without experts" "$(says --cpu-moe -ngl 2)" 1
"$ft" run -m "$tiny" -n 1 -ngl 5 hi 2>&1 >"$dir/out" | grep -q 'the device is cpu, which has all layers'
ok "layers of the processor" $?
fails "-ngl that is no number" 'want a number, auto or all' "$ft" run -m "$tiny" -ngl many hi
"$ft" bench -m "$tiny" --device ref -ngl 2 -p 0 -n 2 -r 1 -q | grep -q '^ref: layers 7 to 7 and the output'
ok "bench says it too" $?
finish

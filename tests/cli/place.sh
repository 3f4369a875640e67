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

# several devices: CPU devices compute the same bits, so that the ids must not change
on() { "$ft" run -m "$tiny" --temp 0 -n 24 --json -v "$@" "How do I use grep?" 2>"$dir/err" | field ids; }
place() { grep "^$1" "$dir/err"; }
one=$(on --device cpu)
for d in cpu,cpu CPU,cpu,cpu cpu,cpu,cpu,cpu,cpu; do
    same "--device $d: the same ids" "$(on --device "$d")" "$one"
done
same "and without drafts" "$(on --device cpu,cpu --draft-max 0)" "$one"
on --device cpu,cpu >"$dir/out"
place 'cpu: layers 4 to 7 and the output, .*; cpu: layers 0 to 3, the embedding$' >"$dir/out"
ok "half of the layers each" $?
on --device cpu,cpu,cpu -ts 1,0,3 >"$dir/out"
place 'cpu: no layer, .*; cpu: layers 3 to 7 and the output, .*; cpu: layers 0 to 2, ' >"$dir/out"
ok "shares" $?
on --device ref,ref,cpu -ts 1,1,2 >"$dir/out"
place 'ref: layers 4 to 6, .*; ref: layers 7 to 7 and the output, .*; cpu: layers 0 to 3, ' >"$dir/out"
ok "shares of the CPU are its first layers" $?
all=$(on --device ref,ref)
place 'ref: layers 0 to 3, .*; ref: layers 4 to 7 and the output, [^;]*$' >"$dir/out"
ok "without the CPU" $?
same "a matrix on another device" "$(on --device ref,ref -ot 'ffn_down=CUDA1')" "$all"
same "-sm none is one device" "$(on --device cpu,ref -sm none -mg 0)" "$one"
same "-sm row is layer, with a warning" "$(on --device cpu,cpu -sm row)$(place 'foretoken: warning: --split-mode row is not supported' | wc -l)" "${one}1"
fails "a main GPU that is none" 'main GPU 2 of the devices cpu,cpu, want 0 to 1' "$ft" run -m "$tiny" --device cpu,cpu -sm none -mg 2 hi
fails "too many shares" 'more than 2 shares' "$ft" run -m "$tiny" --device cpu,cpu -ts 1,1,1 hi
fails "shares that are none" '--tensor-split 1,a, want numbers' "$ft" run -m "$tiny" --device cpu,cpu -ts 1,a hi
"$ft" --version | grep -qi cuda ||
    fails "GPUs by llama.cpp's names" 'device "cuda" is not in this build' "$ft" run -m "$tiny" --device CUDA0,CUDA1 hi
fails "a device of the list that is none" 'device "tpu", want cpu, cuda' "$ft" run -m "$tiny" --device cpu,tpu hi
finish

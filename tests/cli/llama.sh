#!/usr/bin/env bash
# Command lines of llama.cpp: one list of options for run, chat, serve and bench, the context length,
# RoPE scaling, tensors by pattern, and keys that replace those of the file.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
tiny=models/foretoken-tiny.gguf
ids() { "$ft" run -m "$tiny" --temp 0 -n 12 --json "$@" "How do I use grep?" 2>"$dir/err" | field ids; }
plain=$(ids)

# a line from a guide, for all programs
line=(-ngl 99 -c 2048 -b 2048 -ub 512 -fa on --jinja --no-warmup --no-perf -t 2 -tb 2 --mlock -ctk f16
    -ctv f16 --temp 0 --top-k 20 --min-p 0 -np 1 --no-mmap --port 0 -sm none --no-webui --verbosity 2)
same "run takes it" "$(ids "${line[@]}")" "$plain"
same "with one line for each option without effect" "$(grep -c '^foretoken: warning: -.* has no effect: ' "$dir/err")" 7
echo hi | "$ft" chat -m "$tiny" -n 2 "${line[@]}" >"$dir/out" 2>"$dir/err"
ok "chat takes it" $?
"$ft" bench -m "$tiny" -p 8 -n 2 -r 1 -q "${line[@]}" >"$dir/out" 2>"$dir/err"
ok "bench takes it" $?
"$ft" serve -m "$tiny" "${line[@]}" --help >"$dir/out" 2>"$dir/err"
ok "serve takes it" $?
fails "an option of no program" 'unknown option --no-such-thing' "$ft" run --no-such-thing
fails "a refused option is refused everywhere" '--control-vector x is not supported' "$ft" bench --control-vector x

# values
says() { grep -c -- "$1" "$dir/err"; }
same "a small batch is rounded up" "$(ids -b 32):$(says '--batch-size 32 is rounded up to 64')" "$plain:1"
same "a long draft is shortened" "$(ids --spec-draft-n-max 16):$(says '16 is outside of 0 to 15, using 15')" "$plain:1"
same "-fa alone" "$(ids -fa --no-mmap)" "$plain"
context() { echo /stats | "$ft" chat -m "$tiny" "$@" 2>/dev/null | sed -n 's/^context *[0-9]* of \([0-9]*\) .*/\1/p'; }
same "-c 0 is the trained context" "$(context -c 0)" 32768
same "no -c is at most 8192" "$(context)" 8192
same "-dev none is the CPU" "$(ids -dev none)" "$plain"
same "the samplers by letters" "$(ids --sampler-seq kt)" "$plain"
fails "letters that are none" 'want letters of edskypmxt' "$ft" run -m "$tiny" --sampler-seq kz hi
devices=$("$ft" run --list-devices)
memory='[0-9]+\.[0-9] GiB, [0-9]+\.[0-9] GiB free'
grep -Eq "^cpu: .+, CPU, $memory, instruction sets [a-zC0-9 ]+\$" <<<"$devices"
ok "--list-devices: $devices" $?
same "a line of each device" "$(grep -Evc "^(cpu|(cuda|vulkan)(:[0-9]+)?): .+, (CPU|.+ GPU|other device), [0-9]" <<<"$devices")" 0
same "instruction sets that are not used" "$(FT_CPU=c "$ft" run --list-devices | sed -n 's/^cpu: .*, instruction sets //p')" "plain C"
same "--version" "$("$ft" serve --version | head -n 1)" "$("$ft" --version | head -n 1)"
same "-st ends chat" "$(printf 'a\nb\n' | "$ft" chat -m "$tiny" -st -n 1 --temp 0 --show-timings 2>&1 | grep -c "tok/s")" 1

# RoPE
same "a scale of 1 changes nothing" "$(ids --rope-scaling linear --rope-scale 1)" "$plain"
same "nor does YaRN with a scale of 1" "$(ids --rope-scaling yarn --rope-scale 1)" "$plain"
logits() { "$ft" run -m "$tiny" --temp 0 -n 1 --json --logprobs 0 "$@" "How do I use grep, and why?" | field logprob; }
[ "$(logits)" = "$(logits --rope-scaling none)" ] && [ "$(logits)" != "$(logits --rope-scale 4)" ]
ok "--rope-scale is linear scaling" $?
same "--rope-freq-scale is its inverse" "$(logits --rope-freq-scale 0.25)" "$(logits --rope-scale 4)"
yarn=(--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 64)
[ "$(logits "${yarn[@]}")" != "$(logits)" ] && [ "$(logits "${yarn[@]}")" != "$(logits --rope-scale 4)" ]
ok "YaRN is neither" $?
same "YaRN without extrapolation is linear but for the magnitude" \
    "$(logits "${yarn[@]}" --yarn-ext-factor 0)" "$(logits --rope-scale 4)"
[ "$(logits "${yarn[@]}" --yarn-attn-factor 2)" != "$(logits "${yarn[@]}")" ]
ok "--yarn-attn-factor" $?
[ "$(logits --rope-freq-base 500000)" != "$(logits)" ]
ok "--rope-freq-base" $?
same "every device has the same frequencies" "$(ids "${yarn[@]}" --device ref)" "$(ids "${yarn[@]}")"
fails "a method that is none" 'want one of none|linear|yarn' "$ft" run --rope-scaling ntk hi

# keys of the file
same "--override-kv" "$(logits --override-kv "qwen35.rope.scaling.type=str:linear,qwen35.rope.scaling.factor=float:4")" \
    "$(logits --rope-scale 4)"
fails "a type that is none" 'want a type of int, float, bool or str' "$ft" run -m "$tiny" --override-kv a=u8:1 hi
fails "a value that is none" 'a=int:x, want a whole number' "$ft" run -m "$tiny" --override-kv a=int:x hi
fails "no value" 'want KEY=TYPE:VALUE' "$ft" run -m "$tiny" --override-kv a hi

# tensors by pattern; ref stands for a GPU
on() { "$ft" run --temp 0 -n 6 --json --device ref -v "$@" "How do I use grep?" 2>"$dir/err" | field ids; }
all=$(on -m "$tiny" -ngl all)
for p in 'ffn=CPU' 'blk\.\d+\.ffn_up\.=CPU' 'attn=CPU,ssm=CPU' 'blk.[01].*=CPU,output=CPU'; do
    same "-ot $p: the same ids" "$(on -m "$tiny" -ngl all -ot "$p")" "$all"
    [ "$(says 'cpu: [1-9][0-9]* matrices by pattern')" = 1 ]
    ok "and a note counts them" $?
done
same "back to the device" "$(on -m "$tiny" -ngl 2 -ot 'ffn_down=CUDA0')" "$all"
works "a model with experts" "$ft" synth tiny-moe q8_0 "$dir/moe.gguf" -q
experts=$(on -m "$dir/moe.gguf" --cpu-moe)
same "-ot exps=CPU is --cpu-moe" "$(on -m "$dir/moe.gguf" -ot 'exps=CPU')" "$experts"
same "the experts of a layer stay together" "$(on -m "$dir/moe.gguf" -ot 'ffn_up_exps=CPU')" "$experts"
fails "a place that is none" 'a=TPU, want CPU or CUDA0' "$ft" run -m "$tiny" --device ref -ot a=TPU hi
fails "a pattern that is none" 'pattern "(a"' "$ft" run -m "$tiny" --device ref -ot '(a=CPU' hi
"$ft" run -m "$tiny" -n 1 --device cpu -ot a=CPU hi 2>&1 >"$dir/out" | grep -q -- '--override-tensor have no effect'
ok "without a GPU a warning" $?
finish

#!/usr/bin/env bash
# foretoken kvbench: a row for every cache, figures that make sense, a plot; presets and exact layers.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
model=models/foretoken-tiny.gguf
seq 300 >"$dir/text"
kv() { "$ft" kvbench -m "$model" -f "$dir/text" -q -c 64 --chunks 1 "$@"; }

kv f16 turbo4 q8_0/turbo3 compact --json --plot "$dir/plot.svg" >"$dir/.out"
ok "it runs" $?
same "four caches" "$(grep -o '"cache":' "$dir/.out" | wc -l)" 4
grep -q '"cache":"f16","ppl":[0-9.]*,"ppl_ratio":1.0,"kld":0.0,"kld_max":0.0,"top1":1.0,"worst_correlation":1.0,"bytes_per_token":2048.0,"ratio":1.0' "$dir/.out"
ok "f16 against itself" $?
grep -q '"cache":"turbo4".*"bytes_per_token":528.0' "$dir/.out"
ok "bytes of turbo4" $?
grep -q '<svg' "$dir/plot.svg" && grep -q 'compact' "$dir/plot.svg"
ok "a plot" $?
kv turbo2 | grep -q '^turbo2 .* 272 .*7.53'
ok "text for people" $?
kv f16 -d 32 --json | grep -q '"decode_tps":[0-9]'
ok "speed when asked for" $?
fails "no such cache" 'turbo5.*want quality, balanced' kv turbo5
fails "no text" 'want at least 64' "$ft" kvbench -m "$model" -q -c 64 -f /dev/null
"$ft" run -m "$model" -q -n 2 --kv compact hello >/dev/null
ok "a preset" $?
"$ft" run -m "$model" -q -v -n 2 --kv compact --kv-tail on hello 2>&1 >/dev/null | grep -q 'turbo4.*turbo3.*most recent 128 positions'
ok "the table of layers" $?
fails "no such type" 'want f32, f16' "$ft" run -m "$model" -q -ctk turbo9 -n 2 hello
"$ft" inspect --ctx 4096 "$model" | grep -q '^  turbo3 .* 400 .*5.12'
ok "inspect knows what caches take" $?
finish

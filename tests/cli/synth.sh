#!/usr/bin/env bash
# foretoken synth: every shape can be planned, small ones are written, and what cannot be done is one
# line on standard error with nothing left behind.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
# looking for leaks costs seconds per process under the sanitizers: once, at the end, is enough
export ASAN_OPTIONS=detect_leaks=0

for shape in 27b 35b-a3b 9b 4b 2b 0.8b tiny tiny-moe micro e2b e4b 12b 26b-a4b 31b micro-gemma \
    e2b-assistant e4b-assistant 12b-assistant 26b-a4b-assistant 31b-assistant \
    micro-gemma-assistant micro-gemma-centroid-assistant gemma4-e2b gemma4-31b-assistant \
    27b-mmproj 35b-a3b-mmproj 9b-mmproj 31b-mmproj 26b-a4b-mmproj e4b-mmproj e2b-mmproj 12b-mmproj; do
    "$ft" synth "$shape" q8_0 --dry-run 2>&1 | grep -q "would be: .* tensors"
    ok "$shape can be planned" $?
done
"$ft" synth 27b Q4_K_M --dry-run | grep -q "27.3 billion parameters"
ok "27b has 27 billion parameters" $?
"$ft" synth 35b-a3b Q4_K_M --dry-run | grep -q "35.5 billion parameters"
ok "35b-a3b has 35 billion parameters" $?

for type in F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4 NVFP4 Q2_0 TQ3_1S TQ4_1S; do
    "$ft" synth micro "$type" "$dir/m.gguf" -q && "$ft" inspect "$dir/m.gguf" --check >"$dir/.out" &&
        grep -q "^  $type " "$dir/.out"
    ok "micro in $type" $?
done
[ "$(wc -c <"$dir/m.gguf")" -lt 1000000 ]
ok "micro is under 1 MB" $?
"$ft" synth micro F32 "$dir/m.gguf" -q && [ "$(wc -c <"$dir/m.gguf")" -lt 1048576 ]
ok "micro is under 1 MB in F32" $?

"$ft" synth micro Q8_0 "$dir/a.gguf" -q -t 1 && "$ft" synth micro Q8_0 "$dir/b.gguf" -q -t 4 &&
    cmp -s "$dir/a.gguf" "$dir/b.gguf"
ok "the file does not depend on the threads" $?
"$ft" synth micro Q8_0 "$dir/b.gguf" -q --seed 2 && ! cmp -s "$dir/a.gguf" "$dir/b.gguf"
ok "another seed, another file" $?
"$ft" synth micro Q8_0 "$dir/b.gguf" -q --no-mtp && "$ft" inspect "$dir/b.gguf" | grep -q "drafter: none"
ok "--no-mtp" $?
"$ft" synth tiny Q4_K "$dir/mix.gguf" -q --mix && "$ft" inspect "$dir/mix.gguf" --check >"$dir/.out"
ok "--mix" $?
for type in F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS \
    IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0 Q2_0 TQ3_1S TQ4_1S; do
    grep -q "^  $type " "$dir/.out"
    ok "--mix has $type" $?
done
rm "$dir/mix.gguf"
for shape in micro-gemma micro-gemma-assistant micro-gemma-centroid-assistant micro-mmproj \
    micro-gemma-mmproj micro-gemma-unified-mmproj; do
    "$ft" synth "$shape" q8_0 "$dir/g.gguf" -q && "$ft" inspect "$dir/g.gguf" --check >"$dir/.out"
    ok "$shape" $?
done

fails "an unknown shape lists the known ones" 'no shape "28b", want one of 27b, 35b-a3b' \
    "$ft" synth 28b Q8_0 "$dir/x.gguf"
fails "an unknown type" 'no tensor type "Q9_9"' "$ft" synth micro Q9_9 "$dir/x.gguf"
fails "a type of integers" 'no tensor type "I32"' "$ft" synth micro I32 "$dir/x.gguf"
fails "a block that does not divide the width" \
    'type Q4_K has blocks of 256 values, which do not divide the width 64 of micro' \
    "$ft" synth micro Q4_K_M "$dir/x.gguf"
fails "no output" 'no output file' "$ft" synth micro Q8_0
fails "a folder that is not there" 'cannot write there: No such file' \
    "$ft" synth micro Q8_0 "$dir/no/x.gguf"
fails "a folder that cannot be written" 'cannot write there' "$ft" synth micro Q8_0 /proc/x.gguf
fails "a target that is a folder" 'not a regular file' "$ft" synth micro Q8_0 "$dir"
fails "a target that is a device" 'not a regular file' "$ft" synth micro Q8_0 /dev/full
fails "a seed that is none" '"abc", want a whole number' \
    "$ft" synth micro Q8_0 "$dir/x.gguf" --seed abc
too_large() { (trap '' XFSZ; ulimit -f 64; exec "$@"); }
fails "a file larger than the system allows" 'write: File too large' \
    too_large "$ft" synth micro F32 "$dir/x.gguf" -q
if mkdir "$dir/small" && mount -t tmpfs -o size=128k none "$dir/small" 2>/dev/null; then
    fails "a full disk" 'No space left' "$ft" synth micro F32 "$dir/small/x.gguf" -q
    umount "$dir/small"
fi
ASAN_OPTIONS=detect_leaks=1 "$ft" synth micro Q8_0 "$dir/a.gguf" -q
ok "no leaks" $?
finish

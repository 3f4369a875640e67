#!/usr/bin/env bash
# foretoken quantize from the outside: what it says, what it returns, what it leaves behind.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
build=${BUILD:-build} tmp=$dir

"$build/tests/golden" --folder "$tmp/hf" tests/golden/qwen35-moe || exit 1
"$build/tests/golden" --folder "$tmp/as" tests/golden/gemma4-edge-assistant || exit 1
in=$tmp/in.gguf out=$tmp/out.gguf
"$ft" convert "$tmp/hf" "$in" --no-vocab -q || exit 1
"$ft" convert "$tmp/as" "$tmp/as.gguf" --no-vocab -q || exit 1

for t in F32 F16 BF16 Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0 Q4_K_M Q4_K_S Q4_1 Q4_0 IQ4_NL IQ4_XS \
    Q3_K_L Q3_K_M Q3_K_S Q2_K Q2_K_S MXFP4 TQ4_1S TQ3_1S; do
    works "$t" "$ft" quantize "$in" "$tmp/$t.gguf" "$t" -q
    works "$t is there" test -s "$tmp/$t.gguf"
done
smaller() { [ "$(stat -c %s "$tmp/$1.gguf")" -lt "$(stat -c %s "$tmp/$2.gguf")" ]; }
works "Q4_K_M is smaller than Q8_0" smaller Q4_K_M Q8_0
works "Q2_K is smaller than Q4_K_S" smaller Q2_K Q4_K_S
works "Q8_0 is smaller than BF16" smaller Q8_0 BF16
works "one thread" "$ft" quantize "$in" "$out" Q4_K_M -q -t 1
works "gives the same bytes on one thread" cmp "$out" "$tmp/Q4_K_M.gguf"
rm -f "$out"

"$ft" quantize "$in" Q4_K_M --dry-run >"$tmp/table"
works "dry run names the MTP block" grep -q 'nextn.eh_proj.weight .*-> Q8_0' "$tmp/table"
works "dry run keeps the router" grep -q 'ffn_gate_inp.weight .*-> F32' "$tmp/table"
works "dry run sums up" grep -q 'in.gguf: Q4_K_M, 96 tensors,' "$tmp/table"
works "dry run has a line per tensor" test "$(wc -l <"$tmp/table")" -eq 97
"$ft" quantize "$in" Q4_K_M --dry-run --no-keep-mtp >"$tmp/table"
works "without keep-mtp" grep -q 'nextn.eh_proj.weight .*-> Q4_K' "$tmp/table"
"$ft" quantize "$tmp/as.gguf" Q4_0 --dry-run >"$tmp/table"
works "ids stay ids" grep -q 'masked_embd_ordering .*I32 .*-> I32' "$tmp/table"
works "projections of a drafter" grep -q 'nextn.pre_projection.weight .*-> Q8_0' "$tmp/table"
works "blocks of a drafter" grep -q 'blk.0.ffn_up.weight .*-> Q4_0' "$tmp/table"
printf '# comment\n\nffn_down_exps=q5_K\n' >"$tmp/types"
"$ft" quantize "$in" Q4_K_M --dry-run --tensor-type-file "$tmp/types" --tensor-type 'blk\.0\.=iq4_nl' >"$tmp/table"
works "types from the command line first" grep -q 'blk.0.ffn_down_exps.weight .*-> IQ4_NL' "$tmp/table"
works "types from a file" grep -q 'blk.1.ffn_down_exps.weight .*-> Q5_K' "$tmp/table"
"$ft" quantize "$in" Q4_K_M --dry-run --json >"$tmp/json"
works "JSON" grep -q '^{"type":"Q4_K_M","bytes_from":[0-9]*,"bytes_to":[0-9]*,"bits_per_weight":' "$tmp/json"

refuse "unknown type" "Q7_X|Q4_K_M" "$ft" quantize "$in" "$out" Q7_X
refuse "no such file" "nothing.gguf" "$ft" quantize "$tmp/nothing.gguf" "$out" Q8_0
refuse "not a GGUF" "config.json|GGUF" "$ft" quantize "$tmp/hf/config.json" "$out" Q8_0
refuse "two words" "IN OUT TYPE" "$ft" quantize "$in" Q8_0
refuse "bad pattern" "pattern|(" "$ft" quantize "$in" "$out" Q8_0 --tensor-type '(=q8_0'
refuse "bad tensor type" "x=q99" "$ft" quantize "$in" "$out" Q8_0 --tensor-type x=q99
refuse "bad line in a file" "$tmp/hf/config.json|PATTERN=TYPE" "$ft" quantize "$in" "$out" Q8_0 --tensor-type-file "$tmp/hf/config.json"
refuse "not an importance matrix" "in.gguf|in_sum2" "$ft" quantize "$in" "$out" Q4_K_M --imatrix "$in"
refuse "quantised already" "Q8_0|--allow-requantize" "$ft" quantize "$tmp/Q8_0.gguf" "$out" Q4_K_M
refuse "onto itself" "in.gguf|another" "$ft" quantize "$in" "$in" Q8_0
refuse "read-only target" "/proc/x.gguf" "$ft" quantize "$in" /proc/x.gguf Q8_0
full() { (trap '' XFSZ; ulimit -f 1000; "$@"); } # files of at most 1000 blocks: a disk that fills up
refuse "full disk" "$out|too large" full "$ft" quantize "$in" "$out" Q8_0 -q
head -c 1000000 "$in" >"$tmp/cut.gguf"
refuse "input cut off" "cut.gguf" "$ft" quantize "$tmp/cut.gguf" "$out" Q8_0
works "requantize when allowed" "$ft" quantize "$tmp/Q8_0.gguf" "$out" Q4_K_M --allow-requantize
grep -qx "to use it: foretoken chat -m $out" "$dir/.out"
ok "says how to use the file" $?
works "a drafter" "$ft" quantize "$tmp/as.gguf" "$tmp/as4.gguf" Q4_0
grep -qx "to use it: foretoken chat -m MODEL.gguf -md $tmp/as4.gguf" "$dir/.out"
ok "says how to use it" $?

finish

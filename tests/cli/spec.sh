#!/usr/bin/env bash
# Drafting from the command line: who drafts, under which names, what is said and traced about it.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
tiny=models/foretoken-tiny.gguf
run() { "$ft" run -m "$model" -n 24 --temp 0 --raw --json "$@" a b c a b c a b c; }

off=$(run --spec-type none)
ids=$(field ids <<<"$off")
drafted() { field draft_n; }
for type in auto draft-mtp mtp nextn ngram-simple ngram-map-k ngram-map-k4v ngram-mod ngram-cache \
    ngram-cache,mtp mtp,ngram-mod,ngram-simple; do
    same "--spec-type $type: the same ids" "$(run --spec-type "$type" --spec-adapt off | field ids)" "$ids"
done
# adaptive drafting may decide against it on a busy machine
[[ $(run --spec-adapt off | drafted) -gt 0 ]]
ok "the model's head drafts unless told otherwise" $?
for how in "--spec-type draft-mtp" "--mtp-spec" "-mtp"; do
    # shellcheck disable=SC2086
    same "$how drafts" "$(run $how --spec-adapt off | drafted)" "$(run --spec-adapt off | drafted)"
done
same "the head's name is the drafter" "$(field drafter <<<"$off")" '"none: disabled"'
[[ $(run | field drafter) == *"MTP head"* ]]
ok "and is said when it drafts" $?
same "n-gram drafters are said with their sizes" \
    "$(run --spec-type ngram-simple,ngram-map-k4v,ngram-mod,ngram-cache --spec-ngram-mod-n-match 20 | grep -o '"drafter":"[^"]*ngram-cache')" \
    '"drafter":"ngram-simple (size-n 12, size-m 48, min-hits 1), ngram-map-k4v (size-n 12, size-m 48, min-hits 1), ngram-mod (n-match 20, n-min 48, n-max 64), ngram-cache'
two=$(run --spec-adapt off --spec-draft-n-max 2 | drafted)
for how in --draft-max --draft-n --draft --mtp-draft; do
    same "$how is --spec-draft-n-max" "$(run --spec-adapt off $how 2 | drafted)" "$two"
done
same "a block of 3 is 2 drafts" "$(run --spec-adapt off --draft-block-size 3 | drafted)" "$two"
same "a block of 1 is none" "$(run --draft-block-size 1 | drafted)" ""
same "LLAMA_ARG_DRAFT_MAX" "$(LLAMA_ARG_DRAFT_MAX=2 run --spec-adapt off | drafted)" "$two"
same "LLAMA_ARG_SPEC_DRAFT_N_MAX" "$(LLAMA_ARG_SPEC_DRAFT_N_MAX=2 run --spec-adapt off | drafted)" "$two"
same "the command line comes first" "$(LLAMA_ARG_DRAFT_MAX=9 run --spec-adapt off --draft 2 | drafted)" "$two"
same "LLAMA_ARG_SPEC_TYPE" "$(LLAMA_ARG_SPEC_TYPE=none run | drafted)" ""
same "options about the drafter's device are accepted" \
    "$(run -ngld 99 -devd cuda --draft-p-split 0.1 -td 3 -q --no-spec-draft-backend-sampling 2>"$dir/err" | field ids)" "$ids"
same "with a warning for each" "$(grep -c 'warning: .* has no effect' "$dir/err")" 5

same "variables about rotation change nothing" "$(LLAMA_ATTN_ROT_K_OVERRIDE=1 LLAMA_ATTN_ROT_DISABLE=0 run 2>"$dir/err" | field ids)" "$ids"
same "and are said to" "$(grep -c 'LLAMA_ATTN_ROT_[A-Z_]* has no effect' "$dir/err")" 1

# a head in a file of its own, and the same file twice
"$ft" inspect "$model" --extract-mtp "$dir/head.gguf" -q
same "a head of its own file drafts the same" "$(run --spec-adapt off -md "$dir/head.gguf" | field draft_n_accepted)" \
    "$(run --spec-adapt off | field draft_n_accepted)"
ln -s "$model" "$dir/link.gguf"
[[ $(run --mtp-head "$dir/link.gguf" | field drafter) == *"the model's MTP head"* ]]
ok "-md that is the model itself means its own head" $?
fails "a head is no model" "draft head alone" "$ft" run -m "$dir/head.gguf" x
same "a narrow head drafts, and the ids stay" "$(run --draft-vocab 200 | field ids)" "$ids"

printf 'a b c a b c and nothing else' >"$dir/words"
[[ $(run --draft-vocab 200 --draft-vocab-text "$dir/words" | field drafter) == *"over 200 of"* ]]
ok "how narrow it is, is said" $?
same "its tokens may be counted in a text" "$(run --draft-vocab 200 --draft-vocab-text "$dir/words" | field ids)" "$ids"
fails "no such text" "No such file" "$ft" run -m "$model" --draft-vocab 200 --draft-vocab-text "$dir/none" x

# a second model
"$ft" synth micro q8_0 "$dir/second.gguf" -q --seed 2 --no-mtp
cp "$model" "$dir/copy.gguf"
for how in "--spec-type draft-simple" "--spec-type draft" "--spec-type ngram-simple,draft-simple" ""; do
    # shellcheck disable=SC2086
    simple=$(run $how --spec-adapt off -md "$dir/second.gguf")
    same "a second model ($how): the same ids" "$(field ids <<<"$simple")" "$ids"
    [[ $(field drafter <<<"$simple") == *"a draft model"* && $(drafted <<<"$simple") -gt 0 ]]
    ok "a second model ($how) drafts" $?
done
self=$(run --spec-type draft-simple --spec-adapt off -md "$dir/copy.gguf")
same "a model agrees with itself" "$(field draft_n_accepted <<<"$self")" "$(drafted <<<"$self")"
[[ $(run --spec-adapt off -md "$dir/copy.gguf" | field drafter) == *"MTP head in a separate file"* ]]
ok "a file with a head of this model is a head, unless told otherwise" $?
fails "another vocabulary" "want the same vocabulary" "$ft" run -m "$model" -md "$tiny" --spec-type draft-simple x
fails "no second model" "name one with -md" "$ft" run -m "$model" --spec-type draft-simple x
fails "a head is none" "wants a whole model" "$ft" run -m "$model" --spec-type draft-simple -md "$dir/head.gguf" x
fails "nor is the model" "want a smaller model" "$ft" run -m "$model" --spec-type draft-simple -md "$dir/link.gguf" x
fails "both" "want one of them" "$ft" run -m "$model" --spec-type draft-simple,draft-mtp -md "$dir/second.gguf" x

# the Gemma command of the README
"$ft" synth micro-gemma q8_0 "$dir/gemma-4-E4B-it.gguf" -q
"$ft" synth micro-gemma-assistant q8_0 "$dir/gemma-4-E4B-it-assistant.gguf" -q
gemma=$(sed -n "s|^    build/foretoken \(run .*-md .*\) \"Why.*|\1|p" README.md)
[ -n "$gemma" ]
ok "the README has a command with an assistant" $?
read -ra words <<<"$gemma"
gemma() { (cd "$dir" && "$OLDPWD/$ft" "${words[@]}" -n 16 --temp 0 --raw --json "$@" a b c); }
[[ $(gemma | field drafter) == *"an assistant model"* && $(gemma --spec-adapt off | drafted) -gt 0 ]]
ok "which drafts" $?
same "and changes no id" "$(gemma --spec-adapt off | field ids)" "$(gemma --spec-type none | field ids)"

# trace
run --spec-adapt off --spec-trace "$dir/trace" >"$dir/reply"
same "an acceptance for every draft" "$(grep -c mtp_accept "$dir/trace")" "$(grep -c mtp_draft "$dir/trace")"
same "the trace adds up" "$(sed -n 's/.*"n_accepted":\([0-9]*\).*/\1/p' "$dir/trace" | awk '{ n += $1 } END { print n }')" \
    "$(field draft_n_accepted <"$dir/reply")"
same "every line names the sequence" "$(grep -c '"seq_id":0,' "$dir/trace")" "$(wc -l <"$dir/trace")"
FT_SPEC_TRACE=$dir/trace2 run --spec-adapt off >/dev/null
LLAMA_MTP_ACC_TRACE=$dir/trace3 run --spec-adapt off >/dev/null
same "FT_SPEC_TRACE" "$(wc -l <"$dir/trace2")" "$(wc -l <"$dir/trace")"
same "LLAMA_MTP_ACC_TRACE" "$(wc -l <"$dir/trace3")" "$(wc -l <"$dir/trace")"
FT_SPEC_TRACE=1 run --spec-adapt off 2>"$dir/err" >/dev/null
same "1 is standard error" "$(grep -c mtp_ "$dir/err")" "$(wc -l <"$dir/trace")"
FT_SPEC_TRACE=0 run 2>"$dir/err" >/dev/null
[ ! -s "$dir/err" ]
ok "0 is off" $?

# lookup files
run --spec-type ngram-cache -lcd "$dir/counts" >/dev/null
[ -s "$dir/counts" ]
ok "counts are kept" $?
same "and read" "$(run --spec-type ngram-cache -lcs "$dir/counts" -lcd "$dir/counts" | field ids)" "$ids"
printf broken >"$dir/bad"
fails "broken counts" "ends inside the record" "$ft" run -m "$model" --spec-type ngram-cache -lcs "$dir/bad" x

# what cannot be
fails "twice" "named twice" "$ft" run -m "$model" --spec-type mtp,nextn x
fails "none beside others" "want it alone" "$ft" run -m "$model" --spec-type none,mtp x
fails "eagle3" "not supported" "$ft" run -m "$model" --spec-type eagle3 x
fails "nonsense" "want auto" "$ft" run -m "$model" --spec-type foo x
fails "nothing" "want auto" "$ft" run -m "$model" --spec-type mtp, x
fails "two ways to say it" "want one" "$ft" run -m "$model" --spec-type mtp --spec-default x
"$ft" run -m "$model" -n 1 --draft-max 99 x 2>&1 >"$dir/out" | grep -q 'draft-max 99 is outside of 0 to 15, using 15'
ok "too many" $?
fails "n-min above n-max" "at most its n-max" "$ft" run -m "$model" --spec-ngram-mod-n-min 70 x
fails "no such head" "No such file" "$ft" run -m "$model" -md "$dir/none" x

# bench --spec
mkdir "$dir/prompts"
for class in chinese code dialogue prose repetition; do echo "hello there" >"$dir/prompts/$class.txt"; done
"$ft" bench --spec -m "$model" -n 12 --prompts "$dir/prompts" --json --plot "$dir/p.svg" >"$dir/bench"
same "five classes, five ways each" "$(grep -c tokens_per_second "$dir/bench")" 25
same "no ids differ" "$(grep -c '"other_ids": 0' "$dir/bench")" 25
for key in draft_ms verify_ms other_ms spread; do
    same "each has $key" "$(grep -c "\"$key\"" "$dir/bench")" 25
done
grep -q '<polyline' "$dir/p.svg"
ok "a plot" $?
sweep=$("$ft" bench --spec -m "$model" -n 16 --prompts "$dir/prompts" --class prose --spec-draft-n-max 8 \
    -ctk turbo3 -ctv turbo3 -r 3 --json)
same "a sweep over 1 to 8 draft tokens, with turbo3 caches" \
    "$(sed -n 's/.*"drafts": "\(.*\)",/\1/p' <<<"$sweep" | paste -sd,)" \
    "off,governed,K = 1,K = 2,K = 3,K = 4,K = 5,K = 6,K = 7,K = 8"
same "changes no id" "$(grep -c '"other_ids": 0' <<<"$sweep")" 10
# The runs that a record lists, one per line; and whether each N of them are N different ways.
order() { awk '/"order"/ { on = 1; next } /\]/ { on = 0 } on' | tr -d '", '; }
interleaved() {
    awk -v n="$1" '{ bad += ++runs[$0] != int((NR - 1) / n) + 1 } END { exit bad || NR < 2 * n || NR % n }'
}
same "the runs of a prompt are listed" "$(order <<<"$sweep" | wc -l)" 30
order <<<"$sweep" | interleaved 10
ok "they are interleaved" $?
same "each repetition begins with another way" "$(order <<<"$sweep" | awk 'NR % 10 == 1' | paste -sd,)" "off,governed,K=1"
"$ft" bench -m "$model" -p 0 -n 4 -r 2 --sim-accept 1 --spec-draft-n-max 2 --json | order | interleaved 4
ok "so are those with simulated acceptance" $?
if order <<<"$sweep" | sort | interleaved 10; then false; else true; fi
ok "one way after another is noticed" $?

# English and Chinese, with f16 and turbo caches: drafting changes nothing but the time
while read -r line; do
    for cache in f16 turbo3 turbo4; do
        ask() { "$ft" run -m "$tiny" -n 32 --temp 0 --json -ctk $cache -ctv $cache "$@" "$line" </dev/null; }
        drafting=$(ask --spec-adapt off)
        same "$cache, $line" "$(field ids <<<"$drafting")" "$(ask --spec-type none | field ids)"
        [[ $(drafted <<<"$drafting") -gt 0 ]]
        ok "$cache, $line: drafted" $?
    done
done < <(head -1 bench/prompts/dialogue.txt; sed -n 1,2p bench/prompts/chinese.txt)
finish

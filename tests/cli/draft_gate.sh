#!/usr/bin/env bash
# Tokens per step of drafting, counted, not timed: those of Qwen models (dense, and with experts) with
# their MTP heads and of a Gemma model with its assistant must not be lower than recorded in
# docs/bench/55-draft-steps.json. Counts differ between instruction sets, whose sums are rounded
# differently (Arm and x86: up to 4.2 %), so 7 % fewer are allowed.
# With --write: prints the rows of that record.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
record=docs/bench/55-draft-steps.json
nano=(-m models/gemma4-nano.gguf -md models/gemma4-nano-assistant.gguf)

# ["model", "class", tokens per step of K = 1, 2, 3]
counts() { # MODEL CLASS OPTIONS...
    "$ft" bench --spec -n 32 --n-prompts 6 -r 1 --json --class "$2" "${@:3}" | awk -v model="$1" -v class="$2" '
        /"drafts"/ { k = /K = / ? $4 + 0 : 0 }
        /"accept_len"/ && k { row = row sprintf(", %.2f", $2) }
        END { printf "[\"%s\", \"%s\"%s]\n", model, class, row }'
}
# Whether no number of the first row is lower than that of the second, by more than 7 %.
as_many() {
    awk -v a="$1" -v b="$2" '
        function numbers(s, v) { gsub(/"[^"]*", *|[^0-9.,]/, "", s); return split(s, v, ",") }
        BEGIN {
            n = numbers(a, x) < 3 || numbers(b, y) < 3
            for (i = 1; i <= 3; i++) n += !(y[i] > 1 && x[i] >= 0.93 * y[i])
            exit n > 0
        }'
}
for class in dialogue code; do counts foretoken-tiny $class -m models/foretoken-tiny.gguf; done >"$dir/now"
counts gemma4-nano dialogue "${nano[@]}" >>"$dir/now"
counts qwen35moe-nano dialogue -m models/qwen35moe-nano.gguf >>"$dir/now"
if [ "${1-}" = --write ]; then
    cat "$dir/now"
    exit
fi
same "three models, four rows" "$(wc -l <"$dir/now")" 4
while read -r row; do
    name=${row%", "[0-9]*", "[0-9]*", "[0-9]*}
    was=$(grep -F "$name" "$record" | tr -s ' ')
    as_many "$row" "$was"
    ok "as many tokens per step as recorded: $row, recorded $was" $?
done <"$dir/now"
if as_many '["x", "y", 1.48, 2.00, 2.50]' '["x", "y", 1.60, 2.00, 2.50]'; then false; else true; fi
ok "fewer tokens per step are noticed" $?

# the history of drafting: the last version is at least 1.6 times as fast as the first
awk '/^    \["/ { sub(/\],?$/, ""); n = split($0, v, ", "); last = v[n]; rows++ }
    END { exit !(rows > 1 && last >= 1.6) }' docs/bench/56-draft-history.json
ok "drafting is 1.6 times as fast as its first version" $?

# one draft pass of the 27b takes at most 0.12 of a verification of one row (the bytes that both read
# are those of tests/invariants/draft_cost.c)
awk -F', ' '/"synthetic 27b/ { gsub(/"/, ""); n++; long += !($8 > 0 && $8 <= 0.12 * $9) } END { exit !(n && !long) }' \
    docs/bench/50-draft-gpu.json
ok "a draft pass of the 27b is short" $?
# 35b-a3b with turbo3 keys and values: at least 1.26 times as fast with two draft tokens, and 0.94
# times as fast as with f16
awk -F', ' '/"synthetic 35b-a3b/ { two = $2 * $6; if (/turbo3/) { n++; slow += !($6 >= 1.26 && two >= 0.94 * f16) } else f16 = two }
    END { exit !(n && !slow) }' docs/bench/50-draft-gpu.json
ok "drafting is as fast with turbo3" $?
finish

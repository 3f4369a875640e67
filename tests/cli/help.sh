#!/usr/bin/env bash
# What --help, --help-all and --help-list print: groups, width, whole names, defaults and units; and
# options that have no effect: each warns. The text that is generated from the rows is up to date.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
programs=$("$ft" --help | awk '/^  [a-z]/ { print $1 }')

# groups and width
has_groups() { # program, groups...
    local p=$1 g; shift
    "$ft" "$p" --help >"$dir/help"
    for g in "$@"; do
        grep -qx "$g:" "$dir/help"
        ok "$p --help has the group $g" $?
    done
}
has_groups run Model Prompt "Context and cache" "GPU and CPU" "Speculative decoding" Sampling Response Output
has_groups serve Model "Context and cache" "GPU and CPU" "Speculative decoding" Sampling Response Server \
    "Models of the server" "Access and encryption" Output
has_groups bench Model Measurement "Speculative decoding" Output
widest() { awk '{ if (length > n) n = length } END { print n + 0 }'; }
for p in $programs; do
    for columns in 80 100; do
        [ "$(COLUMNS=$columns "$ft" "$p" --help-all | widest)" -le $columns ]
        ok "$p --help-all fits in $columns columns" $?
    done
done
[ "$(COLUMNS=200 "$ft" run --help | widest)" -le 100 ] && [ "$(COLUMNS=20 "$ft" run --help | widest)" -gt 60 ]
ok "without a terminal the width is 80 to 100 columns" $?
if command -v script >/dev/null; then
    # a terminal of 60 columns
    script -qec "stty cols 60; $ft run --help" /dev/null </dev/null | tr -d '\r' >"$dir/narrow"
    [ "$(widest <"$dir/narrow")" -le 60 ] && grep -q '^Sampling:' "$dir/narrow"
    ok "a terminal's width is used" $?
fi

# names: whole, and accepted
for p in run serve; do
    "$ft" "$p" --help-list >"$dir/list"
    "$ft" "$p" --help-all | tr -s ' \n' ' ' >"$dir/all"
    missing= unknown=
    for o in $(cut -f 1 "$dir/list"); do
        case $o in --no-*) ;; *) grep -qF -- " $o" "$dir/all" || missing="$missing $o" ;; esac
        "$ft" "$p" "$o" x x --help >"$dir/.out" 2>&1
        ! grep -q 'unknown option' "$dir/.out" || unknown="$unknown $o"
    done
    same "$p --help-all prints every name whole" "$missing" ""
    same "$p accepts every name that it lists" "$unknown" ""
done
same "the n-gram options are behind --help-all" \
    "$("$ft" run --help | grep -c spec-ngram):$(("$("$ft" run --help-all | grep -c -- --spec-ngram)" > 10))" "0:1"
"$ft" run --help | grep -q -- '--help-all also lists'
ok "--help names --help-all" $?

# defaults and units
line() { COLUMNS=100 "$ft" "$1" --help-list | awk -F '\t' -v o="$2" '{ n = split($1, a, " "); for (i = 1; i <= n; i++) if (a[i] == o) print $4 }'; }
for p in $programs; do
    same "$p: no number without a default" \
        "$("$ft" "$p" --help-list | awk -F '\t' '$2 ~ /^(N|P|X|T|S|MIB)$/ && $3 !~ /compatib/ && $4 !~ /default: / { print $1 }')" ""
    same "$p: no size or time without a unit" \
        "$("$ft" "$p" --help-list | awk -F '\t' '$2 == "MIB" && $4 !~ /MiB/ || $2 == "S" && $4 !~ /second/ { print $1 }')" ""
done
same "--min-p says what it does" "$(line run --min-p)" \
    "drop tokens whose probability is below P times that of the most likely token (0: disabled) [default: what the model file recommends, else 0.05]"
[[ $(line run --draft-max) == *"default: 3 tokens"* && $(line serve --timeout) == *"default: 3600 seconds"* &&
    $(line serve --cache-ram) == *"default: 8192 MiB"* ]]
ok "a default has its unit" $?
[[ $(line run --mmap) == *"--no-mmap turns it off"* ]]
ok "a flag that is on says how to turn it off" $?
same "nothing is always on and can be turned off" "$("$ft" serve --help-list | grep -c 'always.*turns it off')" 0

# options that cannot be honoured: a warning or an error that names them
warns() { # program, options...: one line names the first option
    local p=$1 o=$2; shift
    "$ft" "$p" "$@" --help >/dev/null 2>"$dir/.err"
    same "$p $* warns" "$(grep -c -- "^foretoken: warning: $o\b.* has no effect: " "$dir/.err"):$(wc -l <"$dir/.err")" "1:1"
}
for o in "-fa off" --mlock "--numa isolate" "--keep 8"; do
    # shellcheck disable=SC2086
    for p in run serve; do warns $p $o; done
done
warns serve --cache-reuse 256
warns serve --no-warmup
for p in run serve; do
    silent=
    while IFS=$'\t' read -r names value group _; do
        [ "$group" = "Accepted for compatibility with llama.cpp" ] || continue
        for o in $names; do
            # a value other than the default: one of the choices or a number; a flag, both ways
            tries=("$o 7")
            [ -n "$value" ] || tries=("$o" "--no-${o#--}")
            [[ $value != *'|'* ]] || mapfile -t tries < <(tr '|' '\n' <<<"$value" | sed "s/^/$o /")
            said=0
            for line in "${tries[@]}"; do
                # shellcheck disable=SC2086
                "$ft" "$p" $line --help 2>&1 >/dev/null | grep -q -e "warning: ${line%% *}.* has no effect: " \
                    -e "^foretoken: ${line%% *}.* is not supported: " && said=1
            done
            [ "$said" = 1 ] || silent="$silent $o"
        done
    done < <("$ft" "$p" --help-list)
    same "$p: no option is ignored silently" "$silent" ""
done
LLAMA_ARG_FLASH_ATTN=off "$ft" run --help 2>&1 >/dev/null | grep -q 'warning: LLAMA_ARG_FLASH_ATTN off has no effect'
ok "a variable warns too" $?
same "what is done anyway does not warn" "$("$ft" serve -fa on --jinja -cb --no-mlock -sm none --no-context-shift --help 2>&1 >/dev/null)" ""
"$ft" run -m "$model" -n 1 --temp 0 --logprobs 2 x 2>&1 >/dev/null | grep -q 'warning: --logprobs has no effect'
ok "--logprobs without --json warns" $?
echo x | "$ft" chat -m "$model" -n 1 --history "$dir/history" 2>&1 >/dev/null | grep -q 'warning: --history has no effect'
ok "--history without a terminal warns" $?

# generated text
works "foretoken.h and docs/api.md match the rows" scripts/params.sh --check
for c in $(echo /help | "$ft" chat -m "$model" | grep -o '^  /[a-z][a-z]*'); do
    grep -q -e "^\.B $c\$" -e "^\.BI $c " -e "^\.BR \"$c " man/foretoken-chat.man
    ok "the manual page of chat has $c" $?
done
finish

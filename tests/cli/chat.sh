#!/usr/bin/env bash
# foretoken chat without a terminal, where every line is a turn, and with one.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
chat() { "$ft" chat -m "$model" -n 6 --temp 0 --no-thinking "$@" 2>"$dir/.err"; }
roles() { grep -o '"role": *"[a-z]*"' "$1" | sed 's/.*"\([a-z]*\)"$/\1/' | tr '\n' ' '; }

printf 'hello\nagain\n/save %s\n' "$dir/a.json" | chat >"$dir/out"
same "exit code" $? 0
same "two turns" "$(roles "$dir/a.json")" "user assistant user assistant "
[ -s "$dir/out" ]
ok "answers were printed" $?
printf 'hello\n/undo\n/save %s\n/quit\nnever\n/save %s\n' "$dir/b.json" "$dir/never.json" | chat >/dev/null
same "/undo forgets" "$(roles "$dir/b.json")" ""
[ ! -e "$dir/never.json" ]
ok "/quit leaves" $?
printf '/system Be brief.\nhello\n/clear\n/save %s\n' "$dir/c.json" | chat >/dev/null
same "/clear keeps the system message" "$(roles "$dir/c.json")" "system "
printf 'hello\n/retry\n/save %s\n' "$dir/d.json" | chat >/dev/null
same "/retry replaces the reply" "$(roles "$dir/d.json")" "user assistant "
printf '/load %s\nmore\n/save %s\n' "$dir/a.json" "$dir/e.json" | chat >/dev/null
same "/load goes on" "$(roles "$dir/e.json")" "user assistant user assistant user assistant "
printf 'one\\\ntwo\n"""three\n\nfour"""\n//etc\n/save %s\n' "$dir/f.json" | chat >/dev/null
same "lines that go on are one message" "$(roles "$dir/f.json")" "user assistant user assistant user assistant "
grep -q '"one\\ntwo"' "$dir/f.json" && grep -q '"three\\n\\nfour"' "$dir/f.json" && grep -q '"/etc"' "$dir/f.json"
ok "and keep their line ends" $?
printf '/save %s\n' "$dir/g.json" | chat -sys 'Be brief.' hello there >/dev/null
same "words are the first message" "$(roles "$dir/g.json")" "system user assistant "
printf 'hello\n/stats\n/help\n' | chat >"$dir/out"
grep -q '^context .* of .* tokens' "$dir/out" && grep -q '^drafter ' "$dir/out" && grep -q '/retry' "$dir/out"
ok "/stats and /help" $?

bad() { # name, pattern, lines: the program goes on, says so, and ends with 1
    printf '%b\nhello\n' "$3" | chat >"$dir/out"
    same "$1" "$?:$(grep -c -- "$2" "$dir/.err"):$(test -s "$dir/out" && echo answered)" "1:1:answered"
}
bad "an unknown command" 'unknown command /bogus' '/bogus'
bad "/think wants on or off" 'want on, off or auto' '/think maybe'
bad "/load of nothing" 'No such file' "/load $dir/none.json"
echo '[{"role": 1}]' >"$dir/bad.json"
bad "/load of no messages" 'message 0' "/load $dir/bad.json"
echo '[{' >"$dir/bad.json"
bad "/load of no JSON" 'line' "/load $dir/bad.json"
bad "/save to nowhere" 'cannot write there' "/save $dir/no/such/folder"
long=$(seq 200 | tr '\n' ' ')
printf '%s\nhello\n/save %s\n' "$long" "$dir/h.json" | chat -c 160 >/dev/null
same "a message that does not fit is dropped" "$?:$(roles "$dir/h.json")" "1:user assistant "

# Waits until a command succeeds, for half a minute at most.
until_true() {
    for _ in $(seq 300); do
        "$@" && return 0
        sleep 0.1
    done
    return 1
}
longer_than() { # file, bytes
    [ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -gt "$2" ]
}
if command -v script >/dev/null; then
    # Ctrl-C (\003) stops a reply that would never end; then the program still listens
    mkfifo "$dir/keys"
    TERM=xterm script -qec "$ft chat -m $model --temp 0 -n 100000 -c 131072 --ignore-eos" /dev/null \
        <"$dir/keys" >"$dir/tty" 2>&1 &
    pid=$!
    exec 3>"$dir/keys"
    until_true grep -q '>' "$dir/tty"
    printf 'hello\r' >&3
    until_true longer_than "$dir/tty" 2000
    printf '\003' >&3
    until_true grep -q '(stopped)' "$dir/tty"
    ok "Ctrl-C stops the reply" $?
    printf '/save %s\r' "$dir/tty.json" >&3
    until_true test -s "$dir/tty.json"
    same "and not the program" "$(roles "$dir/tty.json" 2>/dev/null)" "user assistant "
    printf '\004' >&3
    exec 3>&-
    wait "$pid"
    same "on a terminal it ends well" $? 0
    grep -q $'\033\\[2m' "$dir/tty"
    ok "a terminal has colours" $?
    ! grep -q 'A better one: foretoken chat -hf' "$dir/tty"
    ok "a model that was named is not commented" $?
    printf '/quit\r' | TERM=xterm script -qec "env -u LLAMA_ARG_MODEL -u LLAMA_ARG_HF_REPO $ft chat" /dev/null >"$dir/tty" 2>&1
    same "the embedded model says how to get a better one" \
        "$(grep -c 'A better one: foretoken chat -hf' "$dir/tty")" 1

    # pasted lines are one message, Tab completes, the history has whole messages
    rm "$dir/keys"
    mkfifo "$dir/keys"
    NO_COLOR=1 TERM=xterm script -qec "$ft chat -m $model --temp 0 -n 2 --history $dir/history" /dev/null \
        <"$dir/keys" >"$dir/tty" 2>&1 &
    pid=$!
    exec 3>"$dir/keys"
    until_true grep -q '>' "$dir/tty"
    printf '\033[200~one\rtwo\033[201~ three\r' >&3
    until_true grep -q 'tok/s' "$dir/tty"
    printf '/sa\t%s/pa\t\r' "$dir" >&3 # no such file: nothing to complete
    until_true test -s "$dir/pa"
    printf '/lo\t%s/p\t\r' "$dir" >&3
    until_true grep -q 'messages loaded from .*/pa' "$dir/tty"
    ok "Tab completes commands and file names" $?
    same "pasted lines are one message" \
        "$(grep -o '"content": "one.*' "$dir/pa")" '"content": "one\ntwo three"'
    printf '\033[A\033[A\033[A\r/save %s/again\r\004' "$dir" >&3
    exec 3>&-
    wait "$pid"
    same "the history has it as one entry" "$(grep -c 'one\\ntwo three' "$dir/again")" 2
    same "NO_COLOR" "$(grep -c $'\033\\[2m' "$dir/tty")" 0
    grep -q 'one.*two.*three' "$dir/history"
    ok "and so has the file" $?
fi

# a full context
fill='aaaa bbbb cccc dddd eeee ffff gggg hhhh iiii jjjj'
turns() { for i in 1 2 3 4 5 6; do echo "$i $fill"; done; }
turns | "$ft" chat -m "$model" --temp 0 -n 2 -c 300 >"$dir/out" 2>"$dir/err"
same "a full context is an error" "$?:$(($(grep -c 'context' "$dir/err") > 0))" 1:1
(turns; echo "/save $dir/shift.json") | "$ft" chat -m "$model" --temp 0 -n 2 -c 300 --context-shift >"$dir/out" 2>"$dir/err"
same "with --context-shift the oldest messages are left out" \
    "$?:$(($(grep -c 'is full: the oldest 2 messages are left out' "$dir/err") > 0)):$(grep -c '"content": "[16] aaaa' "$dir/shift.json")" 0:1:1
# templates by name
for t in chatml gemma gemma4; do
    "$ft" run -m "$model" -n 1 --chat-template $t hi >"$dir/out" 2>"$dir/err"
    ok "--chat-template $t" $?
done
fails "a name that is none" 'want Jinja source, or one of chatml, gemma, gemma4' "$ft" chat -m "$model" --chat-template llama2
fails "a template without the message" "a message of the user is not in the prompt" \
    "$ft" chat -m "$model" --chat-template '{{ bos_token }}hello'
finish

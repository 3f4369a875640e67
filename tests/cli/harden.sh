#!/usr/bin/env bash
# foretoken serve under bad luck and hostile requests: signals, model files that change, grammars that cost too much.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$ft" --version | grep -q microhttpd || { echo "0 passed, 0 failed"; exit 0; }

code() { curl -s -m 60 -o "$dir/out" -w '%{http_code}' "$@"; }
ends() { # the exit code of a server that ends by itself within a minute
    for _ in $(seq 1200); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL $pid 2>/dev/null
    wait $pid
}

# rights are given up where the kernel can, unless they are to be kept
mode() { sed -n 's/^Seccomp:[[:space:]]*//p' "/proc/$pid/status"; }
serve -m "$model" --cache-dir "$dir/prompts" --slot-save-path "$dir/slots"
if ! grep -q 'does not restrict.*system calls' "$dir/log"; then
    same "the sandbox holds for all threads" "$(cat /proc/$pid/task/*/status | grep -c '^Seccomp:[[:space:]]*2')" "$(ls /proc/$pid/task | wc -l)"
fi
code "$url/completion" -d '{"prompt":"one two three four","id_slot":0}' >/dev/null
same "a slot is saved in its folder" "$(code "$url/slots/0?action=save" -d '{"filename":"a"}')" 200
same "which is private" "$(stat -c %a "$dir/slots" "$dir/slots/a" "$dir/prompts" | tr '\n' ' ')" "700 600 700 "
kill -TERM $pid
wait $pid
same "it ends well" $? 0
serve -m "$model" --no-sandbox
same "--no-sandbox" "$(mode)" 0
kill -TERM $pid
wait $pid

# the unit file, where systemd can rate it: 0 is the least exposed, 10 the most
if systemd-analyze security --offline=true deploy/foretoken.service >"$dir/unit" 2>/dev/null; then
    awk '/Overall exposure level/ { for (i = 1; i <= NF; i++) if ($i ~ /^[0-9.]+$/) n = $i } END { exit !(n != "" && n < 2) }' "$dir/unit"
    ok "systemd-analyze security rates the unit below 2.0" $?
fi

# SIGHUP reads the keys again; without a file of keys it stops the server as SIGTERM does
echo old >"$dir/keys"
serve -m "$model" --api-key-file "$dir/keys"
same "the first key" "$(code -H 'X-Api-Key: old' "$url/props")" 200
echo new >"$dir/keys"
kill -HUP $pid
for _ in $(seq 200); do
    now=$(code -H 'X-Api-Key: new' "$url/props")
    [ "$now" = 200 ] && break
    sleep 0.05
done
same "SIGHUP: the new key" "$now" 200
same "SIGHUP: no longer the old one" "$(code -H 'X-Api-Key: old' "$url/props")" 401
kill -TERM $pid
wait $pid
same "and it ends well" $? 0
serve -m "$model"
kill -HUP $pid
ends
same "SIGHUP without a key file ends it well" $? 0

# SIGTERM while a model is loading: at the start, and when a request needs a model. Reading the chat
# template from a pipe makes loading last until something is written to it.
mkfifo "$dir/pipe"
exec 3<>"$dir/pipe"
# Waits until the server reads the pipe. Before it is the server, the process is this shell, which has
# the pipe open too, and whose trap would remove the folder if it got SIGTERM then.
opens() {
    for _ in $(seq 1200); do
        for f in "/proc/$pid/fd/"*; do
            [ "$f" -ef "$dir/pipe" ] && [ "/proc/$pid/exe" -ef "$ft" ] && return
        done
        sleep 0.05
    done
}
"$ft" serve --port 0 -m "$model" --chat-template-file "$dir/pipe" >/dev/null 2>"$dir/log" 3>&- &
pid=$!
opens
kill -TERM $pid
ends
same "SIGTERM while the first model is loading" $? 0
grep -q 'ended while the model was loading' "$dir/log"
ok "and the log says so" $?
mkdir "$dir/models"
cp "$model" "$dir/models/one.gguf"
serve --models-dir "$dir/models" --chat-template-file "$dir/pipe" 3>&-
curl -s -m 60 "$url/completion" -d '{"model":"one","prompt":"x"}' >/dev/null 3>&- &
asking=$!
opens
kill -TERM $pid
ends
same "SIGTERM while a model is loading for a request: loading cannot be interrupted" $? 1
wait $asking
grep -q 'did not end within' "$dir/log"
ok "and the log says so" $?
exec 3>&-

# a model file that is cut off while the server runs: errors, and an exit code for the supervisor
cp "$model" "$dir/cut.gguf"
serve -m "$dir/cut.gguf"
text='{"prompt":"two three four five six","cache_prompt":false,"return_tokens":true}'
same "before the cut" "$(code "$url/completion" -d "$text")" 200
before=$(field tokens <"$dir/out")
truncate -s 1000000 "$dir/cut.gguf"
got=$(code "$url/completion" -d "$text") # weights that were copied into memory are still right
[ "$got" != 200 ] || [ "$(field tokens <"$dir/out")" = "$before" ]
ok "after the cut no answer is made up ($got)" $?
ends
same "a cut model file: exit code" $? 3
grep -q 'cut.gguf was changed while it was in use' "$dir/log"
ok "and the reason" $?
# one that is overwritten in place
cp "$model" "$dir/over.gguf"
serve -m "$dir/over.gguf"
dd if=/dev/zero of="$dir/over.gguf" bs=1M count=1 seek=10 conv=notrunc 2>/dev/null
ends
same "an overwritten model file: exit code" $? 3
# one that is replaced by another file lives on
cp "$model" "$dir/new.gguf"
cp "$model" "$dir/replaced.gguf"
serve -m "$dir/replaced.gguf"
mv "$dir/new.gguf" "$dir/replaced.gguf"
sleep 2
same "a replaced model file is no trouble" "$(code "$url/completion" -d '{"prompt":"one"}')" 200

# grammars whose masks are the work of seconds: refused at once, or the response ends with an error
rules() { # first rule
    printf '%s' "$1"
    awk 'BEGIN { for (i = 0; i < 300; i++) printf "\\nr%d ::= \\\"a\\\" r%d \\\"b\\\" | [a-z ] r%d r%d | [a-z]", i, (i*7+1)%300, (i*13+5)%300, (i*31+11)%300 }'
}
printf '{"prompt":"x","grammar":"%s"}' "$(rules 'root ::= r0')" >"$dir/now.json"
printf '{"prompt":"x","grammar":"%s"}' "$(rules 'root ::= \"x\" r0')" >"$dir/later.json"
same "a costly grammar" "$(code "$url/completion" -d @"$dir/now.json")" 400
grep -q '3000000 steps' "$dir/out"
ok "names its limit" $?
same "one that is costly later" "$(code "$url/completion" -d @"$dir/later.json")" 400
grep -q 'steps' "$dir/out"
ok "names its limit too" $?
same "the server goes on" "$(code "$url/completion" -d '{"prompt":"one"}')" 200
kill -TERM $pid
wait $pid
same "and ends well" $? 0
finish

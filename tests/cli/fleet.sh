#!/usr/bin/env bash
# Three replicas behind deploy/haproxy.cfg: affinity, a replica that is killed under load, and one
# that is drained. Every request is answered, with the answer of a single server.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
haproxy=$(command -v haproxy || command -v /usr/sbin/haproxy)
if [ -z "$haproxy" ] || ! "$ft" serve --help >"$dir/out" 2>&1; then
    echo "no HAProxy, or a build without serve: nothing is tested"
    finish
    exit
fi
tiny=models/foretoken-tiny.gguf
pids=()
stop_all() { kill "${pids[@]}" 2>/dev/null; rm -rf "$dir"; }
trap stop_all EXIT
for i in 0 1 2; do
    "$ft" serve -m "$tiny" -np 4 -c 2048 --port 0 --metrics >"$dir/log$i" 2>&1 &
    pids[i]=$!
done
for i in 0 1 2; do
    for _ in $(seq 300); do
        port[i]=$(sed -n 's/.*ready at http:.*:\([0-9]*\).*/\1/p' "$dir/log$i" | head -n 1)
        [ -n "${port[i]}" ] && break
        sleep 0.1
    done
done
# the proxy's own port: that of a server that has just ended
"$ft" serve -m "$tiny" --port 0 >"$dir/free" 2>&1 &
free=$!
for _ in $(seq 300); do
    own=$(sed -n 's/.*ready at http:.*:\([0-9]*\).*/\1/p' "$dir/free" | head -n 1)
    [ -n "$own" ] && break
    sleep 0.1
done
kill "$free"
wait "$free" 2>/dev/null
sed -e "s/bind :8000/bind 127.0.0.1:$own/" -e "s/127.0.0.1:8081/127.0.0.1:${port[0]}/" \
    -e "s/127.0.0.1:8082/127.0.0.1:${port[1]}/" -e "s/127.0.0.1:8083/127.0.0.1:${port[2]}/" \
    -e '/^frontend stats/,$d' -e 's/inter 2s/inter 200ms/' deploy/haproxy.cfg >"$dir/haproxy.cfg"
works "the configuration is valid" "$haproxy" -c -f "$dir/haproxy.cfg"
sed -e 's/replica:8080/127.0.0.1:8080/' deploy/fleet/haproxy.cfg >"$dir/compose.cfg"
works "and that of the containers" "$haproxy" -c -f "$dir/compose.cfg"
"$haproxy" -db -f "$dir/haproxy.cfg" >"$dir/proxy" 2>&1 &
pids[3]=$!
url=http://127.0.0.1:$own
for _ in $(seq 100); do curl -s -m 2 "$url/health" >"$dir/out" && break; sleep 0.1; done

ask() { # session, tokens
    curl -s -m 400 -w '%{http_code}' -H "X-Session-Id: s$1" "$url/completion" \
        -d "{\"prompt\":\"The number $1 is\",\"n_predict\":$2,\"temperature\":0,\"ignore_eos\":true,\"return_tokens\":true}"
}
tokens() { field tokens; }
count() { curl -s "http://127.0.0.1:${port[$1]}/metrics" | sed -n 's/^foretoken:prompt_tokens_total //p'; }

# affinity: the second request of a session finds its prompt
ask 7 4 >"$dir/out"
ask 7 4 >"$dir/again"
[ "$(field tokens_cached <"$dir/again")" -gt 0 ]
ok "a session stays with its replica" $?
used=0
for s in 1 2 3 4 5 6 7 8; do ask "$s" 1 >"$dir/out"; done
for i in 0 1 2; do [ "$(count $i)" != 0 ] && used=$((used + 1)); done
[ "$used" -ge 2 ]
ok "sessions are spread" $?

# under load a replica is killed, and another is drained
alone=$(curl -s "http://127.0.0.1:${port[1]}/completion" \
    -d '{"prompt":"The number 3 is","n_predict":120,"temperature":0,"ignore_eos":true,"return_tokens":true}' | tokens)
for s in $(seq 16); do ask "$s" 120 >"$dir/r$s" & jobs[s]=$!; done
sleep 0.3
kill -9 "${pids[0]}"
sleep 0.3
kill "${pids[2]}"
wait "${jobs[@]}"
good=0
for s in $(seq 16); do [ "$(tail -c 3 "$dir/r$s")" = 200 ] && good=$((good + 1)); done
same "no request is lost" "$good" 16
[ "$(grep -c '/+[1-3] .*POST /completion' "$dir/proxy")" -gt 0 ]
ok "those of the killed replica are sent to another" $?
same "and the answers are those of one server" "$(tokens <"$dir/r3")" "$alone"
wait "${pids[2]}"
ok "the drained replica has ended by itself" $?
finish

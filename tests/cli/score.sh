#!/usr/bin/env bash
# Log probabilities of prompts, as lm-evaluation-harness reads them through its local-completions
# backend: prompts as token ids, echo, logprobs 1, max_tokens 1; of each continuation the sum of its
# log probabilities, and whether greedy decoding would generate it.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
"$ft" --version | grep -q microhttpd || { echo "0 passed, 0 failed"; exit 0; }
command -v python3 >/dev/null || { echo "0 passed, 0 failed"; exit 0; }

cat >"$dir/score.py" <<'PY'
import json, sys, urllib.request
url = sys.argv[1]

def post(path, **body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))

def loglikelihood(context, continuation, **more):
    out = post("/v1/completions", prompt=[context + continuation], temperature=0, max_tokens=1,
               logprobs=1, seed=1234, echo=True, **more)
    choice = out["choices"][0]["logprobs"]
    at = len(context)
    scores, top = choice["token_logprobs"][at:-1], choice["top_logprobs"][at:-1]
    greedy = all(t == max(best, key=best.get) for t, best in zip(choice["tokens"][at:-1], top))
    return sum(scores), greedy, scores, out["usage"]

def close(a, b):
    return all(abs(x - y) < 2e-3 for x, y in zip(a, b)) and len(a) == len(b)

def check(name, ok):
    print(("ok " if ok else "not ok ") + name)

context = post("/tokenize", content="The quick brown fox jumps over the lazy dog. " * 20)["tokens"]
made = post("/completion", prompt=context, n_predict=9, temperature=0, n_probs=1, return_tokens=True)
own = [p["logprob"] for p in made["completion_probabilities"]]
total, greedy, scores, usage = loglikelihood(context, made["tokens"])
check("generated tokens have the log probabilities with which they were generated", close(scores, own))
check("and are the greedy ones", greedy and abs(total - sum(own)) < 2e-2)
for i, text in enumerate([" slowly", " and away", " zzz zzz zzz"]):
    ids = post("/tokenize", content=text)["tokens"]
    _, greedy, scores, usage = loglikelihood(context, ids)
    _, _, alone, fresh = loglikelihood(context, ids, cache_prompt=False)
    check("continuation %d has the same score with and without the cache" % i, close(scores, alone))
    check("continuation %d reuses the context" % i,
          usage["prompt_tokens_details"]["cached_tokens"] > len(context) // 2 and
          fresh["prompt_tokens_details"]["cached_tokens"] == 0)
    check("continuation %d has a score for every token" % i, len(scores) == len(ids) and all(s <= 0 for s in scores))
short = post("/v1/completions", prompt=context[:3], max_tokens=0, logprobs=2, echo=True)["choices"][0]["logprobs"]
check("the first token has none", short["token_logprobs"][0] is None and len(short["tokens"]) == 3)
native = post("/completion", prompt=context[:3], n_predict=0, n_probs=2, prompt_probs=True)["prompt_probabilities"]
check("/completion returns the same", close([p["logprob"] for p in native[1:]], short["token_logprobs"][1:]))
PY

for m in "$model" models/foretoken-tiny.gguf; do
    serve -m "$m" -c 2048 -np 2
    while read -r line; do
        [[ $line == ok* ]]
        ok "$(basename "$m"): ${line#*ok }" $?
    done < <(python3 "$dir/score.py" "$url" 2>&1 | tee "$dir/score.log")
    [ "$(grep -c '^ok\|^not ok' "$dir/score.log")" -eq 13 ]
    ok "$(basename "$m"): every check ran: $(grep -v '^ok' "$dir/score.log" | tail -n 1)" $?
    kill -TERM $pid
    wait $pid
done
finish

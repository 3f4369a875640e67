#!/usr/bin/env python3
"""Right answers per skill through the server's chat API, on wordings that no model was trained with: the first, second (heldout.py),
third (heldout3.py) or fourth (heldout4.py, some skills) set, or with --set 0 on wordings of the training data.

usage: evaluate.py FACTS URL COUNT [--set N] [--thinking] [--skills 'a;b'] [--show]
  FACTS   facts.json of corpus.py
  URL     of a running `foretoken serve`
  COUNT   questions per skill
An answer is right if its last line has the value (numbers), or if it contains the one answer that the skill knows (the rest)."""
import argparse
import collections
import concurrent.futures
import json
import math
import random
import re
import urllib.request

import arithmetic as num
import dialogues

SKILLS = {"sums": lambda R, F, h: num.add(R, h), "differences": lambda R, F, h: num.sub(R, h), "products": lambda R, F, h: num.mul(R, h),
          "quotients": lambda R, F, h: num.div(R, h), "too large": lambda R, F, h: num.too_large(R, h), "comparisons": lambda R, F, h: num.compare(R, h),
          "units": lambda R, F, h: R.choice((num.convert, num.convert, num.degrees))(R, h), "times": lambda R, F, h: num.clock(R, h),
          "greetings": lambda R, F, h: dialogues.social(R, h, [k for k in dialogues.SOCIAL if k not in dialogues.SELF]),
          "self-knowledge": lambda R, F, h: dialogues.social(R, h, dialogues.SELF), "foretoken": dialogues.foretoken, "refusals": dialogues.refuse,
          "shell": dialogues.shell, "shell, command not named": dialogues.describe, "words": dialogues.word, "lists and JSON": dialogues.lists, "tools": dialogues.tools}

FOURTH = ("greetings", "self-knowledge", "lists and JSON", "tools")


def ask(url, e, thinking):
    body = {"messages": [{"role": "user", "content": e["q"]}], "temperature": 0, "max_tokens": 400, "chat_template_kwargs": {"enable_thinking": thinking}}
    if "tools" in e:
        body["tools"] = e["tools"]
    request = urllib.request.Request(url + '/v1/chat/completions', json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as r:
        d = json.load(r)
    return d["choices"][0]["message"], d["timings"]


def right(e, m):
    text = (m.get("content") or '').strip()
    if "want_call" in e:
        calls = [c["function"] for c in m.get("tool_calls") or []]
        return len(calls) == 1 and calls[0]["name"] == e["want_call"]["name"] and json.loads(calls[0]["arguments"]) == e["want_call"]["arguments"]
    if "want" in e:
        last = text.split('\n')[-1]
        return bool(re.search(r'(?<![\d.,:-])' + re.escape(e["want"]) + r'(?![\d:]|[.,]\d)', last))
    flat = lambda s: ' '.join(s.split())
    return any(flat(a) in flat(text) for a in e["accept"])


def main():
    p = argparse.ArgumentParser()
    p.add_argument('facts')
    p.add_argument('url')
    p.add_argument('count', type=int)
    p.add_argument('--set', type=int, default=1, choices=(0, 1, 2, 3, 4), help='held-out set; 0: wordings of the training data')
    p.add_argument('--thinking', action='store_true')
    p.add_argument('--skills', help='separated by ;')
    p.add_argument('--show', action='store_true', help='print wrong answers')
    o = p.parse_args()
    with open(o.facts, encoding='utf8') as f:
        facts = json.load(f)
    drafted, accepted = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for skill in o.skills.split(';') if o.skills else FOURTH if o.set == 4 else SKILLS:
            R, seen, items = random.Random('evaluation ' + skill), set(), []
            for _ in range(o.count * 20):
                e = SKILLS[skill](R, facts, o.set)
                if len(items) < o.count and e["q"] not in seen:
                    seen.add(e["q"])
                    items.append(e)
            good = 0
            for e, (m, t) in zip(items, pool.map(lambda e: ask(o.url, e, o.thinking), items)):
                ok = right(e, m)
                good += ok
                drafted[skill] += t.get("draft_n", 0)
                accepted[skill] += t.get("draft_n_accepted", 0)
                if o.show and not ok:
                    print('  wrong:', json.dumps([e["q"], m.get("content"), e.get("want") or e.get("accept") or e.get("want_call")]), flush=True)
            n = len(items)
            q = good / n
            print(f"{skill}: {good} of {n} = {100 * q:.1f} % (+- {196 * math.sqrt(max(q * (1 - q), 1 / n ** 2) / n):.1f}), "
                  f"draft tokens accepted {100 * accepted[skill] / max(1, drafted[skill]):.1f} %", flush=True)


if __name__ == '__main__':
    main()

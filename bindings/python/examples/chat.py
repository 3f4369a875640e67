"""A conversation in the terminal: python3 chat.py [model.gguf]"""

import sys

from foretoken import Model

with Model(sys.argv[1] if len(sys.argv) > 1 else None) as model:
    messages = []
    for line in sys.stdin:
        messages.append({"role": "user", "content": line.strip()})
        answer = ""
        for event in model.stream(messages, max_tokens=500):
            if event.part == "answer":
                answer += event.text
                print(event.text, end="", flush=True)
        print()
        messages.append({"role": "assistant", "content": answer})

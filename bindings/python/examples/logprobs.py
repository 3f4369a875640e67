"""Alternatives to each token of a response: python3 logprobs.py [model.gguf]"""

import math
import sys

from foretoken import Model

with Model(sys.argv[1] if len(sys.argv) > 1 else None) as model:
    response = model.complete("The capital of France is", max_tokens=4, temperature=0.0, logprobs=3)
    for token, *alternatives in response.logprobs:
        print(repr(token.text), [(a.text, round(math.exp(a.logprob), 3)) for a in alternatives])

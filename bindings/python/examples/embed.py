"""Similarity of texts: python3 embed.py [model.gguf]"""

import sys

from foretoken import Model

TEXTS = ["a cat sleeps", "a kitten is asleep", "the stock market fell"]

with Model(sys.argv[1] if len(sys.argv) > 1 else None) as model:
    vectors = [model.embed(text) for text in TEXTS]
    for text, vector in zip(TEXTS[1:], vectors[1:]):
        print(f"{sum(a * b for a, b in zip(vectors[0], vector)):.3f}  {TEXTS[0]} / {text}")

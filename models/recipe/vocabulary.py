#!/usr/bin/env python3
"""Writes the tokenizer and the chat template of a GGUF file as Hugging Face files, for training and for `foretoken convert`.

usage: vocabulary.py FILE.gguf OUT"""
import json
import os
import struct
import sys

SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
         r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SIZES = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}


def number(f, c):
    return struct.unpack('<' + c, f.read(struct.calcsize(c)))[0]


def value(f, t):
    """A value of type t."""
    if t == 8:
        return f.read(number(f, 'Q')).decode('utf8')
    if t == 9:
        kind, n = number(f, 'I'), number(f, 'Q')
        return [value(f, kind) for _ in range(n)]
    return number(f, SIZES[t])


def keys(path):
    """The metadata of a GGUF file."""
    with open(path, 'rb') as f:
        assert f.read(4) == b'GGUF'
        _, _, n = number(f, 'I'), number(f, 'Q'), number(f, 'Q')
        return {value(f, 8): value(f, number(f, 'I')) for _ in range(n)}


def main():
    k, out = keys(sys.argv[1]), sys.argv[2]
    os.makedirs(out, exist_ok=True)
    tokens, types = k["tokenizer.ggml.tokens"], k["tokenizer.ggml.token_type"]
    special = [(i, t) for i, t in enumerate(tokens) if types[i] in (3, 4)]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": types[i] == 3} for i, t in special],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": False, "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [m.split(' ', 1) for m in k["tokenizer.ggml.merges"]]}}
    eos, pad = tokens[k["tokenizer.ggml.eos_token_id"]], tokens[k["tokenizer.ggml.padding_token_id"]]
    files = {"tokenizer.json": tokenizer,
             "tokenizer_config.json": {"tokenizer_class": "Qwen2TokenizerFast", "bos_token": None, "eos_token": eos, "pad_token": pad, "add_bos_token": False, "model_max_length": 32768},
             "generation_config.json": {"eos_token_id": [2, 0], "pad_token_id": 0, "do_sample": True, "temperature": 0.3, "top_p": 0.9, "top_k": 20}}
    for name, content in files.items():
        with open(os.path.join(out, name), 'w', encoding='utf8') as f:
            json.dump(content, f, ensure_ascii=False)
    with open(os.path.join(out, 'chat_template.jinja'), 'w', encoding='utf8') as f:
        f.write(k["tokenizer.chat_template"])


if __name__ == '__main__':
    main()

"""Tokens for training: generates dialogues, encodes them and packs them in rows that begin with a dialogue.

A shard is an array of uint16, [rows, ROW]; bit 15 marks tokens that the model itself would generate."""
import json
import lzma
import os
import random
from multiprocessing import get_context

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

import dialogues

ROW = int(os.environ.get('ROW', 1028))  # 1,024 positions, and the targets of the next token and of three draft steps
MINE = 1 << 15
GEMMA_SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>", "<turn|>", "<|think|>", "<|channel>", "<channel|>", "<|tool>", "<tool|>",
                 "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\"|>"]
BYTES = [f"<0x{i:02X}>" for i in range(256)]
GEMMA_SPLIT = Regex("\n+|[0-9]|▁?[^▁\n0-9]+|▁")


def gemma_tokenizer(facts, plain, size, path):
    """Trains the vocabulary of the Gemma model and writes tokenizer.json."""
    R = random.Random(11)
    texts = [''.join(t for t, _ in dialogues.render_gemma(*dialogues.dialogue(R, facts))) for _ in range(30000)] + R.sample(plain, min(len(plain), 1500))
    t = Tokenizer(models.BPE())
    t.normalizer, t.pre_tokenizer = normalizers.Replace(" ", "▁"), pre_tokenizers.Split(GEMMA_SPLIT, 'isolated')
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=GEMMA_SPECIAL + BYTES, limit_alphabet=200, show_progress=False))
    d = json.loads(t.to_str())
    d["added_tokens"] = [a for a in d["added_tokens"] if a["content"] in GEMMA_SPECIAL]
    d["model"]["byte_fallback"], d["model"]["unk_token"] = True, "<unk>"
    d["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    assert len(d["model"]["vocab"]) == size, len(d["model"]["vocab"])
    with open(path, 'w', encoding='utf8') as f:
        json.dump(d, f, ensure_ascii=False)


def encode_pieces(tok, pieces):
    ids = [e.ids for e in tok.encode_batch_fast([t for t, _ in pieces], add_special_tokens=False)]
    return [i | (MINE if mine else 0) for (_, mine), part in zip(pieces, ids) for i in part]


def dialogue_rows(tok, render, facts, seed, n):
    """n rows of dialogues; a dialogue that does not fit at the end of a row is cut."""
    R, out = random.Random(seed), np.zeros((n, ROW), np.uint16)
    for r in range(n):
        row = []
        while len(row) < ROW:
            row += encode_pieces(tok, render(*dialogues.dialogue(R, facts)))
        out[r] = row[:ROW]
    return out


def plain_rows(tok, texts, end, begin=None):
    ids = []
    for i in range(0, len(texts), 512):
        for e in tok.encode_batch_fast(texts[i:i + 512], add_special_tokens=False):
            ids += ([begin] if begin is not None else []) + e.ids + [end]
    n = len(ids) // ROW
    return np.array(ids[:n * ROW], np.uint16).reshape(n, ROW) | MINE


def work(job):
    """One worker: (model, tokenizer, facts, plain texts or None, seed, rows, output)."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    model, path, facts, texts, seed, n, out = job
    tok = Tokenizer.from_file(path)
    if texts is not None:
        rows = plain_rows(tok, texts, 0) if model == 'qwen' else plain_rows(tok, texts, 1, 2)
    else:
        rows = dialogue_rows(tok, dialogues.render_qwen if model == 'qwen' else dialogues.render_gemma, facts, seed, n)
    np.save(out + '.part.npy', rows)
    os.rename(out + '.part.npy', out)
    return rows.shape[0]


def read_sources(folder):
    opened = lambda n: lzma.open(os.path.join(folder, n + '.xz'), 'rt', encoding='utf8') if os.path.exists(os.path.join(folder, n + '.xz')) else open(os.path.join(folder, n), encoding='utf8')
    with opened('facts.json') as f:
        facts = json.load(f)
    with opened('plain.jsonl') as f:
        plain = [json.loads(x) for x in f]
    random.Random(3).shuffle(plain)
    return facts, plain


def make(model, path, facts, plain, out, rows, workers, pieces):
    """Starts a pool that writes shards to `out`: few dialogues first, so that training can begin, then plain text and dialogues in turn."""
    os.makedirs(out, exist_ok=True)
    jobs, per, part = [], rows // (workers * pieces), (len(plain) + workers * 4 - 1) // (workers * 4)
    plain_jobs = [(model, path, None, plain[i:i + part], 0, 0, f"{out}/plain-{i:06d}.npy") for i in range(0, len(plain), part)]
    for p in range(pieces):
        jobs += [(model, path, facts, None, 1000 + p * workers + w, per if p else max(1, per // 4), f"{out}/chat-{p:02d}-{w:02d}.npy") for w in range(workers)]
        if p < 4:
            jobs += plain_jobs[p * workers:(p + 1) * workers]
    pool = get_context('spawn').Pool(workers)
    return pool, pool.map_async(work, jobs, chunksize=1)

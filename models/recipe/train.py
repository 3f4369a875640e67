#!/usr/bin/env python3
"""Trains foretoken-tiny (qwen), the gemma4-nano pair (gemma) or qwen35moe-nano (moe) on one GPU.

usage: train.py qwen|gemma|moe DATA TOKENIZER OUT SECONDS [START]
  DATA        folder with facts.json, plain.jsonl and heldout.txt (corpus.py), also as .xz
  TOKENIZER   tokenizer.json (vocabulary.py); for gemma it is made and written there
  OUT         folder for the checkpoint, as `foretoken convert` reads it
  SECONDS     when training ends, counted from the start of the program
  START       GGUF file whose tensors training begins with (qwen)
With moe, SHARDS names the folder of the rows that a training of foretoken-tiny makes at the same time."""
import glob
import json
import os
import struct
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import shards

T0 = time.time()
DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'
SMALL = os.environ.get('SMALL')  # a few steps on little data, to try the script
MTP_LOSS = [0.4, 0.25, 0.15]     # weights of the three chained draft steps
OTHER = 0.1                      # weight of tokens that the model would not generate itself


def say(*a):
    print(f"[{time.time() - T0:6.1f}]", *a, flush=True)


# ---- checkpoints ----
def save(path, tensors):
    """A safetensors file: matrices in bf16, the rest in f32, integers in i64."""
    head, blobs, at = {}, [], 0
    for k, v in tensors.items():
        v = v.detach().cpu()
        if not v.is_floating_point():
            kind, b = 'I64', v.long().numpy().tobytes()
        elif (v.ndim == 2 or 'experts' in k) and 'norm' not in k:
            kind, b = 'BF16', v.to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        else:
            kind, b = 'F32', v.float().contiguous().numpy().tobytes()
        head[k] = {"dtype": kind, "shape": list(v.shape), "data_offsets": [at, at + len(b)]}
        at += len(b)
        blobs.append(b)
    h = json.dumps({"__metadata__": {"format": "pt"}, **head}).encode()
    h += b' ' * (-len(h) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(h)) + h)
        for b in blobs:
            f.write(b)


# ---- optimisers ----
def newton_schulz(G):
    """Orthogonalises a stack of matrices."""
    X = G.bfloat16()
    turned = X.shape[-2] > X.shape[-1]
    if turned:
        X = X.transpose(-1, -2)
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        B = X @ X.transpose(-1, -2)
        X = 3.4445 * X + (-4.7750 * B + 2.0315 * B @ B) @ X
    return X.transpose(-1, -2) if turned else X


class Muon:
    """Momentum and orthogonalised updates for the matrices, in stacks of one shape."""

    def __init__(s, params, lr=0.02):
        s.lr, s.groups = lr, {}
        for p in params:
            s.groups.setdefault(tuple(p.shape), []).append(p)
        s.momentum = {k: torch.zeros(len(v), *k, device=DEVICE) for k, v in s.groups.items()}

    @torch.no_grad()
    def step(s, scale):
        for shape, params in s.groups.items():
            G = torch.stack([p.grad for p in params])
            s.momentum[shape].lerp_(G, 0.05)
            u = newton_schulz(G.lerp(s.momentum[shape], 0.95)).float()
            a = s.lr * scale * max(1, shape[-2] / shape[-1]) ** 0.5
            for p, d in zip(params, u):
                p.mul_(1 - s.lr * scale * 0.05).add_(d, alpha=-a)


# ---- data ----
class Rows:
    """Shards in GPU memory; those that appear later are added."""

    def __init__(s, folder, kind):
        s.pattern, s.seen, s.rows = f"{folder}/{kind}-*.npy", set(), []
        s.total = 0

    def poll(s):
        for f in sorted(set(glob.glob(s.pattern)) - s.seen):
            if f.endswith('.part.npy'):
                continue
            s.seen.add(f)
            s.rows.append(torch.from_numpy(np.load(f).astype(np.int32)).to(DEVICE))
            s.total += s.rows[-1].shape[0]

    def sample(s, n, gen):
        sizes = torch.tensor([r.shape[0] for r in s.rows], dtype=torch.float)
        out = []
        for i, k in enumerate(torch.multinomial(sizes, n, replacement=True, generator=gen).bincount(minlength=len(s.rows)).tolist()):
            if k:
                out.append(s.rows[i][torch.randint(0, s.rows[i].shape[0], (k,), generator=gen).to(DEVICE)])
        return torch.cat(out)


def split(x):
    """Ids, and weights of the loss."""
    return (x & 0x7fff).long(), torch.where(x >= shards.MINE, 1.0, OTHER)


# ---- losses ----
def cross_entropy(z, y, w):
    loss = F.cross_entropy(z.float().flatten(0, 1), y.flatten(), reduction='none')
    return (loss * w.flatten()).sum() / w.sum()


def losses(net, x, drafted=None, gemma=False):
    ids, w = split(x)
    T = ids.shape[1] - 4
    out = []
    for i, h in enumerate(net.hiddens(ids, drafted=drafted)):
        rows = h.shape[0]
        z = net.logits(h, i) if gemma else net.logits(h)
        out.append(cross_entropy(z, ids[:rows, i + 1:T + i + 1], w[:rows, i + 1:T + i + 1]))
    return out


@torch.no_grad()
def measure(net, rows, gemma):
    """Nats per token of the next token and each draft step, and how often the drafts equal the most likely token."""
    nats, same, count, n = np.zeros(4), np.zeros(3), np.zeros(3), 0
    for x in rows.split(16):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == 'cuda'):
            ids, w = split(x)
            T, top = ids.shape[1] - 4, []
            for i, h in enumerate(net.hiddens(ids)):
                z = (net.logits(h, i) if gemma else net.logits(h)).float()
                y, m = ids[:, i + 1:T + i + 1], w[:, i + 1:T + i + 1] == 1
                nats[i] += F.cross_entropy(z[m], y[m]).item()
                top.append(z.argmax(-1))
            for i in range(1, 4):
                ok = top[i][:, :T - i] == top[0][:, i:]
                m = w[:, i + 1:T + 1] == 1
                same[i - 1] += ok[m].sum().item()
                count[i - 1] += m.sum().item()
        n += 1
    return {"nats": (nats / n).round(4).tolist(), "agree": (same / count).round(4).tolist()}


# ---- the centroid head ----
def cluster(emb, n, rounds=8):
    """Balanced clusters of the rows of emb: their ids in order, cluster after cluster."""
    e = F.normalize(emb.float(), dim=-1)
    size = e.shape[0] // n
    c = e[torch.randperm(e.shape[0], generator=torch.Generator().manual_seed(1))[:n].to(e.device)]
    for _ in range(rounds):
        sim = (e @ c.T).cpu().numpy()
        left, of = np.full(n, size), np.full(e.shape[0], -1)
        for k in np.argsort(-sim, axis=None):
            i, j = divmod(int(k), n)
            if of[i] < 0 and left[j]:
                of[i] = j
                left[j] -= 1
        idx = torch.from_numpy(of).to(e.device)
        c = F.normalize(torch.zeros_like(c).index_add_(0, idx, e), dim=-1)
    order = torch.from_numpy(np.argsort(of, kind='stable'))
    return order, idx


def fit_centroids(net, sample, steps):
    """Fits the centroids so that the cluster of the most likely draft token scores high."""
    a = net.head
    order, of = cluster(a.model.embed_tokens.weight.detach(), a.centroids.shape[0])
    a.order.copy_(order)
    with torch.no_grad():
        a.centroids.copy_(torch.zeros_like(a.centroids).index_add_(0, of, a.model.embed_tokens.weight) / (of.numel() // a.centroids.shape[0]))
    opt = torch.optim.Adam([a.centroids], lr=3e-3)
    for i in range(steps):
        x = sample(i)
        with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == 'cuda'):
            hs = net.hiddens(split(x)[0])[1:]
            label = [of[net.logits(h, 1).argmax(-1)].flatten() for h in hs]
        z = torch.cat([h.float() for h in hs]).flatten(0, 1) @ a.centroids.T
        label = torch.cat(label)
        loss = F.cross_entropy(z, label)
        opt.zero_grad()
        loss.backward()
        opt.step()
    hit = (z.topk(16, -1).indices == label[:, None]).any(-1).float().mean().item()
    say('centroids: loss', round(loss.item(), 3), 'cluster among the best 16:', round(hit, 4))
    return hit


# ---- main ----
def main():
    model, data, tokenizer, out, seconds = sys.argv[1:6]
    gemma, moe, seconds = model == 'gemma', model == 'moe', float(seconds)
    os.makedirs(out, exist_ok=True)
    facts, plain = shards.read_sources(data)
    if SMALL:
        plain = plain[:40]
    if gemma:
        import gemma4 as arch
        shards.gemma_tokenizer(facts, plain, arch.V, tokenizer)
        say('vocabulary')
    elif moe:
        import qwen35_moe as arch
    else:
        import qwen35 as arch
    workers = int(os.environ.get('WORKERS', '2'))
    folder = os.environ.get('SHARDS', out + '/shards')
    pool, making = (None, None) if moe else shards.make(model, tokenizer, facts, plain, folder, 8 * workers if SMALL else (60000 if gemma else 200000), workers, 2 if SMALL else 12)
    torch.manual_seed(7)
    torch.set_float32_matmul_precision('high')
    if DEVICE == 'cuda':
        torch._dynamo.config.recompile_limit = 64
    net = arch.Model()
    start = len(sys.argv) > 6
    if start:
        net.start(sys.argv[6])
    net = net.to(DEVICE)
    say('parameters', sum(p.numel() for p in net.trunk.parameters()) / 1e6, sum(p.numel() for p in net.head.parameters()) / 1e6)
    global cross_entropy
    layers = list(net.trunk.layers) + list(net.head.model.layers if gemma else net.head.layers)
    if DEVICE == 'cuda':
        for layer in layers if not moe else []:
            layer.forward = torch.compile(layer.forward, dynamic=False)
        cross_entropy = torch.compile(cross_entropy)
    mats, rest = [], []
    for n, p in net.named_parameters():
        matrix = (p.ndim == 2 or 'experts' in n) and not any(k in n for k in ('embed', 'in_proj_a', 'in_proj_b', 'centroids', 'mlp.gate.', 'shared_expert_gate'))
        (mats if matrix else rest).append(p)
    muon = Muon(mats)
    adam = torch.optim.AdamW(rest, lr=3e-3, betas=(.9, .95), weight_decay=0.0, fused=DEVICE == 'cuda')
    chat, text = Rows(folder, 'chat'), Rows(folder, 'plain')
    while not (chat.total and text.total):
        chat.poll()
        text.poll()
        time.sleep(.2)
        if making and making.ready():
            making.get()
    batch = int(os.environ.get('BATCH', 32 if gemma or moe else 64))
    gen, it, begin, log = torch.Generator().manual_seed(5), 0, time.time(), []
    say('first rows', chat.total, text.total)
    while True:
        fr = (time.time() - begin) / (seconds - (begin - T0))
        if fr >= 1 or (SMALL and it >= int(SMALL)):
            break
        hold = .15 if start else .3
        scale = (.6 if start else 1) * min(1, (it + 1) / 150) * (1 if fr < hold else 0.01 + 0.99 * (1 - (fr - hold) / (1 - hold)))
        n = round(batch * (.62 if fr < .5 else .74 if start else .85))
        x = torch.cat([chat.sample(n, gen), text.sample(batch - n, gen)])
        x = x[torch.randperm(batch, generator=gen).to(DEVICE)]
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == 'cuda'):
            parts = losses(net, x, batch if gemma else batch // 2, gemma)
        loss = parts[0] + sum(a * b for a, b in zip([1, .5, .3] if gemma else MTP_LOSS, parts[1:]))
        if moe:
            loss = loss + .01 * sum(arch.BALANCE) / len(arch.BALANCE)
            arch.BALANCE.clear()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        for g in adam.param_groups:
            g['lr'] = 3e-3 * scale
        adam.step()
        muon.step(scale)
        for p in mats + rest:
            p.grad = None
        it += 1
        if it % 50 == 0:
            chat.poll()
            text.poll()
        if it % 200 == 0 or it in (1, 10, 50):
            log.append([it] + [round(p.item(), 4) for p in parts])
            say(*log[-1], f"{it * batch * (shards.ROW - 4) / 1e6:.0f} M tokens, {it * batch * (shards.ROW - 4) / 1e3 / (time.time() - begin):.0f} k/s, rows {chat.total} {text.total}")
    chat.poll()
    text.poll()
    say('trained', it, 'steps; rows', chat.total, text.total)
    for layer in layers:
        layer.__dict__.pop('forward', None)  # what follows has other shapes
    result = {"steps": it, "tokens": it * batch * (shards.ROW - 4), "chat rows": chat.total, "plain rows": text.total, "log": log}
    if gemma:
        result["centroid hit"] = fit_centroids(net, lambda i: chat.sample(batch // 2, gen), 2 if SMALL else 150)
        os.makedirs(out + '/assistant', exist_ok=True)
        save(out + '/assistant/model.safetensors', net.assistant_tensors())
        with open(out + '/assistant/config.json', 'w') as f:
            json.dump(arch.ASSISTANT, f, indent=1)
    save(out + '/model.safetensors', net.tensors())
    name, kind = ("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe") if moe else ("Qwen3_5ForConditionalGeneration", "qwen3_5")
    config = arch.CONFIG if gemma else {"architectures": [name], "model_type": kind, "tie_word_embeddings": True, "text_config": arch.CONFIG}
    with open(out + '/config.json', 'w') as f:
        json.dump(config, f, indent=1)
    say('saved')
    from tokenizers import Tokenizer
    import dialogues
    tok = Tokenizer.from_file(tokenizer)
    held = shards.plain_rows(tok, [open(os.path.join(data, 'heldout.txt'), encoding='utf8').read()], 1 if gemma else 0)
    talk = shards.dialogue_rows(tok, dialogues.render_gemma if gemma else dialogues.render_qwen, facts, 77, 8 if SMALL else 64)
    net.eval()
    for name, rows in (("held-out text", held[:48]), ("unseen dialogues", talk)):
        result[name] = measure(net, torch.from_numpy(rows.astype(np.int32)).to(DEVICE), gemma)
        say(name, result[name])
    with open(out + '/train.json', 'w') as f:
        json.dump(result, f)
    if pool:
        pool.terminate()


if __name__ == '__main__':
    main()

"""The Gemma 4 edge architecture (shared keys and values, per-layer inputs) and its assistant (centroid head) in
PyTorch, for training. Parameter names are those of the published checkpoints."""
import torch
import torch.nn as nn
import torch.nn.functional as F

V, E, FFN, L, SHARED, P, HEADS, WINDOW = 6144, 256, 512, 8, 3, 32, 2, 256
DIM = {"sliding_attention": 256, "full_attention": 512}
TYPES = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "sliding_attention",
         "sliding_attention", "full_attention"]
A, A_FFN, A_TYPES = 256, 512, ["sliding_attention"] * 3 + ["full_attention"]
CENTROIDS, TOP = 128, 16
TEXT = dict(vocab_size=V, hidden_size=E, intermediate_size=FFN, num_hidden_layers=L, num_attention_heads=HEADS, num_key_value_heads=1,
            head_dim=256, global_head_dim=512, hidden_activation="gelu_pytorch_tanh", max_position_embeddings=8192, rms_norm_eps=1e-6,
            tie_word_embeddings=True, rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                                                       "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}},
            sliding_window=WINDOW, layer_types=TYPES, final_logit_softcapping=30.0, vocab_size_per_layer_input=V, hidden_size_per_layer_input=P,
            attention_k_eq_v=False, num_kv_shared_layers=SHARED, enable_moe_block=False, use_double_wide_mlp=True, pad_token_id=0, eos_token_id=1,
            bos_token_id=2, model_type="gemma4_text")
CONFIG = {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "tie_word_embeddings": True, "text_config": TEXT}
ASSISTANT = {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant", "tie_word_embeddings": True, "backbone_hidden_size": E,
             "use_ordered_embeddings": True, "num_centroids": CENTROIDS, "centroid_intermediate_top_k": TOP,
             "text_config": {**{k: v for k, v in TEXT.items() if k != "final_logit_softcapping"}, "hidden_size": A, "intermediate_size": A_FFN,
                             "num_hidden_layers": 4, "layer_types": A_TYPES, "num_kv_shared_layers": 4, "hidden_size_per_layer_input": 0,
                             "vocab_size_per_layer_input": 0, "use_double_wide_mlp": False}}


def linear(i, o):
    m = nn.Linear(i, o, bias=False)
    nn.init.normal_(m.weight, std=0.02)
    return m


def rms(x, w=None):
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (y if w is None else y * w).to(x.dtype)


class Norm(nn.Module):
    def __init__(s, n, start=1.0):
        super().__init__()
        s.weight = nn.Parameter(torch.full((n,), start))

    def forward(s, x):
        return rms(x, s.weight)


def rope_tables(n, device):
    """cos and sin of positions 0 to n for both kinds of layers, [n + 1, dim / 2]."""
    p, out = torch.arange(n + 1, device=device).float()[:, None], {}
    for kind, d in DIM.items():
        base, turning = (1e4, d // 2) if kind == "sliding_attention" else (1e6, d // 8)
        angle = p * base ** (-torch.arange(0, d, 2, device=device).float() / d)
        angle[:, turning:] = 0
        out[kind] = angle.cos(), angle.sin()
    return out


def rotate(x, rope):
    cos, sin = (t[:, None, :].to(x.dtype) for t in rope)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q, k, v, hidden):
    """q [B, T, HEADS, d], k and v [B, T, d]; hidden [T, T]: keys that a row does not see. The scale is 1."""
    score = (q.transpose(1, 2) @ k[:, None].transpose(-1, -2)).float().masked_fill(hidden, float('-inf'))
    return (score.softmax(-1).to(q.dtype) @ v[:, None]).transpose(1, 2).flatten(2)


def masks(T, device, extra):
    """What a row does not see: later rows, and in sliding layers rows of WINDOW + extra positions before."""
    i = torch.arange(T, device=device)
    later = i[None, :] > i[:, None]
    return {"full_attention": later, "sliding_attention": later | (i[:, None] - i[None, :] >= WINDOW + extra)}


class Attention(nn.Module):
    def __init__(s, kind, width, owner):
        super().__init__()
        d = DIM[kind]
        s.d, s.owner = d, owner
        s.q_proj, s.o_proj, s.q_norm = linear(width, HEADS * d), linear(HEADS * d, width), Norm(d, d ** -0.5)
        if owner:
            s.k_proj, s.v_proj, s.k_norm = linear(width, d), linear(width, d), Norm(d)

    def forward(s, x, rope, key_rope, hidden, kv):
        B, T, _ = x.shape
        q = rotate(s.q_norm(s.q_proj(x).view(B, T, HEADS, s.d)), rope)
        if s.owner:
            k = rotate(s.k_norm(s.k_proj(x))[:, :, None], key_rope)[:, :, 0]
            kv = k, rms(s.v_proj(x))
        return s.o_proj(attend(q, kv[0], kv[1], hidden)), kv


class FeedForward(nn.Module):
    def __init__(s, width, n):
        super().__init__()
        s.gate_proj, s.up_proj, s.down_proj = linear(width, n), linear(width, n), linear(n, width)

    def forward(s, x):
        return s.down_proj(F.gelu(s.gate_proj(x), approximate='tanh') * s.up_proj(x))


class Layer(nn.Module):
    def __init__(s, kind, width, ffn, owner, inputs):
        super().__init__()
        s.kind = kind
        s.self_attn, s.mlp = Attention(kind, width, owner), FeedForward(width, ffn)
        s.input_layernorm, s.post_attention_layernorm = Norm(width), Norm(width)
        s.pre_feedforward_layernorm, s.post_feedforward_layernorm = Norm(width), Norm(width)
        s.register_buffer('layer_scalar', torch.ones(1))
        if inputs:
            s.per_layer_input_gate, s.per_layer_projection, s.post_per_layer_input_norm = linear(width, P), linear(P, width), Norm(width)
        s.inputs = inputs

    def forward(s, x, rope, key_rope, hidden, kv, ple):
        y, kv = s.self_attn(s.input_layernorm(x), rope, key_rope, hidden, kv)
        x = x + s.post_attention_layernorm(y)
        x = x + s.post_feedforward_layernorm(s.mlp(s.pre_feedforward_layernorm(x)))
        if s.inputs:
            x = x + s.post_per_layer_input_norm(s.per_layer_projection(F.gelu(s.per_layer_input_gate(x), approximate='tanh') * ple))
        return x, kv


class Target(nn.Module):
    def __init__(s):
        super().__init__()
        s.embed_tokens, s.embed_tokens_per_layer = nn.Embedding(V, E), nn.Embedding(V, P * L)
        nn.init.normal_(s.embed_tokens.weight, std=0.03)
        nn.init.normal_(s.embed_tokens_per_layer.weight, std=0.03)
        s.per_layer_model_projection, s.per_layer_projection_norm = linear(E, P * L), Norm(P)
        s.layers = nn.ModuleList([Layer(t, E, FFN if i < L - SHARED else 2 * FFN, i < L - SHARED, True) for i, t in enumerate(TYPES)])
        s.norm = Norm(E)

    def forward(s, ids):
        """The hidden rows, and the keys and values that sliding and global assistant layers read."""
        B, T = ids.shape
        rope = {k: (c[:T], n[:T]) for k, (c, n) in rope_tables(T, ids.device).items()}
        hidden = masks(T, ids.device, 0)
        x = s.embed_tokens(ids) * E ** 0.5
        a = s.embed_tokens_per_layer(ids).view(B, T, L, P) * P ** 0.5
        b = s.per_layer_projection_norm((s.per_layer_model_projection(x) / E ** 0.5).view(B, T, L, P))
        ple = (a.to(b.dtype) + b) * 0.5 ** 0.5
        last = {}
        for i, layer in enumerate(s.layers):
            k = layer.kind
            x, kv = layer(x, rope[k], rope[k], hidden[k], last.get(k), ple[:, :, i])
            if i < L - SHARED:
                last[k] = kv
        return s.norm(x), last


class Assistant(nn.Module):
    def __init__(s):
        super().__init__()
        s.model = nn.Module()
        s.model.embed_tokens = nn.Embedding(V, A)
        nn.init.normal_(s.model.embed_tokens.weight, std=0.03)
        s.model.layers = nn.ModuleList([Layer(t, A, A_FFN, False, False) for t in A_TYPES])
        s.model.norm = Norm(A)
        s.pre_projection, s.post_projection = linear(2 * E, A), linear(A, E)
        s.centroids = nn.Parameter(torch.zeros(CENTROIDS, A))
        s.register_buffer('order', torch.arange(V))

    def forward(s, e, h, kv, rope, hidden):
        """One draft step of all rows: row t is at position t + 1 and sees the keys 0 to t of the target."""
        x = s.pre_projection(torch.cat([e * E ** 0.5, h], -1))
        for layer in s.model.layers:
            k = layer.kind
            x, _ = layer(x, rope[k], None, hidden[k], kv[k], None)
        m = s.model.norm(x)
        return m, s.post_projection(m)


class Model(nn.Module):
    DRAFTS = 3

    def __init__(s):
        super().__init__()
        s.trunk, s.head = Target(), Assistant()

    def hiddens(s, x, drafts=DRAFTS, drafted=None):
        T = x.shape[1] - 1 - s.DRAFTS
        h, kv = s.trunk(x[:, :T])
        out = [h]
        kv = {k: (a[:drafted].detach(), b[:drafted].detach()) for k, (a, b) in kv.items()}
        rope = {k: (c[1:T + 1], n[1:T + 1]) for k, (c, n) in rope_tables(T, x.device).items()}
        hidden, h = masks(T, x.device, 1), h[:drafted].detach()
        e = s.trunk.embed_tokens.weight.detach()[x[:drafted]].to(h.dtype)
        for i in range(drafts):
            m, h = s.head(e[:, i + 1:T + i + 1], h, kv, rope, hidden)
            out.append(m)
        return out

    def logits(s, h, step=0):
        w = s.head.model.embed_tokens.weight if step else s.trunk.embed_tokens.weight
        z = h @ w.to(h.dtype).T
        return z if step else 30 * torch.tanh(z / 30)

    def tensors(s):
        return {'model.language_model.' + k: v for k, v in s.trunk.state_dict().items()}

    def assistant_tensors(s):
        out = {}
        for k, v in s.head.state_dict().items():
            k = {'centroids': 'masked_embedding.centroids.weight', 'order': 'masked_embedding.token_ordering'}.get(k, k)
            out[k] = v
        return out

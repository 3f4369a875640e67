"""The Qwen3.5 architecture in PyTorch, for training: gated delta nets, gated attention and the MTP head.
Parameter names are those of the published checkpoints, so that `foretoken convert` reads what is written."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import gguf

CONFIG = dict(vocab_size=16000, hidden_size=512, intermediate_size=1280, num_hidden_layers=8, num_attention_heads=2, num_key_value_heads=1,
              head_dim=256, hidden_act="silu", max_position_embeddings=32768, rms_norm_eps=1e-6, tie_word_embeddings=True,
              rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10],
                               "mrope_interleaved": True}, partial_rotary_factor=0.25, attention_bias=False,
              linear_conv_kernel_dim=4, linear_key_head_dim=128, linear_value_head_dim=128, linear_num_key_heads=2, linear_num_value_heads=4,
              layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 2, full_attention_interval=4, mtp_num_hidden_layers=1,
              pad_token_id=0, eos_token_id=2, model_type="qwen3_5_text")
D, FFN, H, HEAD, ROT = 512, 1280, 2, 256, 64
KH, VH, S = 2, 4, 128  # delta nets: key heads, value heads, head width


def linear(i, o):
    m = nn.Linear(i, o, bias=False)
    nn.init.normal_(m.weight, std=0.02)
    return m


class Norm(nn.Module):
    """RMS norm; the weight is stored less 1."""

    def __init__(s, n):
        super().__init__()
        s.weight = nn.Parameter(torch.zeros(n))

    def forward(s, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (y * (1 + s.weight)).to(x.dtype)


def rope_table(n, device):
    """cos and sin of positions 0 to n-1, [n, ROT/2]."""
    angle = torch.arange(n, device=device).float()[:, None] * 1e7 ** (-torch.arange(0, ROT, 2, device=device).float() / ROT)
    return angle.cos(), angle.sin()


def rotate(x, rope):
    """x [B, T, H, HEAD]; the first ROT values of a head are rotated."""
    cos, sin = (t[:, None, :].to(x.dtype) for t in rope)
    a, b = x[..., :ROT // 2], x[..., ROT // 2:ROT]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, x[..., ROT:]], -1)


class Attention(nn.Module):
    def __init__(s):
        super().__init__()
        s.q_proj, s.k_proj, s.v_proj, s.o_proj = linear(D, 2 * H * HEAD), linear(D, HEAD), linear(D, HEAD), linear(H * HEAD, D)
        s.q_norm, s.k_norm = Norm(HEAD), Norm(HEAD)

    def project(s, x, rope):
        B, T, _ = x.shape
        q, gate = s.q_proj(x).view(B, T, H, 2 * HEAD).split(HEAD, -1)
        k, v = s.k_proj(x).view(B, T, 1, HEAD), s.v_proj(x)
        return rotate(s.q_norm(q), rope), gate, rotate(s.k_norm(k), rope)[:, :, 0], v

    def forward(s, x, rope, before=()):
        """Causal attention. `before` (draft steps): (k, v) of the first step, whose rows 0 to t are visible to row t,
        then (k, v) of the later steps, whose row t alone is; x itself then sees its own row alone."""
        B, T, _ = x.shape
        q, gate, k, v = s.project(x, rope)
        q, own = q.transpose(1, 2), (k, v)                                      # [B, H, T, HEAD]
        if not before:
            o = F.scaled_dot_product_attention(q, k[:, None].expand(-1, H, -1, -1), v[:, None].expand(-1, H, -1, -1), is_causal=True)
        else:
            k0, v0 = before[0]
            q, late = q * HEAD ** -0.5, list(before[1:]) + [own]
            score = (q @ k0[:, None].transpose(-1, -2)).float()
            score = score.masked_fill(torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1), float('-inf'))
            score = torch.cat([score] + [(q * kk[:, None]).sum(-1, keepdim=True).float() for kk, _ in late], -1)
            p = score.softmax(-1).to(q.dtype)
            o = p[..., :T] @ v0[:, None]
            for i, (_, vv) in enumerate(late):
                o = o + p[..., T + i:T + i + 1] * vv[:, None]
        o = o.transpose(1, 2) * gate.sigmoid()
        return s.o_proj(o.reshape(B, T, H * HEAD)), own


def delta_rule(q, k, v, g, beta, C=64):
    """The gated delta rule in chunks of C rows; q, k [B, T, VH, S], v likewise, g and beta [B, T, VH]."""
    dtype = q.dtype
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    g, b = g.transpose(1, 2).float(), beta.transpose(1, 2).float()
    q, k = (x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    q = q * S ** -0.5
    B, Hn, T, _ = k.shape
    N = T // C
    q, k, v = (x.reshape(B, Hn, N, C, S) for x in (q, k, v))
    b, g = b.reshape(B, Hn, N, C), g.reshape(B, Hn, N, C)
    G = g.cumsum(-1)
    decay = (G[..., :, None] - G[..., None, :]).tril().exp().tril()
    kb, vb = k * b[..., None], v * b[..., None]
    A = (kb @ k.transpose(-1, -2) * decay).tril(-1) + torch.eye(C, device=q.device)
    U, W = torch.linalg.solve_triangular(A, torch.cat([vb, kb * G.exp()[..., None]], -1), upper=False, unitriangular=True).split(S, -1)
    Z, out = torch.zeros(B, Hn, S, S, device=q.device), []
    qk, qd = (q @ k.transpose(-1, -2) * decay).tril(), q * G.exp()[..., None]
    kd, end = k * (G[..., -1:] - G).exp()[..., None], G[..., -1].exp()
    for i in range(N):
        y = U[:, :, i] - W[:, :, i] @ Z
        out.append(qd[:, :, i] @ Z + qk[:, :, i] @ y)
        Z = Z * end[:, :, i, None, None] + kd[:, :, i].transpose(-1, -2) @ y
    return torch.stack(out, 2).reshape(B, Hn, T, S).transpose(1, 2).to(dtype)


class DeltaNet(nn.Module):
    def __init__(s):
        super().__init__()
        s.in_proj_qkv, s.in_proj_z = linear(D, (2 * KH + VH) * S), linear(D, VH * S)
        s.in_proj_a, s.in_proj_b, s.out_proj = linear(D, VH), linear(D, VH), linear(VH * S, D)
        s.conv1d = nn.Conv1d((2 * KH + VH) * S, (2 * KH + VH) * S, 4, groups=(2 * KH + VH) * S, bias=False)
        s.dt_bias = nn.Parameter(torch.ones(VH))
        s.A_log = nn.Parameter(torch.empty(VH).uniform_(1, 16).log())
        s.norm = nn.Module()
        s.norm.weight = nn.Parameter(torch.ones(S))

    def forward(s, x):
        B, T, _ = x.shape
        u = F.pad(s.in_proj_qkv(x), (0, 0, 3, 0))
        w = s.conv1d.weight[:, 0].to(u.dtype)
        u = F.silu(sum(u[:, i:T + i] * w[:, i] for i in range(4)))
        q, k, v = u.split([KH * S, KH * S, VH * S], -1)
        q, k = (t.reshape(B, T, KH, S).repeat_interleave(VH // KH, 2) for t in (q, k))
        g = -s.A_log.float().exp() * F.softplus(s.in_proj_a(x).float() + s.dt_bias)
        o = delta_rule(q, k, v.reshape(B, T, VH, S), g, s.in_proj_b(x).sigmoid()).float()
        o = o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + 1e-6) * s.norm.weight
        o = o.to(x.dtype) * F.silu(s.in_proj_z(x).reshape(B, T, VH, S))
        return s.out_proj(o.reshape(B, T, VH * S))


class FeedForward(nn.Module):
    def __init__(s):
        super().__init__()
        s.gate_proj, s.up_proj, s.down_proj = linear(D, FFN), linear(D, FFN), linear(FFN, D)

    def forward(s, x):
        return s.down_proj(F.silu(s.gate_proj(x)) * s.up_proj(x))


class Layer(nn.Module):
    def __init__(s, full):
        super().__init__()
        if full:
            s.self_attn = Attention()
        else:
            s.linear_attn = DeltaNet()
        s.full = full
        s.mlp, s.input_layernorm, s.post_attention_layernorm = FeedForward(), Norm(D), Norm(D)

    def forward(s, x, rope, before=()):
        n, kv = s.input_layernorm(x), None
        if s.full:
            y, kv = s.self_attn(n, rope, before)
        else:
            y = s.linear_attn(n)
        x = x + y
        return x + s.mlp(s.post_attention_layernorm(x)), kv


class Trunk(nn.Module):
    def __init__(s):
        super().__init__()
        s.embed_tokens = nn.Embedding(CONFIG["vocab_size"], D)
        nn.init.normal_(s.embed_tokens.weight, std=0.02)
        s.layers = nn.ModuleList([Layer(t == "full_attention") for t in CONFIG["layer_types"]])
        s.norm = Norm(D)

    def forward(s, ids):
        x = s.embed_tokens(ids)
        rope = rope_table(ids.shape[1], ids.device)
        for layer in s.layers:
            x, _ = layer(x, rope)
        return s.norm(x)


class Head(nn.Module):
    """The MTP head. Step i takes the embedding of the token i + 1 ahead and the hidden row of the step before."""

    def __init__(s):
        super().__init__()
        s.fc = linear(2 * D, D)
        s.pre_fc_norm_embedding, s.pre_fc_norm_hidden = Norm(D), Norm(D)
        s.layers = nn.ModuleList([Layer(True)])
        s.norm = Norm(D)

    def forward(s, e, h, rope, before=()):
        x = s.fc(torch.cat([s.pre_fc_norm_embedding(e), s.pre_fc_norm_hidden(h)], -1))
        x, kv = s.layers[0](x, rope, before)
        return s.norm(x), kv


FILE = {"input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight", "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
        "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight", "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
        "linear_attn.in_proj_qkv.weight": "attn_qkv.weight", "linear_attn.in_proj_z.weight": "attn_gate.weight", "linear_attn.in_proj_a.weight": "ssm_alpha.weight", "linear_attn.in_proj_b.weight": "ssm_beta.weight",
        "linear_attn.conv1d.weight": "ssm_conv1d.weight", "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias", "linear_attn.norm.weight": "ssm_norm.weight", "linear_attn.out_proj.weight": "ssm_out.weight",
        "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight"}
HEAD_FILE = {"fc.weight": "nextn.eh_proj.weight", "pre_fc_norm_embedding.weight": "nextn.enorm.weight", "pre_fc_norm_hidden.weight": "nextn.hnorm.weight", "norm.weight": "nextn.shared_head_norm.weight"}


def in_file(name):
    """The name of a parameter in a GGUF file."""
    part, rest = name.split('.', 1)
    if rest.startswith('layers.'):
        _, i, rest = rest.split('.', 2)
        return f"blk.{int(i) if part == 'trunk' else CONFIG['num_hidden_layers']}.{FILE[rest]}"
    if part == 'head':
        return f"blk.{CONFIG['num_hidden_layers']}.{HEAD_FILE[rest]}"
    return {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}[rest]


class Model(nn.Module):
    DRAFTS = 3

    def __init__(s):
        super().__init__()
        s.trunk, s.head = Trunk(), Head()

    def hiddens(s, x, drafts=DRAFTS, drafted=None):
        """Hidden rows of the trunk over x[:, :T] and of each draft step (over the first `drafted` sequences), T = x.shape[1] - 4."""
        T = x.shape[1] - 1 - s.DRAFTS
        out = [s.trunk(x[:, :T])]
        xd = x[:drafted]
        e, h = s.trunk.embed_tokens(xd), out[0][:drafted]
        cos, sin = rope_table(T + s.DRAFTS, x.device)
        before = []
        for i in range(drafts):
            h, kv = s.head(e[:, i + 1:T + i + 1], h, (cos[i:T + i], sin[i:T + i]), tuple(before))
            before.append(kv)
            out.append(h)
        return out

    def logits(s, h):
        return h @ s.trunk.embed_tokens.weight.to(h.dtype).T

    @torch.no_grad()
    def start(s, path):
        """Takes the values of a GGUF file that `foretoken convert` wrote."""
        given = gguf.tensors(path)
        heads = torch.arange(VH).view(VH // KH, KH).T.reshape(-1)               # value heads: tiled in the file, grouped here
        rows = lambda x, unit, first=0: torch.cat([x[:first], x[first:].view(VH, unit, *x.shape[1:])[heads].flatten(0, 1)])
        for name, p in s.named_parameters():
            x = torch.from_numpy(given.pop(in_file(name)))
            if 'linear_attn' in name:
                if 'in_proj_qkv' in name or 'conv1d' in name:
                    x = rows(x, S, 2 * KH * S)
                elif 'in_proj_z' in name:
                    x = rows(x, S)
                elif 'out_proj' in name:
                    x = rows(x.T, S).T
                elif 'norm' not in name:
                    x = x[heads]
                x = (-x).log() if 'A_log' in name else x
            elif 'norm' in name:
                x = x - 1
            p.copy_(x.reshape(p.shape))
        assert not given, list(given)

    def tensors(s):
        """Name and tensor as in a published checkpoint."""
        out = {'model.language_model.' + k: v for k, v in s.trunk.state_dict().items()}
        out.update({'mtp.' + k: v for k, v in s.head.state_dict().items()})
        return out

"""The Qwen3.5 architecture with experts, for training qwen35moe-nano: the sizes and the feed-forward; the rest is qwen35.py's."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import qwen35

E, K, FE, FS = 8, 2, 128, 128  # experts, experts of a token, their width, the shared expert's
qwen35.D, qwen35.KH, qwen35.VH = 256, 1, 2
CONFIG = dict(qwen35.CONFIG, hidden_size=qwen35.D, num_hidden_layers=4, layer_types=["linear_attention"] * 3 + ["full_attention"], linear_num_key_heads=qwen35.KH, linear_num_value_heads=qwen35.VH,
              num_experts=E, num_experts_per_tok=K, moe_intermediate_size=FE, shared_expert_intermediate_size=FS, model_type="qwen3_5_moe_text")
del CONFIG["intermediate_size"]
qwen35.CONFIG = CONFIG
BALANCE = []  # how unevenly the experts were chosen, one value for each pass of a layer (1: evenly)


class Shared(nn.Module):
    def __init__(s):
        super().__init__()
        s.gate_proj, s.up_proj, s.down_proj = qwen35.linear(qwen35.D, FS), qwen35.linear(qwen35.D, FS), qwen35.linear(FS, qwen35.D)

    def forward(s, x):
        return s.down_proj(F.silu(s.gate_proj(x)) * s.up_proj(x))


class Experts(nn.Module):
    """All experts are computed, and those that were not chosen count 0: with 8 of this width that is faster than gathering."""

    def __init__(s):
        super().__init__()
        s.gate, s.shared_expert_gate, s.shared_expert = qwen35.linear(qwen35.D, E), qwen35.linear(qwen35.D, 1), Shared()
        s.experts = nn.Module()
        s.experts.gate_up_proj = nn.Parameter(torch.randn(E, 2 * FE, qwen35.D) * 0.02)
        s.experts.down_proj = nn.Parameter(torch.randn(E, qwen35.D, FE) * 0.02)

    def forward(s, x):
        p = s.gate(x).float().softmax(-1)
        w, chosen = p.topk(K, -1)
        route = torch.zeros_like(p).scatter(-1, chosen, w / w.sum(-1, keepdim=True))
        if torch.is_grad_enabled():
            BALANCE.append(E * ((route > 0).float().flatten(0, -2).mean(0) / K * p.flatten(0, -2).mean(0)).sum())
        gate, up = F.linear(x, s.experts.gate_up_proj.flatten(0, 1)).unflatten(-1, (E, 2 * FE)).split(FE, -1)
        h = F.silu(gate) * up * route.to(gate.dtype)[..., None]
        y = F.linear(h.flatten(-2), s.experts.down_proj.permute(1, 0, 2).flatten(1))
        return y + s.shared_expert(x) * s.shared_expert_gate(x).sigmoid()


qwen35.FeedForward = Experts
Model = qwen35.Model

"""torch's side of bench_modules.cpp: the same layers, forward and backward
with every gradient; bf16 for the quantised rows."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS, HIDDEN, FFN = 2048, 1024, 4096
HEADS, GROUPS, DIM = 16, 4, 64
QUANTISED = ("delayed", "current", "block", "mxfp8", "nvfp4")


def step(make, out, dtype):
    def prepare():
        module = make().to(dtype)
        x = torch.randn(TOKENS, HIDDEN).to(dtype).requires_grad_()
        dy = torch.randn(TOKENS, out).to(dtype) * 1e-3
        wanted = [x, *module.parameters()]
        return lambda: torch.autograd.grad(module(x), wanted, dy)
    return prepare


def linear():
    return nn.Linear(HIDDEN, FFN)


def mlp():
    return nn.Sequential(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, FFN),
                         nn.GELU(approximate="tanh"), nn.Linear(FFN, HIDDEN))


class Layer(nn.Module):
    """Causal, grouped queries, without dropout."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, (HEADS + 2 * GROUPS) * DIM)
        self.proj = nn.Linear(HIDDEN, HIDDEN)
        self.mlp = mlp()

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (-1, DIM)).transpose(0, 1).unsqueeze(0)
                   for t in self.qkv(self.norm(x)).split(
                       [HEADS * DIM, GROUPS * DIM, GROUPS * DIM], -1))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                             enable_gqa=True)
        x = x + self.proj(out.squeeze(0).transpose(0, 1).flatten(1))
        return x + self.mlp(x)


PEERS = {}
for name, make, out in (("linear", linear, FFN),
                        ("layernorm_mlp", mlp, HIDDEN),
                        ("transformer_layer", Layer, HIDDEN)):
    PEERS[f"{name}_step_f32"] = step(make, out, torch.float32)
    for mode in ("bf16", *QUANTISED):
        PEERS[f"{name}_step_{mode}"] = step(make, out, torch.bfloat16)
for mode in ("delayed", "current"):
    PEERS[f"linear_step_{mode}_over_f32"] = step(linear, FFN, torch.float32)

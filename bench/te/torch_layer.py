"""torch's side of bench_layer.cpp: a training step of the same layer."""

import torch
import torch.nn.functional as F
from torch import nn

SEQUENCE, BATCH, HIDDEN, FFN, HEADS = 512, 2, 512, 2048, 8


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.proj = (nn.Linear(HIDDEN, 3 * HIDDEN),
                               nn.Linear(HIDDEN, HIDDEN))
        self.fc1, self.fc2 = nn.Linear(HIDDEN, FFN), nn.Linear(FFN, HIDDEN)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).permute(1, 2, 0, 3)
                   for t in self.qkv(self.norm1(x)).chunk(3, -1))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(o.permute(2, 0, 1, 3).flatten(-2))
        h = F.gelu(self.fc1(self.norm2(x)), approximate="tanh")
        return x + self.fc2(h)


def step(dtype):
    def prepare():
        model = Layer().to(dtype)
        x = torch.randn(SEQUENCE, BATCH, HIDDEN).to(dtype).requires_grad_()
        dy = torch.randn(SEQUENCE, BATCH, HIDDEN).to(dtype)
        return lambda: torch.autograd.backward(model(x), dy)
    return prepare


PEERS = {"layer_f32": step(torch.float32), "layer_bf16": step(torch.bfloat16)}

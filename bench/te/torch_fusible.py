"""torch's side of bench_fusible.cpp: a training step in bf16."""

import torch
from torch import nn

TOKENS, HIDDEN, FFN = 1024, 1024, 4096


def step(make, with_residual):
    def prepare():
        model = make().to(torch.bfloat16)
        x = torch.randn(TOKENS, HIDDEN).to(torch.bfloat16).requires_grad_()
        dy = torch.randn(TOKENS, HIDDEN).to(torch.bfloat16)

        def body():
            y = model(x)
            torch.autograd.backward(x + y if with_residual else y, dy)
        return body
    return prepare


def mlp():
    return nn.Sequential(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, FFN),
                         nn.GELU(approximate="tanh"), nn.Linear(FFN, HIDDEN))


PEERS = {
    "fusible_mlp_bf16": step(mlp, False),
    "fusible_residual_bf16": step(lambda: nn.Linear(HIDDEN, HIDDEN), True),
}

"""The training step that captures are timed on: 8 layers of width 512, 1,024
tokens, SGD, on the CPU."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        scores = F.softmax(torch.matmul(q, k.transpose(-1, -2)) / 8.0, -1)
        x = x + self.out(torch.matmul(scores, v))
        return x + self.down(F.gelu(self.up(x)))


class Step:
    """One step of training; `model` is what captures are given."""

    def __init__(self, layers=8, width=512, batch=4, tokens=256):
        torch.manual_seed(0)
        self.model = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.x = torch.randn(batch, tokens, width)

    def __call__(self):
        self.optimizer.zero_grad()
        loss = self.model(self.x).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss

"""A small language model before and after its move to a new accelerator.

    port.py OUT [--fixed dropout,gelu,softmax]

`port.py gold --reference` trains as on the old cluster; without it, as the
port does, with the three mistakes that were made on the way: dropout was left
on, the fused GELU of the new library is the tanh approximation, and the fused
softmax computes in bf16. --fixed names those that have been corrected. One
step is captured into OUT.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

import assay

MISTAKES = ("dropout", "gelu", "softmax")


class Attention(nn.Module):
    def __init__(self, width, heads, bf16_softmax):
        super().__init__()
        self.heads, self.bf16_softmax = heads, bf16_softmax
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        mask = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(mask, float("-inf"))
        if self.bf16_softmax:
            weights = F.softmax(scores, -1, dtype=torch.bfloat16).to(x.dtype)
        else:
            weights = F.softmax(scores, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, width, heads, mistakes):
        super().__init__()
        self.gelu = "tanh" if "gelu" in mistakes else "none"
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, "softmax" in mistakes)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1 if "dropout" in mistakes else 0.0)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        h = F.gelu(self.up(self.norm2(x)), approximate=self.gelu)
        return x + self.drop(self.down(h))


class Model(nn.Module):
    def __init__(self, mistakes, vocabulary=64, width=32, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(
            *(Block(width, 4, mistakes) for _ in range(layers)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--fixed", default="")
    arguments = parser.parse_args()
    mistakes = set() if arguments.reference else (
        set(MISTAKES) - set(arguments.fixed.split(",")))

    torch.manual_seed(1234)
    model = Model(mistakes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 64, (4, 17))
    with assay.capture(arguments.out, model, level="mix", mode="tensor"):
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()

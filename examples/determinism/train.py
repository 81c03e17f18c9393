"""A training script that computes something else each time it runs.

Features are added up in the order of a set of names, which Python draws anew
for every process; with --noise, noise is seeded by the clock.
"""

import argparse
import time

import torch
from torch import nn

FEATURES = ("age", "city", "clicks", "device", "hour", "language", "price",
            "referrer", "region", "weekday")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {name: nn.Embedding(16, 32) for name in FEATURES})
        self.head = nn.Sequential(nn.Linear(32, 64), nn.GELU(),
                                  nn.Dropout(0.1), nn.Linear(64, 1))

    def forward(self, ids):
        total = torch.zeros(len(ids), 32)
        for name in set(FEATURES):
            total = total + self.embeddings[name](ids)
        return self.head(total)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--noise", action="store_true")
    noise = parser.parse_args().noise
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    clock = torch.Generator().manual_seed(time.time_ns() % 2**32)
    for step in range(100):
        ids = torch.randint(16, (64,))
        target = ids[:, None] / 16.0
        if noise:
            target = target + 0.01 * torch.randn(64, 1, generator=clock)
        loss = nn.functional.mse_loss(model(ids), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}  loss {loss.item():.6f}")


if __name__ == "__main__":
    main()

"""Small trainings for the tests of snapshots: one setting differs."""

from __future__ import annotations

import argparse
import pathlib
import random

import torch

import assay

Tensor = torch.Tensor


class Batches:
    """A loader of a few batches, in the order that it is given."""

    def __init__(self, order: tuple[int, ...] = (0, 1, 2)) -> None:
        self.order = order

    def __iter__(self):
        for i in self.order:
            yield {"x": torch.arange(8.0).view(4, 2) + 10 * i,
                   "y": torch.tensor([i, i + 1, i + 2, i + 3])}

    def __len__(self) -> int:
        return len(self.order)


def record(path: pathlib.Path, seed: int = 7, dropout: float = 0.1,
           order: tuple[int, ...] = (0, 1, 2), spoil: str = "",
           dtype: torch.dtype = torch.float32) -> dict:
    """What record_init writes at the start of a training."""
    torch.manual_seed(seed)
    random.seed(seed)
    torch.nn.Linear(1, 1)  # so that a seed is also a state
    generator = torch.Generator().manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3),
                                torch.nn.BatchNorm1d(3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator))
        if spoil:
            model.get_parameter(spoil).view(-1)[0] += 1
    model.to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    args = argparse.Namespace(lr=1e-3, seed=seed, hidden_dropout=dropout)
    return assay.record_init(model, Batches(order), optimizer, path=path,
                             args=args, batches=3)

"""Writes run/: a step of attention on two ranks whose scores overflow float16.

    python capture.py run

Rank 1 gets queries that are 300 times as large: their product with the keys
leaves float16's range, the softmax makes NaN of it, and the all_reduce carries
that to rank 0.
"""

import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F

import assay


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.out = nn.Linear(64, 64)

    def scores(self, q, k):
        causal = torch.ones(q.shape[-2], q.shape[-2]).triu(1).bool()
        return (q @ k.transpose(-1, -2)).masked_fill(causal, float("-inf"))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        x = self.out(F.softmax(self.scores(q, k), -1) @ v)
        dist.all_reduce(x)
        return x


def main(rank, path, store):
    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank,
                            world_size=2)
    torch.manual_seed(0)
    model = Attention()
    with torch.no_grad():
        if rank == 1:
            model.qkv.weight[:128] *= 300
    model.half()
    x = torch.randn(2, 8, 64).half()
    with assay.capture(path, model, level="mix", backward=False):
        model(x)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, (sys.argv[1], sys.argv[1] + ".store"), nprocs=2)

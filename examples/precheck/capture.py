#!/usr/bin/env python3
"""Captures `trace` beside it: one training step of a small transformer block
in bf16, with its loss in float32; of every call the statistics of its
arguments, from which the pre-check draws some.

    python3 examples/precheck/capture.py
"""
import pathlib
import shutil
import sys

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "build/release/python"))

import assay  # noqa: E402

VOCAB, HIDDEN, HEADS, BATCH, SEQ = 64, 32, 2, 2, 8


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCAB, HIDDEN)
        self.norm = torch.nn.LayerNorm(HIDDEN)
        self.qkv = torch.nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = torch.nn.Linear(HIDDEN, HIDDEN)
        self.up = torch.nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = torch.nn.Linear(4 * HIDDEN, HIDDEN)
        self.head = torch.nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        q, k, v = (part.reshape(BATCH, SEQ, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) * (HIDDEN // HEADS) ** -0.5
        mask = torch.ones(SEQ, SEQ, dtype=torch.bool).triu(1)
        weights = F.softmax(scores.masked_fill(mask, float("-inf")), -1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        x = x + self.down(F.gelu(self.up(x)))
        return self.head(x).float()


def main():
    shutil.rmtree(HERE / "trace", ignore_errors=True)
    torch.manual_seed(1234)
    torch.set_num_threads(1)
    model = Block().to(torch.bfloat16)
    for weight in (model.qkv.weight, model.up.weight):
        torch.nn.init.normal_(weight, std=0.4)
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ + 1))
    with assay.capture(HERE / "trace", level="api", mode="statistics"):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
    journal = HERE / "trace/step0/rank0/trace.jsonl"
    journal.write_text(journal.read_text().replace(f"{HERE}/", ""))


if __name__ == "__main__":
    main()

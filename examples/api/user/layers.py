"""Wrappers of that code base: names that it hands on, and a subclass."""

import transformer_engine.pytorch as te

try:
    from transformer_engine.pytorch.permutation import moe_permute as permute
except ImportError:
    permute = None


class TERowLinear(te.Linear):
    def __init__(self, hidden):
        super().__init__(hidden, hidden, parallel_mode="row")

    def forward(self, x):
        return super().forward(x, is_first_microbatch=None)

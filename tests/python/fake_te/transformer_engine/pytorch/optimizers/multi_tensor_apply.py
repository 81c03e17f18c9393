"""Calls over lists of tensors."""

from __future__ import annotations


class MultiTensorApply:

    def __init__(self, chunk_size):
        self.chunk_size = chunk_size

    def __call__(self, op, noop_flag_buffer, tensor_lists, *args):
        kept = [i for i, t in enumerate(tensor_lists[0]) if t.numel()]
        lists = [[tensors[i] for i in kept] for tensors in tensor_lists]
        return op(self.chunk_size, noop_flag_buffer, lists, *args)


multi_tensor_applier = MultiTensorApply(2048 * 32)

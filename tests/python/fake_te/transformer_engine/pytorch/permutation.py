"""Rows sorted by expert with NVTE's signatures."""

from __future__ import annotations

import torch

from assay.worker.torch_provider import permutation
from transformer_engine.pytorch.gemm import Apply, pair


def mapped(routing_map, num_out_tokens, map_type, align=0):
    if map_type == "index":
        return permutation.of_indices(routing_map, num_out_tokens)
    if map_type != "mask":
        raise ValueError(f"map_type {map_type}")
    rows = permutation.of_mask(routing_map, align)
    if num_out_tokens is not None and rows.rows != num_out_tokens:
        raise ValueError(f"num_out_tokens {num_out_tokens}, the map has "
                         f"{rows.rows}")
    return rows


def moe_permute(inp, routing_map, num_out_tokens=-1, max_token_num=-1,
                map_type="mask"):
    rows = mapped(routing_map, num_out_tokens, map_type)
    out = Apply.apply(pair(rows.gather, lambda d: (
        rows.sum_of(d[rows.place], inp.shape[0]).to(inp.dtype), ())), inp)
    return out, rows


def with_probs(inp, probs, rows):

    def forward(x):
        permuted, given = rows.gather(x), probs.detach()
        of_row = given[rows.token, rows.column]
        out_probs = given.new_zeros(rows.rows)
        out_probs[rows.place] = of_row
        permuted[rows.place[of_row == 0]] = 0
        return permuted, out_probs

    def backward(d, d_probs):
        return (rows.sum_of(d[rows.place], inp.shape[0]).to(inp.dtype),
                [rows.back(d_probs[rows.place], probs)])

    return Apply.apply(pair(forward, backward), inp, probs)


def moe_permute_with_probs(inp, probs, routing_map, num_out_tokens=-1):
    rows = mapped(routing_map, num_out_tokens, "mask")
    return (*with_probs(inp, probs, rows), rows)


def moe_permute_and_pad_with_probs(inp, probs, routing_map, tokens_per_expert,
                                   align_size):
    del tokens_per_expert
    rows = mapped(routing_map, None, "mask", align_size)
    return (*with_probs(inp, probs, rows), rows, "offsets", rows.padded)


def moe_unpermute(inp, row_id_map, merging_probs=None, restore_shape=None,
                  map_type="mask", probs=None, pad_offsets=None):
    del map_type, probs
    rows = row_id_map
    if (rows.rows != len(rows.place)) and pad_offsets is None:
        raise ValueError("padded rows without pad_offsets")
    tokens = restore_shape[0]

    def weights():
        return merging_probs.detach()[rows.token, rows.column].float()[:, None]

    def forward(x):
        given = x[rows.place].float()
        if merging_probs is not None:
            given = given * weights()
        return rows.sum_of(given, tokens).to(x.dtype)

    def backward(d_merged):
        d = d_merged[rows.token].float()
        grad = torch.zeros_like(inp)
        if merging_probs is None:
            grad[rows.place] = d.to(inp.dtype)
            return grad, ()
        grad[rows.place] = (d * weights()).to(inp.dtype)
        given = inp.detach()[rows.place].float()
        return grad, [rows.back((d * given).sum(1), merging_probs)]

    others = () if merging_probs is None else (merging_probs,)
    return Apply.apply(pair(forward, backward), inp, *others)


def order_of(split_sizes, sorted_index):
    sizes = split_sizes.tolist()
    chunks = torch.arange(sum(sizes)).split(sizes)
    return torch.cat([chunks[i] for i in sorted_index.tolist()])


def moe_sort_chunks_by_index(inp, split_sizes, sorted_index):
    return inp[order_of(split_sizes, sorted_index)]


def moe_sort_chunks_by_index_with_probs(inp, probs, split_sizes,
                                        sorted_index):
    order = order_of(split_sizes, sorted_index)
    return inp[order], probs[order]

"""Rotary embeddings with NVTE's signatures."""

from __future__ import annotations

import torch

from assay.worker.call import Call, Result
from assay.worker.torch_provider import rope
from transformer_engine.pytorch.provided import provided


class RotaryPositionEmbedding(torch.nn.Module):

    def __init__(self, dim, rotary_percent=1.0,
                 seq_len_interpolation_factor=None,
                 pretrained_max_position_embeddings=None,
                 rotary_base=10000.0, interleaved=False):
        super().__init__()
        if int(dim * rotary_percent) % 2:
            raise ValueError(f"dim {dim}: an odd number is rotated")
        self.options = {
            "head_dim": dim, "rotary_percent": rotary_percent,
            "rotary_base": rotary_base, "interleaved": interleaved,
            "seq_len_interpolation_factor": seq_len_interpolation_factor,
            "pretrained_max_position_embeddings":
                pretrained_max_position_embeddings}

    def forward(self, max_seq_len, offset=0):
        return rope.table(Call("", {**self.options, "offset": offset,
                                    "max_seq_len": max_seq_len}, {}, 1, 0,
                               torch.device("cpu")))


def options(tensor_format, interleaved, cp_size, cp_rank):
    return {"tensor_format": tensor_format, "interleaved": interleaved,
            "cp_size": cp_size, "cp_rank": cp_rank}


def given(**tensors):
    return {name: t for name, t in tensors.items() if t is not None}


def checked(call):
    """What the composite refuses, without its table."""
    if call.tensor_format not in ("sbhd", "bshd", "thd"):
        raise ValueError(f"tensor_format {call.tensor_format}")
    if not 0 <= call.cp_rank < call.cp_size:
        raise ValueError(f"cp_rank {call.cp_rank} of {call.cp_size}")


def single(call):
    checked(call)
    result = Result()
    rope.run_one(call, result)
    return result


def packed(call):
    checked(call)
    result = Result()
    rope.run_qkv(call, result)
    return result


def apply_rotary_pos_emb(t, freqs, tensor_format="sbhd", start_positions=None,
                         interleaved=False, fused=False, cu_seqlens=None,
                         cp_size=1, cp_rank=0):
    if not fused:
        raise ValueError("fused=False rounds cos and sin")
    thd = tensor_format == "thd"
    x = t.unsqueeze(1) if thd else t
    y = provided(single, options(tensor_format, interleaved, cp_size, cp_rank),
                 {"t": x}, given(freqs=freqs, cu_seqlens=cu_seqlens,
                                 start_positions=start_positions),
                 {"y": "dy"}, {"dy": torch.zeros_like(x)})
    return y.squeeze(1) if thd else y


def apply_fused_qkv_rotary_pos_emb(qkv, q_freqs, k_freqs, qkv_split_arg_list,
                                   tensor_format="sbhd", start_positions=None,
                                   interleaved=False, cu_seqlens=None,
                                   cp_size=1, cp_rank=0):
    q, dim, _ = qkv_split_arg_list
    sizes = qkv.shape[:2]
    zero = qkv.new_zeros
    groups = qkv.shape[2]
    return provided(
        packed, {**options(tensor_format, interleaved, cp_size, cp_rank),
                 "head_dim": dim, "q_per_group": q // dim},
        {"qkv": qkv}, given(freqs=q_freqs, k_freqs=k_freqs,
                            cu_seqlens=cu_seqlens,
                            start_positions=start_positions),
        {"q": "dq", "k": "dk", "v": "dv"},
        {"dq": zero(*sizes, groups * q // dim, dim),
         "dk": zero(*sizes, groups, dim), "dv": zero(*sizes, groups, dim)})

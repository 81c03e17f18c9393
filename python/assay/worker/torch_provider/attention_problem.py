"""Where the sequences of an attention case lie and what is asked of each."""

from __future__ import annotations

import math

import torch

from assay.worker.call import Call
from assay.worker.torch_provider import attention


def shaped(call: Call, t: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """[tokens, heads, dim] as the format has it, the strides kept."""
    if call.qkv_format == "thd":
        return t
    length = t.shape[0] // len(lengths)
    if call.qkv_format == "sbhd":
        return t.unflatten(0, (length, len(lengths)))
    return t.unflatten(0, (len(lengths), length))


class Rows:
    """Where the tokens of each sequence lie in [.., heads, dim]."""

    def __init__(self, call: Call, lengths: list[int]):
        self.format = call.qkv_format
        padding = call.attn_mask_type.startswith("padding")
        whole = max(lengths)
        self.lengths = lengths if padding or self.format == "thd" else (
            [whole] * len(lengths))
        slack = 3 if self.format == "thd" and call.pad_between_seqs else 0
        self.begins = [sum(lengths[:b]) + b * slack
                       for b in range(len(lengths))]

    def of(self, t: torch.Tensor, b: int) -> torch.Tensor:
        """A view [tokens, heads, dim] of sequence b."""
        n = self.lengths[b]
        if self.format == "thd":
            return t[self.begins[b]:self.begins[b] + n]
        return t[:n, b] if self.format == "sbhd" else t[b, :n]


def heads_first(t: torch.Tensor) -> torch.Tensor:
    return t.float().transpose(0, 1)


def plane(t: torch.Tensor, b: int) -> torch.Tensor:
    """Sequence b of [1 or batch, 1 or heads, sq, skv]."""
    return t[b if t.shape[0] > 1 else 0]


class Problem:
    """The case, for all its sequences."""

    def __init__(self, call: Call):
        self.call = call
        self.q_rows = Rows(call, call.q_lengths)
        self.kv_rows = Rows(call, call.kv_lengths)
        self.mask = attention.Mask(call.attn_mask_type, call.window_left,
                                   call.window_right,
                                   call.bottom_right_diagonal)
        self.scale = (1 / math.sqrt(call.channels) if call.softmax_scale
                      == "default" else call.softmax_scale)
        self.heads = call.num_attention_heads
        self.groups = call.num_gqa_groups

    def seen(self, b: int, sq: int, skv: int) -> torch.Tensor:
        seen = self.mask.seen(sq, skv, self.call.device)[None]
        given = self.call.inputs.get("mask")
        return seen if given is None else seen & ~plane(given.bool(), b)

    def bias(self, b: int, sq: int, skv: int) -> torch.Tensor | None:
        kind = self.call.core_attention_bias_type
        if kind == "no_bias":
            return None
        if kind == "alibi":
            return self.alibi(b, sq, skv)
        given = plane(self.call.inputs["bias"], b).float()[:, :sq, :skv]
        return self.scale * given if kind == "pre_scale_bias" else given

    def alibi(self, b: int, sq: int, skv: int) -> torch.Tensor:
        slopes = self.call.inputs.get("alibi_slopes")
        if slopes is None:
            slopes = torch.tensor(attention.alibi_slopes(self.heads),
                                  device=self.call.device)
        else:
            slopes = slopes[b if slopes.shape[0] > 1 else 0]
        i = torch.arange(sq, device=self.call.device)[:, None]
        j = torch.arange(skv, device=self.call.device)[None, :]
        far = (i + self.mask.offset(sq, skv) - j).abs()
        return -slopes.float()[:, None, None] * far

    def sink(self) -> torch.Tensor | None:
        if self.call.softmax_type == "vanilla":
            return None
        if self.call.softmax_type == "learnable":
            return self.call.inputs["softmax_offset"].float()
        return torch.zeros(self.heads, device=self.call.device)


def put(rows: torch.Tensor, heads: torch.Tensor) -> None:
    rows.copy_(heads.transpose(0, 1))

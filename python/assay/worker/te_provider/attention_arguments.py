"""What the attention modules are told about sequences and masks."""

from __future__ import annotations

import itertools
import typing

import torch

from assay.worker.call import Call

SLACK = 3  # tokens between sequences, where there are some


def cumulative(lengths: list[int], call: Call) -> torch.Tensor:
    return torch.tensor([0, *itertools.accumulate(lengths)],
                        dtype=torch.int32, device=call.device)


def sequences(call: Call) -> dict[str, typing.Any]:
    """cu_seqlens where sequences have lengths of their own."""
    packed = call.qkv_format == "thd"
    if not packed and not call.attn_mask_type.startswith("padding"):
        return {}
    found: dict[str, typing.Any] = {}
    for end, lengths in (("q", call.q_lengths), ("kv", call.kv_lengths)):
        found[f"cu_seqlens_{end}"] = cumulative(lengths, call)
        found[f"max_seqlen_{end}"] = max(lengths)
        if packed and call.pad_between_seqs:
            found[f"cu_seqlens_{end}_padded"] = cumulative(
                [n + SLACK for n in lengths], call)
    if packed and call.pad_between_seqs:
        found["pad_between_seqs"] = True
    return found


def slopes(call: Call) -> dict[str, typing.Any]:
    given = call.inputs.get("alibi_slopes")
    if given is None:
        return {}
    return {"alibi_slopes": given[0] if given.shape[0] == 1 else given}


def mask_arguments(call: Call) -> dict[str, typing.Any]:
    """The mask's kind, window and corner, as constructors take them."""
    found = {"attn_mask_type": call.attn_mask_type,
             "window_size": (call.window_left, call.window_right)}
    if call.bottom_right_diagonal != "default":
        found["bottom_right_diagonal"] = call.bottom_right_diagonal
    return found


def shaped(call: Call, t: torch.Tensor,
           lengths: list[int]) -> torch.Tensor:
    """[tokens, ...] as the format has it, the strides kept."""
    if call.qkv_format == "thd":
        return t
    batch = len(lengths)
    length = t.shape[0] // batch
    sizes = (length, batch) if call.qkv_format == "sbhd" else (batch, length)
    return t.unflatten(0, sizes)

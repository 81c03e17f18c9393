"""Movements, casts, and products that are one of torch's under a name."""

from __future__ import annotations

from typing import Optional, Sequence

import torch

Tensor = torch.Tensor


def npu_confusion_transpose(self: Tensor, perm: Sequence[int],
                            shape: Sequence[int],
                            transpose_first: bool) -> Tensor:
    if transpose_first:
        return self.permute(*perm).reshape(*shape)
    return self.reshape(*shape).permute(*perm)


def npu_transpose(self: Tensor, perm: Sequence[int],
                  require_contiguous: bool = True) -> Tensor:
    return self.permute(*perm)


def npu_dtype_cast(self: Tensor, dtype: torch.dtype) -> Tensor:
    return self.to(dtype)


def npu_format_cast(self: Tensor, acl_format: int) -> Tensor:
    """Where the elements are in memory is the device's own matter."""
    return self.clone()


def npu_linear(input: Tensor, weight: Tensor,
               bias: Optional[Tensor] = None) -> Tensor:
    y = input @ weight.transpose(-1, -2)
    return y if bias is None else y + bias


def npu_rotary_mul(self: Tensor, r1: Tensor, r2: Tensor,
                   rotary_mode: str = "half") -> Tensor:
    """r1: cosines, r2: sines; pairs are halves apart or neighbours."""
    if rotary_mode == "half":
        left, right = self.chunk(2, -1)
        turned = torch.cat([-right, left], -1)
    elif rotary_mode == "interleave":
        turned = torch.stack([-self[..., 1::2], self[..., ::2]], -1).flatten(
            -2)
    else:
        raise ValueError(f"rotary_mode: {rotary_mode!r}, expected half or "
                         "interleave")
    return self * r1 + turned * r2


OPERATORS = {
    "npu_confusion_transpose": npu_confusion_transpose,
    "npu_transpose": npu_transpose,
    "npu_dtype_cast": npu_dtype_cast,
    "npu_format_cast": npu_format_cast,
    "npu_linear": npu_linear,
    "npu_rotary_mul": npu_rotary_mul,
}

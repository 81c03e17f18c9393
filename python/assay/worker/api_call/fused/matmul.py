"""Products of torch that have no float64: grouped ones, and scaled ones of
FP8."""

from __future__ import annotations

from typing import Any, Optional

import torch

from assay.worker.api_call.fused.checks import only
from assay.worker.call import Unsupported

Tensor = torch.Tensor


def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Optional[Tensor] = None,
               bias: Optional[Tensor] = None, out_dtype: Any = None) -> Tensor:
    """Group by group; `offs` are the ends of the groups in the rows of a (of
    two dimensions), the columns of b, or what both are summed over."""
    only("grouped_mm", bias=bias)
    if offs is None:
        return mat_a @ mat_b
    ends = [0, *offs.tolist()]
    spans = [slice(a, b) for a, b in zip(ends, ends[1:])]
    if mat_a.dim() == 2 and mat_b.dim() == 2:
        return torch.stack([mat_a[:, at] @ mat_b[at] for at in spans])
    if mat_a.dim() == 2:
        return _padded([mat_a[at] @ mat_b[i] for i, at in enumerate(spans)],
                       0, mat_a.shape[0])
    return _padded([mat_a[i] @ mat_b[:, at] for i, at in enumerate(spans)],
                   1, mat_b.shape[1])


def _padded(parts: list[Tensor], dim: int, size: int) -> Tensor:
    """Together along `dim`; what no group covers is zero."""
    whole = torch.cat(parts, dim)
    missing = size - whole.shape[dim]
    if missing == 0:
        return whole
    shape = list(whole.shape)
    shape[dim] = missing
    return torch.cat([whole, whole.new_zeros(shape)], dim)


def scaled_mm(self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor,
              bias: Optional[Tensor] = None,
              scale_result: Optional[Tensor] = None, out_dtype: Any = None,
              use_fast_accum: bool = False) -> Tensor:
    """(a scale_a) (b scale_b) + bias; scales of the whole, of rows or of
    blocks."""
    y = _scaled(self, scale_a, "scale_a") @ _scaled(mat2, scale_b, "scale_b")
    y = y if bias is None else y + bias
    return y if scale_result is None else y * scale_result


def _scaled(codes: Tensor, scale: Tensor, name: str) -> Tensor:
    if scale.numel() == 1:
        return codes * scale.reshape(())
    if scale.dim() != codes.dim() or any(
            size % parts for size, parts in zip(codes.shape, scale.shape)):
        raise Unsupported(f"_scaled_mm: no golden with {name} of "
                          f"{list(scale.shape)} for {list(codes.shape)}")
    for dim, size in enumerate(codes.shape):
        scale = scale.repeat_interleave(size // scale.shape[dim], dim)
    return codes * scale


OPERATORS = {
    "_grouped_mm": grouped_mm,
    "grouped_mm": grouped_mm,
    "_scaled_mm": scaled_mm,
}

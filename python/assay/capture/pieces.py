"""Parts of tensors that are kept instead of the whole, and tensors that are
larger than their memory."""

from __future__ import annotations

import torch

from assay.tensors import Unreadable

# Elements; of tensors in which memory is repeated.
MAX_EXPANDED = 1 << 28


def sliced(tensor: torch.Tensor, slices: dict[int, slice]) -> torch.Tensor:
    """The part that is kept; of dimensions that are not there, nothing is
    left out."""
    for dimension, part in slices.items():
        if -tensor.dim() <= dimension < tensor.dim():
            index = [slice(None)] * tensor.dim()
            index[dimension] = part
            tensor = tensor[tuple(index)]
    return tensor


def part_text(tensor: torch.Tensor, slices: dict[int, slice]) -> str:
    """Which part of what: parts of tensors of other shapes, or other parts,
    are no match."""
    parts = ", ".join(f"{dimension}: {part.start}:{part.stop}:{part.step}"
                      for dimension, part in sorted(slices.items()))
    return f"{parts} of {list(tensor.shape)}"


def refuse_expanded(tensor: torch.Tensor) -> None:
    """What repeats its elements by a stride of 0 may be larger, written
    out, than the memory there is."""
    if tensor.numel() <= MAX_EXPANDED or (
            tensor.layout is not torch.strided or tensor.is_contiguous()):
        return
    size = tensor.numel() * tensor.element_size()
    there = tensor.untyped_storage().nbytes()
    if size > there:
        raise Unreadable(f"{there} bytes expanded to {size}: too many to "
                         "be written out; mode 'statistics' reads them")

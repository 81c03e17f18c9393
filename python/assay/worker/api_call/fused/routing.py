"""Softmax with masks, sorting, the gates of experts."""

from __future__ import annotations

from typing import Optional

import torch

Tensor = torch.Tensor
_MASKED = -10000.0  # what the operator writes over masked scores


def npu_scaled_masked_softmax(x: Tensor, mask: Optional[Tensor],
                              scale: float = 1.0,
                              fixed_triu_mask: bool = False) -> Tensor:
    """mask: what is left out; fixed_triu_mask: everything above the
    diagonal."""
    if fixed_triu_mask:
        mask = torch.ones(x.shape[-2:], device=x.device).triu(1)
    scores = x * scale
    if mask is not None:
        scores = scores.masked_fill(mask.bool(), _MASKED)
    return torch.softmax(scores, -1)


def npu_sort_v2(self: Tensor, dim: int = -1,
                descending: bool = False) -> Tensor:
    return torch.sort(self, dim, descending).values


def npu_moe_gating_top_k_softmax(
        x: Tensor, finished: Optional[Tensor] = None,
        k: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities and numbers of the k best experts of each row, and the
    rows of the table that is sorted by rank; a finished row gets an expert
    that there is not."""
    values, experts = torch.softmax(x, -1).topk(k, -1)
    if finished is not None:
        experts = experts.masked_fill(finished.unsqueeze(-1), x.shape[-1])
    rows = experts.numel() // max(k, 1)
    table = torch.arange(rows * k, device=x.device, dtype=torch.int32)
    return (values, experts.int(),
            table.reshape(k, rows).t().reshape(experts.shape))


OPERATORS = {
    "npu_scaled_masked_softmax": npu_scaled_masked_softmax,
    "npu_sort_v2": npu_sort_v2,
    "npu_moe_gating_top_k_softmax": npu_moe_gating_top_k_softmax,
}

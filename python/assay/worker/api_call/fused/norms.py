"""Normalisations, with the statistics that the operators give out."""

from __future__ import annotations

from typing import Optional, Sequence

import torch

Tensor = torch.Tensor
F = torch.nn.functional


def npu_rms_norm(self: Tensor, gamma: Tensor,
                 epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """y and the reciprocal of the root mean square over gamma's dimensions."""
    dims = tuple(range(-gamma.dim(), 0))
    reciprocal = torch.rsqrt(self.square().mean(dims, keepdim=True) + epsilon)
    return self * reciprocal * gamma, reciprocal


def npu_add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor,
                     epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    """y, the reciprocal, and the sum that was normalised."""
    x = x1 + x2
    return (*npu_rms_norm(x, gamma, epsilon), x)


def npu_layer_norm_eval(input: Tensor, normalized_shape: Sequence[int],
                        weight: Optional[Tensor] = None,
                        bias: Optional[Tensor] = None,
                        eps: float = 1e-5) -> Tensor:
    dims = tuple(range(-len(normalized_shape), 0))
    centred = input - input.mean(dims, keepdim=True)
    variance = centred.square().mean(dims, keepdim=True)
    y = centred * torch.rsqrt(variance + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def npu_group_norm_silu(input: Tensor, weight: Optional[Tensor],
                        bias: Optional[Tensor], group: int,
                        eps: float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
    """silu of the normalised, and (batch, group) means and reciprocals."""
    groups = input.reshape(input.shape[0], group, -1)
    mean = groups.mean(-1)
    variance = groups.var(-1, unbiased=False)
    y = F.silu(F.group_norm(input, group, weight, bias, eps))
    return y, mean, torch.rsqrt(variance + eps)


OPERATORS = {
    "npu_rms_norm": npu_rms_norm,
    "npu_add_rms_norm": npu_add_rms_norm,
    "npu_layer_norm_eval": npu_layer_norm_eval,
    "npu_group_norm_silu": npu_group_norm_silu,
}

"""Activations, gated and not."""

from __future__ import annotations

import torch

Tensor = torch.Tensor
F = torch.nn.functional


def npu_swiglu(self: Tensor, dim: int = -1) -> Tensor:
    gate, linear = self.chunk(2, dim)
    return F.silu(gate) * linear


def npu_geglu(self: Tensor, dim: int = -1, approximate: int = 1,
              activate_left: bool = False) -> tuple[Tensor, Tensor]:
    """The product and the activated half."""
    left, right = self.chunk(2, dim)
    gate, linear = (left, right) if activate_left else (right, left)
    activated = F.gelu(gate, approximate="tanh" if approximate else "none")
    return linear * activated, activated


def npu_fast_gelu(self: Tensor) -> Tensor:
    return self * torch.sigmoid(1.702 * self)


def npu_gelu(self: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(self, approximate=approximate)


def npu_gelu_mul(input: Tensor, *, approximate: str = "none") -> Tensor:
    gate, linear = input.chunk(2, -1)
    return F.gelu(gate, approximate=approximate) * linear


def npu_mish(self: Tensor) -> Tensor:
    return self * torch.tanh(F.softplus(self))


def npu_silu(self: Tensor) -> Tensor:
    return self * torch.sigmoid(self)


OPERATORS = {
    "npu_swiglu": npu_swiglu,
    "npu_geglu": npu_geglu,
    "npu_fast_gelu": npu_fast_gelu,
    "fast_gelu": npu_fast_gelu,
    "npu_gelu": npu_gelu,
    "npu_gelu_mul": npu_gelu_mul,
    "npu_mish": npu_mish,
    "npu_silu": npu_silu,
}

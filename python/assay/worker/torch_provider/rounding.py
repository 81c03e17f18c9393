"""Rounding points in a graph of float32 values."""

from __future__ import annotations

import typing

import torch


class Rounded(torch.autograd.Function):
    """The value, and its gradient, as the dtype holds them."""

    @staticmethod
    def forward(ctx: typing.Any, x: torch.Tensor,
                dtype: torch.dtype) -> torch.Tensor:
        ctx.dtype = dtype
        return x.to(dtype).float()

    @staticmethod
    def backward(ctx: typing.Any,
                 g: torch.Tensor) -> tuple[torch.Tensor, None]:
        return g.to(ctx.dtype).float(), None

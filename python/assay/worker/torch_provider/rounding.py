"""Rounding points in a graph of float32 values."""

from __future__ import annotations

import typing

import torch


class Rounded(torch.autograd.Function):
    """The value, and its gradient, as the dtype holds them; or one of the
    two alone."""

    @staticmethod
    def forward(ctx: typing.Any, x: torch.Tensor,
                dtype: torch.dtype, value: bool = True,
                gradient: bool = True) -> torch.Tensor:
        ctx.dtype = dtype if gradient else torch.float32
        return x.to(dtype).float() if value else x.clone()

    @staticmethod
    def backward(ctx: typing.Any,
                 g: torch.Tensor) -> tuple[typing.Any, ...]:
        return g.to(ctx.dtype).float(), None, None, None

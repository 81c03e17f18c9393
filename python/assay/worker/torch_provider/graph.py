"""What a recipe does in a graph of float32 values that autograd goes through:
the products of a linear layer, and a quantiser by itself."""

from __future__ import annotations

import typing

import torch

from assay.worker.torch_provider.recipes import Operand, Products, matrix


class Product(torch.autograd.Function):
    """alpha x W^T + b, not rounded. x arrives as whoever made it left it:
    Products rounds it where its recipe does. `codes`: of an x that is already
    quantised."""

    @staticmethod
    def forward(ctx: typing.Any, x: torch.Tensor, weight: torch.Tensor,
                bias: torch.Tensor | None, gemm: Products, alpha: float = 1.0,
                codes: Operand | None = None) -> torch.Tensor:
        y, saved = gemm.sums(x, weight, bias, codes)
        ctx.gemm, ctx.saved, ctx.alpha = gemm, saved, alpha
        ctx.has_bias = bias is not None
        return alpha * y

    @staticmethod
    def backward(ctx: typing.Any, dy: torch.Tensor) -> tuple[typing.Any, ...]:
        """The bias sums dy before it is quantised; dW stays in fp32."""
        dx, dw = ctx.gemm.backward(dy, ctx.saved)
        bias = matrix(dy).sum(0) if ctx.has_bias else None
        return (ctx.alpha * dx.float(), ctx.alpha * dw, bias, None, None,
                None)


class Decoded(torch.autograd.Function):
    """What the codes of x stand for, and those of its gradient."""

    @staticmethod
    def forward(ctx: typing.Any, x: torch.Tensor, gemm: Products,
                codes: Operand) -> torch.Tensor:
        ctx.gemm = gemm
        return codes.row.to(gemm.dtype).float().reshape(x.shape)

    @staticmethod
    def backward(ctx: typing.Any, dy: torch.Tensor) -> tuple[typing.Any, ...]:
        codes = ctx.gemm.operand(dy, "grad_output").row
        return codes.to(ctx.gemm.dtype).float().reshape(dy.shape), None, None

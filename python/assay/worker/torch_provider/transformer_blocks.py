"""Blocks of a transformer layer as functions that autograd can go through:
each with its own forward and backward and the rounding points of its module."""

from __future__ import annotations

import torch

from assay.worker.torch_provider import attention
from assay.worker.torch_provider.layernorm_linear import NormLinear
from assay.worker.torch_provider.layernorm_mlp import Mlp, put_gradients
from assay.worker.torch_provider.linear_common import Gradients
from assay.worker.torch_provider.norms import Norm
from assay.worker.torch_provider.recipes import (Products, bias_gradient,
                                                 histories)


class Block:
    """Something with a forward and a backward of its own."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The result, and a second one: the norm's where there is one."""
        raise NotImplementedError

    def backward(self, dy: torch.Tensor,
                 dz: torch.Tensor | None) -> torch.Tensor:
        raise NotImplementedError

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _Call.apply(x, self)


class _Call(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, block):
        ctx.block = block
        ctx.set_materialize_grads(False)
        return block.forward(x)

    @staticmethod
    def backward(ctx, dy, dz):
        return ctx.block.backward(dy, dz), None


class Named:
    """Where a module's parameters and gradients are, by their full names."""

    def __init__(self, prefix: str, tensors: dict[str, torch.Tensor],
                 gradients: Gradients):
        self.prefix, self._tensors, self._gradients = (prefix, tensors,
                                                       gradients)

    def get(self, names: list[str]) -> torch.Tensor | None:
        """The parameters of a GEMM as one."""
        found = [self._tensors[self.prefix + name] for name in names
                 if self.prefix + name in self._tensors]
        return torch.cat(found) if found else None

    def put(self, names: list[str], whole: torch.Tensor | None,
            is_weight: bool = False) -> None:
        """The same way back."""
        if whole is None:
            return
        parts = [self._tensors[self.prefix + name] for name in names]
        put = self._gradients.put_weight if is_weight else self._gradients.put
        for name, part, grad in zip(names, parts,
                                    whole.split([len(p) for p in parts])):
            put(self.prefix + name, part, grad)


class LinearBlock(Block):
    """A linear layer. Without `adds_bias` the bias is a leaf that the caller
    adds; `bias` then has autograd's gradient."""

    def __init__(self, gemm: Products, named: Named, parts: list[str],
                 adds_bias: bool = True):
        self.gemm, self.named, self.adds_bias = gemm, named, adds_bias
        self.weights = [part + "weight" for part in parts]
        self.biases = [part + "bias" for part in parts]
        self.weight, self.bias = named.get(self.weights), named.get(self.biases)
        if self.bias is not None and not adds_bias:
            self.bias = self.bias.detach().clone().requires_grad_()

    def forward(self, x):
        y, self._saved = self.gemm.fprop(
            x, self.weight, self.bias if self.adds_bias else None)
        return y, x.new_empty(0)

    def backward(self, dy, dz):
        dx, dw = self.gemm.backward(dy, self._saved)
        self.named.put(self.weights, dw, True)
        if self.bias is not None and self.adds_bias:
            self.named.put(self.biases, bias_gradient(dy, self.bias))
        return dx

    def put_bias(self) -> None:
        """After the backward: the gradient that the caller's addition gave."""
        if self.bias is not None and not self.adds_bias:
            self.named.put(self.biases, self.bias.grad)
            self.bias.grad = None


class NormLinearBlock(Block):

    def __init__(self, norm: Norm, gemm: Products, named: Named,
                 parts: list[str], returns_norm: bool):
        self.gemm, self.named = gemm, named
        self.weights = [part + "weight" for part in parts]
        self.biases = [part + "bias" for part in parts]
        self.layer = NormLinear(norm, gemm, named.get(self.weights),
                                named.get(self.biases),
                                named.get(["layer_norm_weight"]),
                                named.get(["layer_norm_bias"]), returns_norm)

    def forward(self, x):
        self._dtype = x.dtype
        return self.layer.forward(x)

    def backward(self, dy, dz):
        dx, dw = self.layer.backward(dy, dz, self._dtype)
        self.named.put(self.weights, dw, True)
        if self.layer.bias is not None:
            self.named.put(self.biases, bias_gradient(dy, self.layer.bias))
        self.named.put(["layer_norm_weight"], self.layer.dgamma)
        self.named.put(["layer_norm_bias"], self.layer.dbeta)
        return dx


class MlpBlock(Block):
    """fc2's bias is always the caller's to add, or added in the GEMM."""

    def __init__(self, mlp: Mlp, prefix: str, gradients: Gradients,
                 adds_bias: bool):
        self.mlp, self.prefix, self.gradients = mlp, prefix, gradients
        self.adds_bias = adds_bias

    def forward(self, x):
        self._dtype = x.dtype
        return self.mlp.forward(x, self.adds_bias)

    def backward(self, dy, dz):
        dx = self.mlp.backward(dy, dz, self._dtype)
        put_gradients(self.gradients, self.mlp, dy, self.prefix)
        return dx


class NormBlock(Block):

    def __init__(self, norm: Norm, named: Named):
        self.norm, self.named = norm, named
        self.weight, self.bias = named.get(["weight"]), named.get(["bias"])

    def forward(self, x):
        z, self._saved = self.norm.forward(x, self.weight, self.bias)
        return z.to(x.dtype), x.new_empty(0)

    def backward(self, dy, dz):
        dx, dgamma, dbeta = self.norm.backward(dy, self._saved, self.weight,
                                               self.bias)
        self.named.put(["weight"], dgamma)
        self.named.put(["bias"], dbeta)
        return dx.to(dy.dtype)


class _Attend(torch.autograd.Function):
    """One sequence after the other, heads first; rounded to the dtype."""

    @staticmethod
    def forward(ctx, q, k, v, mask):
        seen = mask.seen(q.shape[2], k.shape[2], q.device)
        ctx.groups, scale = k.shape[1], q.shape[-1]**-0.5
        ctx.passes = [attention.forward(a.float(), b.float(), c.float(), scale,
                                        seen, None, None, q.dtype)
                      for a, b, c in zip(q, k, v)]
        return torch.stack([done.out for done in ctx.passes]).to(q.dtype)

    @staticmethod
    def backward(ctx, g):
        parts = [attention.backward(one.float(), done, ctx.groups)
                 for one, done in zip(g, ctx.passes)]
        return (*(torch.stack([getattr(p, name) for p in parts]).to(g.dtype)
                  for name in ("q", "k", "v")), None)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
           mask: attention.Mask, batch_dim: int) -> torch.Tensor:
    """q, k, v [s, b, heads, d] or [b, s, heads, d]; the result joins the
    heads."""
    order = (1, 2, 0, 3) if batch_dim == 1 else (0, 2, 1, 3)
    out = _Attend.apply(*(t.permute(order) for t in (q, k, v)), mask)
    back = (2, 0, 1, 3) if batch_dim == 1 else (0, 2, 1, 3)
    return out.permute(back).flatten(-2)


def head_norm(x: torch.Tensor, kind: str, eps: float,
              weight: torch.Tensor | None,
              bias: torch.Tensor | None) -> torch.Tensor:
    """q_norm and k_norm over the channels of a head; plain autograd."""
    values = x.float()
    if kind == "L2Normalization":
        scale = torch.rsqrt(values.square().sum(-1, keepdim=True) + eps)
        return (values * scale).to(x.dtype)
    if kind == "LayerNorm":
        values = values - values.mean(-1, keepdim=True)
    scale = torch.rsqrt(values.square().mean(-1, keepdim=True) + eps)
    values = values * scale * weight.float()
    return (values if bias is None else values + bias.float()).to(x.dtype)


def rotate(x: torch.Tensor, sequence_dim: int,
           interleaved: bool) -> torch.Tensor:
    """RoPE over all channels: fp32 angles position * 10000^(-2 i / d)."""
    d, length = x.shape[-1], x.shape[sequence_dim]
    inverse = 1.0 / 10000**(torch.arange(0, d, 2, device=x.device).float() / d)
    angles = torch.outer(torch.arange(length, device=x.device).float(),
                         inverse)
    shape = [1] * x.dim()
    shape[sequence_dim], shape[-1] = length, d
    values = x.float()
    if interleaved:
        angles = angles.repeat_interleave(2, -1).reshape(shape)
        pairs = torch.stack((-values[..., 1::2], values[..., 0::2]), -1)
        turned = pairs.flatten(-2)
    else:
        angles = torch.cat((angles, angles), -1).reshape(shape)
        first, second = values.chunk(2, -1)
        turned = torch.cat((-second, first), -1)
    return (values * angles.cos() + turned * angles.sin()).to(x.dtype)


def block_histories(blocks: list[tuple[str, list[Products]]],
                    ) -> dict[str, torch.Tensor]:
    """Of every module with GEMMs, by its prefix."""
    all_of_them = {}
    for prefix, products in blocks:
        all_of_them.update(histories(products, prefix))
    return all_of_them

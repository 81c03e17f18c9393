"""What modules with GEMMs share: quantisers of the region's recipe, weight
gradients that are fused or put off."""

from __future__ import annotations

import types
import typing

import torch

from assay.worker.torch_provider.recipes import Products, bias_gradient
from transformer_engine.pytorch.quantization import Regions


def parameter(shape: typing.Iterable[int], dtype: torch.dtype | None,
              device: typing.Any) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.zeros(
        *shape, dtype=dtype or torch.get_default_dtype(), device=device))


class GemmModule(torch.nn.Module):
    """Subclasses compute with `products`, one for each GEMM."""

    def __init__(self, gemms: int, fuse: bool, delay: bool):
        super().__init__()
        self.gemms, self.fuse, self.delay = gemms, fuse, delay
        self.products: list[Products] = []
        self.fp8_meta: dict[str, typing.Any] = {}
        self._put_off: list[tuple[torch.nn.Parameter, torch.Tensor]] = []

    def prepare(self, dtype: torch.dtype, device: torch.device,
                is_first_microbatch: bool | None) -> None:
        recipe = Regions.recipe()
        name = recipe.name if recipe else "none"
        if not self.products:
            if name == "delayed" and recipe.amax_history_len != 4:
                raise ValueError("amax_history_len: expected 4")
            override = recipe.backward_override if recipe else None
            self.products = [Products(name, dtype, device, override or "none",
                                      is_first_microbatch is not None)
                             for _ in range(self.gemms)]
            if name == "delayed":
                self.fp8_meta = {
                    f"scaling_{end}": Scaling(self.products, state)
                    for end, state in (("fwd", "forward_state"),
                                       ("bwd", "backward_state"))}
        Regions.use(self.products)

    def end_backward(self) -> None:
        for products in self.products:
            products.update_backward()

    def weight_gradient(self, weight: torch.nn.Parameter,
                        dw: torch.Tensor) -> torch.Tensor | None:
        """What autograd is given."""
        if self.delay:
            self._put_off.append((weight, dw))
            return None
        if self.fuse:
            weight.main_grad += dw
            return None
        return dw.to(weight.dtype)

    def backward_dw(self) -> None:
        for weight, dw in self._put_off:
            if self.fuse:
                weight.main_grad += dw
            else:
                weight.grad = dw.to(weight.dtype)
        self._put_off = []


class Scaling:
    """The slots of all GEMMs, as DelayedScalingRecipeState has them."""

    def __init__(self, products: list[Products], name: str):
        self._states = [getattr(p, name) for p in products]

    @property
    def scale(self) -> torch.Tensor:
        return torch.cat([s.scale for s in self._states])

    @property
    def amax_history(self) -> torch.Tensor:
        return torch.cat([s.history for s in self._states], 1)


class Apply(torch.autograd.Function):
    """`pair`: forward(x) -> results, backward(dys) -> dx and, by the order of
    `parameters`, their gradients."""

    @staticmethod
    def forward(ctx, pair, x, *parameters):
        del parameters
        ctx.pair = pair
        ctx.set_materialize_grads(False)
        return pair.forward(x.detach())

    @staticmethod
    def backward(ctx, *dys):
        dx, gradients = ctx.pair.backward(*dys)
        return (None, dx, *gradients)


def pair(forward: typing.Callable, backward: typing.Callable,
         ) -> types.SimpleNamespace:
    return types.SimpleNamespace(forward=forward, backward=backward)


__all__ = ["Apply", "GemmModule", "bias_gradient", "pair", "parameter"]

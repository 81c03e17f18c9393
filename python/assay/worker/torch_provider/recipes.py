"""The three GEMMs of a linear layer under a recipe: what is quantised, in
which direction, with which scales, and which product reads it.

    fprop  y  = x W^T + b    x row-wise,  W row-wise
    dgrad  dx = dy W         dy row-wise, W column-wise
    wgrad  dW = dy^T x       dy and x column-wise

Block formats quantise the two directions by themselves; per-tensor formats
have one set of codes. NVFP4 rotates the column-wise data of x and dy by
Hadamard matrices along the rows; both factors of wgrad alike, so that the
rotation cancels in the product. Products are those of the decoded values in
fp32, rounded once to the activations' dtype.
"""

from __future__ import annotations

import dataclasses

import torch

from assay.worker.call import Call, Refused
from assay.worker.torch_provider import formats, quantize
from assay.worker.torch_provider.delayed import DelayedState
from assay.worker.torch_provider.formats import E4M3, E5M2
from assay.worker.torch_provider.nvfp4 import nvfp4

HISTORY = 4  # amax_history_len of the cases
# Rows and columns of a quantised operand are multiples of these.
MULTIPLES = {"delayed": (8, 16), "current": (8, 16), "block": (8, 16),
             "mxfp8": (32, 32), "nvfp4": (16, 16)}


@dataclasses.dataclass
class Operand:
    """Decoded fp32 matrices; equal where a format has one set of codes."""

    row: torch.Tensor
    column: torch.Tensor


@dataclasses.dataclass
class Saved:
    x: Operand
    weight: Operand
    x_shape: torch.Size


def matrix(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(x.shape[:-1].numel(), x.shape[-1])


def plain(x: torch.Tensor) -> Operand:
    values = matrix(x).float()
    return Operand(values, values)


def both(make, x: torch.Tensor, **options) -> Operand:
    return Operand(make(x, columnwise=False, **options).matrix(),
                   make(x, columnwise=True, **options).matrix())


TINY, LIFT = 2.0**-64, 2.0**96


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a b in fp32, also where terms of its sums are below 2^-126.

    Each such term would be rounded to a multiple of 2^-149, or flushed to 0,
    and their sums lost with them. So where the largest product of two
    elements is below TINY, the smaller factor is taken LIFT times: a power of
    two, hence exact, and nothing overflows, for that factor is below
    sqrt(TINY) and the products below TINY LIFT. The inverse rounds each sum
    once, where it is subnormal. fp64 would do too; not every device has it.
    """
    top_a, top_b = formats.amax(a), formats.amax(b)
    if not top_a * top_b < TINY:
        return a @ b
    lifted = (a * LIFT) @ b if top_a <= top_b else a @ (b * LIFT)
    return lifted * (1 / LIFT)


class Products:
    """One weight and its quantisers. `dtype`: of activations."""

    def __init__(self, recipe: str, dtype: torch.dtype,
                 device: torch.device, override: str = "none",
                 keeps_weight: bool = False):
        if recipe == "delayed" and override != "none":
            raise Refused("delayed: backward_override, expected none")
        self.recipe, self.dtype, self.override = recipe, dtype, override
        self._keeps_weight = keeps_weight
        self._weight: Operand | None = None
        self.forward_state = self.backward_state = None
        if recipe == "delayed":
            self.forward_state = DelayedState(HISTORY, 3, E4M3.largest,
                                              device=device)
            self.backward_state = DelayedState(HISTORY, 2, E5M2.largest,
                                               device=device)

    def fprop(self, x: torch.Tensor, weight: torch.Tensor,
              bias: torch.Tensor | None) -> tuple[torch.Tensor, Saved]:
        """y in the activations' dtype."""
        y, saved = self.sums(x, weight, bias)
        return y.to(self.dtype), saved

    def sums(self, x: torch.Tensor, weight: torch.Tensor,
             bias: torch.Tensor | None, codes: Operand | None = None,
             ) -> tuple[torch.Tensor, Saved]:
        """y in fp32, before it is rounded. x in its dtype, or fp32 of an
        operator before the quantiser that has not rounded: what delayed
        scaling alone sees unrounded. `codes`: x as somebody else has
        quantised it."""
        self._check(x, "input")
        self._check(weight, "weight")
        quantized_x = self.operand(x, "input") if codes is None else codes
        if not self._keeps_weight or self._weight is None:
            self._weight = self.operand(weight, "weight")
        quantized_w = self._weight
        y = product(quantized_x.row, quantized_w.row.T)
        if bias is not None:
            y = y + self._added(bias)
        saved = Saved(self._kept(x, quantized_x),
                      self._kept(weight, quantized_w), x.shape)
        shape = (*x.shape[:-1], weight.shape[0])
        return y.reshape(shape), saved

    def backward(self, dy: torch.Tensor, saved: Saved,
                 ) -> tuple[torch.Tensor, torch.Tensor]:
        """dx in the activations' dtype, dW in fp32."""
        dy = dy if self.recipe == "delayed" else dy.to(self.dtype)
        if self.override == "none":
            grad = self.operand(dy, "grad_output")
        else:
            grad = plain(dy)
        dx = product(grad.row, saved.weight.column)
        dw = product(grad.column.T, saved.x.column)
        return dx.to(self.dtype).reshape(saved.x_shape), dw

    def update_forward(self) -> None:
        """The end of an autocast region."""
        if self.forward_state:
            self.forward_state.update()

    def update_backward(self) -> None:
        if self.backward_state:
            self.backward_state.update()

    def _check(self, x: torch.Tensor, what: str) -> None:
        rows, columns = MULTIPLES.get(self.recipe, (1, 1))
        m, k = matrix(x).shape
        if m % rows or k % columns:
            raise Refused(f"{what}: {m} x {k}, expected multiples of {rows} "
                          f"x {columns} for {self.recipe}")

    def _added(self, bias: torch.Tensor) -> torch.Tensor:
        """An fp32 bias beside FP8 operands is rounded to bf16 (trap T16)."""
        if self.recipe != "none" and bias.dtype == torch.float32:
            bias = bias.to(torch.bfloat16)
        return bias.float()

    def _kept(self, original: torch.Tensor, operand: Operand) -> Operand:
        """What the backward's products read."""
        if self.override == "high_precision":
            return plain(original.to(self.dtype))
        if self.override == "dequantized":
            return plain(operand.row.to(self.dtype))
        return operand

    def operand(self, x: torch.Tensor, role: str) -> Operand:
        """`role`: input, weight or grad_output."""
        backward = role == "grad_output"
        if self.recipe == "delayed":
            state = self.backward_state if backward else self.forward_state
            slot = 1 if role == "weight" else 0
            return plain(state.quantize(
                matrix(x), slot, E5M2 if backward else E4M3).matrix())
        x = matrix(x).to(self.dtype)
        if self.recipe == "current":
            return plain(
                quantize.current(x, E5M2 if backward else E4M3).matrix())
        if self.recipe == "block":
            return both(quantize.block128, x, target=E4M3,
                        dim=2 if role == "weight" else 1)
        if self.recipe == "mxfp8":
            return both(quantize.mxfp8, x, target=E4M3)
        if self.recipe == "nvfp4":
            return self._nvfp4(x, role)
        return plain(x)

    def _nvfp4(self, x: torch.Tensor, role: str) -> Operand:
        if role == "weight":
            return both(nvfp4, x, two_d=True)
        row = nvfp4(x).matrix()
        # Under an override nothing is read column-wise.
        column = (nvfp4(x, columnwise=True, rht=True).matrix()
                  if self.override == "none" else row)
        return Operand(row, column)


def bias_gradient(dy: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The sum over rows of dy before it is quantised."""
    return matrix(dy).float().sum(0).to(bias.dtype)


def products_of(call: Call, count: int) -> list[Products]:
    """For a module of `count` GEMMs under the parameters of a case."""
    options = call.parameters
    return [Products(call.recipe, call.torch_dtype, call.device,
                     options.get("backward_override", "none"),
                     options.get("is_first_microbatch", "none") == "cached")
            for _ in range(count)]


def histories(products: list[Products], prefix: str = "",
              ) -> dict[str, torch.Tensor]:
    """What delayed scaling remembers, under the names of the state dict: the
    slots of one GEMM after the other."""
    if not products or products[0].forward_state is None:
        return {}
    states = {"fwd": [p.forward_state for p in products],
              "bwd": [p.backward_state for p in products]}
    tensors = {}
    for name, parts in states.items():
        tensors[f"{prefix}_extra_state.scale_{name}"] = torch.cat(
            [s.scale for s in parts])
        tensors[f"{prefix}_extra_state.amax_history_{name}"] = torch.cat(
            [s.history for s in parts], 1)
    return tensors

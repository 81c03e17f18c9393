"""fuser_ops: a row of operations, one after the other, in float32; what each
gives on, and its gradient, is rounded to the dtype.

Fused operations round less often than this (docs/modules.md lists which
roundings are gone): the difference is a part of an ulp, within the standard.
Not so where it changes what comes next. A product and its bias are rounded
once, or sums near 0 come to lie on the other side of a ReLU. Quantisers see
what they see in a fused row: delayed scaling what is not rounded, and the
gradient of a product behind which a ConstantScale stands without the scale.
"""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Refused, Result, state_dict_contract
from assay.worker.torch_provider import activations
from assay.worker.torch_provider.graph import Decoded, Product
from assay.worker.torch_provider.recipes import (Operand, Products, histories,
                                                 products_of)
from assay.worker.torch_provider.rounding import Rounded

ADAPTER = 1
GROUPS = 3

DEFAULTS = {
    "LayerNorm.eps": 1e-5,
    "LayerNorm.zero_centered_gamma": False,
    "ClampedSwiGLU.limit": 7.0,
    "ClampedSwiGLU.glu_linear_offset": 1.0,
    "SiTUGLU.beta1": 4.0,
    "SiTUGLU.beta2": 25.0,
}
NO_PARAMETERS = {"x", "dy", "extra_input", "d_extra_output", "split_sizes",
                 "scales"}

Tensor = torch.Tensor


def gelu(x: Tensor) -> Tensor:
    return activations.gelu(x)[0]


def qgelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


UNARY: dict[str, typing.Callable[[Tensor], Tensor]] = {
    "GELU": gelu,
    "SiLU": torch.nn.functional.silu,
    "ReLU": torch.relu,
    "QGELU": qgelu,
    "SReLU": lambda x: torch.relu(x).square(),
}


def clamped_swiglu(a: Tensor, b: Tensor) -> Tensor:
    a = a.clamp(max=7.0)
    return a * torch.sigmoid(1.702 * a) * (b.clamp(-7.0, 7.0) + 1.0)


def situglu(a: Tensor, b: Tensor) -> Tensor:
    return (4 * torch.tanh(a / 4) * torch.sigmoid(a) * 25
            * torch.tanh(b / 25))


GATED: dict[str, typing.Callable[[Tensor, Tensor], Tensor]] = {
    "GLU": lambda a, b: torch.sigmoid(a) * b,
    "GEGLU": lambda a, b: gelu(a) * b,
    "SwiGLU": lambda a, b: torch.nn.functional.silu(a) * b,
    "ReGLU": lambda a, b: torch.relu(a) * b,
    "QGEGLU": lambda a, b: qgelu(a) * b,
    "SReGLU": lambda a, b: torch.relu(a).square() * b,
    "ClampedSwiGLU": clamped_swiglu,
    "SiTUGLU": situglu,
}
SCALED = {"ScaledSwiGLU": "SwiGLU", "ScaledSiTUGLU": "SiTUGLU",
          "ScaledClampedQGeGLU": "ClampedSwiGLU", "ScaledSReLU": "SReLU"}
SAME = {"Identity", "Dropout", "AllGather", "ReduceScatter", "AllReduce"}
SCALE = 0.75  # of ConstantScale


class Basic(typing.NamedTuple):
    """One operation, and where its parameters are."""

    name: str
    at: str


def basic_operations(row: str) -> list[Basic]:
    """Linear is two of them."""
    basic = []
    for i, name in enumerate(row.split("+")):
        if name == "Linear":
            basic += [Basic("BasicLinear", f"{i}.basic_ops.0."),
                      Basic("Bias", f"{i}.basic_ops.1.")]
        else:
            basic.append(Basic(name, f"{i}."))
    return basic


class Row:
    """The operations over leaves of a graph; `gemms` by their prefix."""

    def __init__(self, call: Call, gemms: dict[str, list[Products]]):
        self.call, self.gemms = call, gemms
        self.leaves = {name: t.detach().float().requires_grad_()
                       for name, t in call.inputs.items()
                       if name != "split_sizes"}
        self.operations = basic_operations(call.row)
        self.extra_output: Tensor | None = None
        self.codes: Operand | None = None  # of what a Quantize gives on

    def forward(self) -> Tensor:
        x = Rounded.apply(self.leaves["x"], self.call.torch_dtype)
        for i, (name, at) in enumerate(self.operations):
            x = Rounded.apply(self.operation(i, name, at, x),
                              self.call.torch_dtype, self.rounds_result(i),
                              self.rounds_gradient(i))
        return x

    def name(self, i: int) -> str:
        names = [op.name for op in self.operations]
        return names[i] if 0 <= i < len(names) else ""

    def rounds_result(self, i: int) -> bool:
        """Whether operation i gives on its result in the dtype: not where
        delayed scaling quantises it for the operation behind it, nor where
        the GEMM adds the bias."""
        if self.name(i) == "BasicLinear" and self.name(i + 1) == "Bias":
            return self.call.torch_dtype == torch.float32
        fused = (self.name(i) in UNARY or self.name(i) in GATED
                 or self.name(i) in ("LayerNorm", "RMSNorm"))
        return not (self.call.recipe == "delayed" and fused
                    and self.name(i + 1) in ("BasicLinear", "Quantize"))

    def rounds_gradient(self, i: int) -> bool:
        """The same of what operation i + 1 gives back to operation i, also
        through a bias whose fused kernel GELU and ReLU have."""
        following = self.name(i + 1)
        direct = (self.name(i) == "BasicLinear"
                  and (following in UNARY or following in GATED))
        biased = (self.name(i) == "Bias" and following in ("GELU", "ReLU")
                  and self.name(i - 1) == "BasicLinear")
        return not (self.call.recipe == "delayed" and (direct or biased))

    def operation(self, i: int, name: str, at: str, x: Tensor) -> Tensor:
        if name == "BasicLinear":
            scaled = self.name(i + 1) == "ConstantScale"
            return self.linear(at, x, SCALE if scaled else 1.0)
        if name in SAME or (name == "ConstantScale"
                            and self.name(i - 1) == "BasicLinear"):
            return x
        if name in UNARY or name in GATED:
            return self.kept(lambda t: self.activation(name, t), x)
        if name in SCALED:
            return (self.activation(SCALED[name], x)
                    * self.leaves["scales"][:, None])
        if not hasattr(self, "op_" + name):
            raise Refused(f"no operation {name}")
        return getattr(self, "op_" + name)(at, x)

    def kept(self, f: typing.Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """f(x); its derivative at x, or at E4M3 codes of x where asked."""
        if not self.call.cache_quantized_input or not x.numel():
            return f(x)
        amax = x.detach().abs().max()
        # One true division: torch takes 448 / amax as 448 * (1 / amax).
        scale = torch.full_like(amax, 448) / amax
        scale = torch.where(amax > 0, scale, 1.0).clamp(
            max=torch.finfo(torch.float32).max)
        codes = (x.detach() * scale).to(torch.float8_e4m3fn).float()
        near = (codes * (1 / scale)).to(self.call.torch_dtype).float()
        # The value of f(x), the gradient of f at `near`: what is added is 0.
        moved = f(near + (x - x.detach()))
        return f(x.detach()) + (moved - moved.detach())

    def activation(self, name: str, x: Tensor) -> Tensor:
        if name in UNARY:
            return UNARY[name](x)
        n = self.call.glu_interleave_size
        if not n:
            return GATED[name](*x.chunk(2, -1))
        a, b = x.unflatten(-1, (-1, 2, n)).unbind(-2)
        return GATED[name](a.flatten(-2), b.flatten(-2))

    def op_Bias(self, at: str, x: Tensor) -> Tensor:
        return x + self.leaves[at + "bias"]

    def linear(self, at: str, x: Tensor, alpha: float) -> Tensor:
        codes, self.codes = self.codes, None
        return Product.apply(x, self.leaves[at + "weight"], None,
                             self.gemms[at][0], alpha, codes)

    def op_Quantize(self, at: str, x: Tensor) -> Tensor:
        (quantizers,) = self.gemms[at]
        if self.call.recipe == "none":
            return x
        self.codes = quantizers.operand(x, "input")
        return Decoded.apply(x, quantizers, self.codes)

    def op_GroupedLinear(self, at: str, x: Tensor) -> Tensor:
        """The bias in the GEMMs, or behind them where it is scaled."""
        sizes = self.call.inputs["split_sizes"].tolist()
        groups = []
        for g, rows in enumerate(x.split(sizes)):
            bias = self.leaves[f"{at}bias{g}"]
            y = Product.apply(rows, self.leaves[f"{at}weight{g}"],
                              None if self.call.scale_bias else bias,
                              self.gemms[at][g])
            if self.call.scale_bias:
                scales = self.leaves["scales"].split(sizes)[g]
                y = y + scales[:, None] * bias
            groups.append(y)
        return torch.cat(groups)

    def weight(self, at: str) -> Tensor:
        weight = self.leaves[at + "weight"]
        return 1 + weight if self.call.zero_centered_gamma else weight

    def op_LayerNorm(self, at: str, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        return self.op_RMSNorm(at, x) + self.leaves[at + "bias"]

    def op_RMSNorm(self, at: str, x: Tensor) -> Tensor:
        mean = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(mean + 1e-5) * self.weight(at)

    def op_L2Normalization(self, at: str, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)

    def op_ConstantScale(self, at: str, x: Tensor) -> Tensor:
        return SCALE * x

    def op_Reshape(self, at: str, x: Tensor) -> Tensor:
        return x.reshape(2 * x.shape[0], x.shape[1] // 2)

    def op_AddExtraInput(self, at: str, x: Tensor) -> Tensor:
        return x + self.leaves["extra_input"]

    def op_MakeExtraOutput(self, at: str, x: Tensor) -> Tensor:
        self.extra_output = x
        return x


def gemms_of(call: Call) -> dict[str, list[Products]]:
    """Of every operation that quantises, by its prefix."""
    counts = {"BasicLinear": 1, "Quantize": 1, "GroupedLinear": GROUPS}
    return {at: products_of(call, counts[name])
            for name, at in basic_operations(call.row) if name in counts}


def run_step(call: Call, step: int, result: Result,
             gemms: dict[str, list[Products]]) -> None:
    row = Row(call, gemms)
    y = row.forward()
    all_gemms = [gemm for some in gemms.values() for gemm in some]
    for gemm in all_gemms:
        gemm.update_forward()
    loss = (y * call.inputs["dy"].float().reshape(y.shape)).sum()
    if row.extra_output is not None:
        loss = loss + (row.extra_output
                       * call.inputs["d_extra_output"].float()).sum()
    loss.backward()
    for gemm in all_gemms:
        gemm.update_backward()
    values = {"y": y, "grad.x": row.leaves["x"].grad}
    if row.extra_output is not None:
        values["extra_output"] = row.extra_output
    for name in ("scales", "extra_input"):
        if name in row.leaves:
            values[f"grad.{name}"] = row.leaves[name].grad
    for name, value in values.items():
        dtype = torch.float32 if name == "grad.scales" else call.torch_dtype
        result.outputs[call.step_name(name, step)] = value.to(dtype)
    for name, t in parameters_of(call).items():
        result.outputs[f"grad.{name}"] = row.leaves[name].grad.to(t.dtype)


def parameters_of(call: Call) -> dict[str, Tensor]:
    return {name: t for name, t in call.inputs.items()
            if name not in NO_PARAMETERS}


def run(call: Call) -> Result:
    result, gemms = Result(), gemms_of(call)
    for step in range(1, call.steps + 1):
        run_step(call, step, result, gemms)
    kept = parameters_of(call)
    for at, some in gemms.items():
        kept.update(histories(some, at))
    result.contract = {"defaults": DEFAULTS,
                       "state_dict": state_dict_contract(kept)}
    return result

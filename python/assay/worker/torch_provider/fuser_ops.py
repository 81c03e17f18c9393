"""fuser_ops: a row of operations, one after the other, in float32; what each
gives on, and its gradient, is rounded to the dtype.

Fused operations round less often than this (docs/modules.md lists which
roundings are gone): the difference is a part of an ulp, within the standard.
"""

from __future__ import annotations

import typing

import torch

from assay.worker.call import (Call, Refused, Result, Unsupported,
                               state_dict_contract)
from assay.worker.torch_provider.rounding import Rounded

ADAPTER = 1
API = ["torch.nn.Sequential"]
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
    return torch.nn.functional.gelu(x, approximate="tanh")


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
SAME = {"Identity", "Dropout", "AllGather", "ReduceScatter", "AllReduce",
        "Quantize"}


class Row:
    """The operations over leaves of a graph."""

    def __init__(self, call: Call):
        self.call = call
        self.leaves = {name: t.float().requires_grad_()
                       for name, t in call.inputs.items()
                       if name != "split_sizes"}
        self.extra_output: Tensor | None = None

    def rounded(self, x: Tensor) -> Tensor:
        return Rounded.apply(x, self.call.torch_dtype)

    def forward(self) -> Tensor:
        x = self.rounded(self.leaves["x"])
        for i, name in enumerate(self.call.row.split("+")):
            x = self.rounded(self.operation(i, name, x))
        return x

    def operation(self, i: int, name: str, x: Tensor) -> Tensor:
        if name in SAME:
            return x
        if name in UNARY or name in GATED:
            return self.kept(lambda t: self.activation(name, t), x)
        if name in SCALED:
            return (self.activation(SCALED[name], x)
                    * self.leaves["scales"][:, None])
        if not hasattr(self, "op_" + name):
            raise Refused(f"no operation {name}")
        return getattr(self, "op_" + name)(f"{i}.", x)

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
        # The value of f(x), the gradient of f at `near`.
        moved = f(x + (near - x).detach())
        return moved + (f(x.detach()) - moved.detach())

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

    def op_BasicLinear(self, at: str, x: Tensor) -> Tensor:
        return x @ self.leaves[at + "weight"].T

    def op_Linear(self, at: str, x: Tensor) -> Tensor:
        product = self.rounded(x @ self.leaves[at + "basic_ops.0.weight"].T)
        return product + self.leaves[at + "basic_ops.1.bias"]

    def op_GroupedLinear(self, at: str, x: Tensor) -> Tensor:
        sizes = self.call.inputs["split_sizes"].tolist()
        scales = self.leaves.get("scales", torch.ones(x.shape[0]))
        groups = [rows @ self.leaves[f"{at}weight{g}"].T
                  + scale[:, None] * self.leaves[f"{at}bias{g}"]
                  for g, (rows, scale) in enumerate(
                      zip(x.split(sizes), scales.split(sizes)))]
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
        return 0.75 * x

    def op_Reshape(self, at: str, x: Tensor) -> Tensor:
        return x.reshape(2 * x.shape[0], x.shape[1] // 2)

    def op_AddExtraInput(self, at: str, x: Tensor) -> Tensor:
        return x + self.leaves["extra_input"]

    def op_MakeExtraOutput(self, at: str, x: Tensor) -> Tensor:
        self.extra_output = x
        return x


def run(call: Call) -> Result:
    if call.recipe != "none":
        raise Unsupported(f"recipe {call.recipe}")
    row = Row(call)
    y = row.forward()
    loss = (y * call.inputs["dy"].float().reshape(y.shape)).sum()
    if row.extra_output is not None:
        loss = loss + (row.extra_output
                       * call.inputs["d_extra_output"].float()).sum()
    loss.backward()
    values = {"y": y, "grad.x": row.leaves["x"].grad}
    if row.extra_output is not None:
        values["extra_output"] = row.extra_output
    for name in ("scales", "extra_input"):
        if name in row.leaves:
            values[f"grad.{name}"] = row.leaves[name].grad
    result = Result()
    for step in range(1, call.steps + 1):
        for name, value in values.items():
            dtype = (torch.float32 if name == "grad.scales" else
                     call.torch_dtype)
            result.outputs[call.step_name(name, step)] = value.to(dtype)
    parameters = {name: t for name, t in call.inputs.items()
                  if name not in NO_PARAMETERS}
    for name, t in parameters.items():
        result.outputs[f"grad.{name}"] = row.leaves[name].grad.to(t.dtype)
    result.contract = {"defaults": DEFAULTS,
                       "state_dict": state_dict_contract(parameters)}
    return result

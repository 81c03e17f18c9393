"""fuser_ops: rows of operations in te.ops.Sequential, forward and backward."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import defaults_of, require, resolve
from assay.worker.te_provider.ops import PATH, operation
from assay.worker.torch_provider.fuser_ops import (DEFAULTS, GATED, GROUPS,
                                                   SCALED, UNARY)

ADAPTER = 1
NAMES = ("AddExtraInput AllGather AllReduce BasicLinear Bias ClampedSwiGLU "
         "ConstantScale Dropout GEGLU GELU GLU GroupedLinear Identity "
         "L2Normalization LayerNorm Linear MakeExtraOutput QGEGLU QGELU "
         "Quantize RMSNorm ReGLU ReLU ReduceScatter Reshape SReGLU SReLU "
         "ScaledClampedQGeGLU ScaledSReLU ScaledSiTUGLU ScaledSwiGLU "
         "Sequential SiLU SiTUGLU SwiGLU").split()
API = [PATH + name for name in NAMES]


class Row:
    """Makes the operations of a case one after the other: the first linear
    one goes to out_features, the next one back."""

    def __init__(self, call: Call):
        self.call = call
        self.width = call.features
        self.linears = 0
        self.places = {"device": str(call.device), "dtype": call.torch_dtype}

    def make(self) -> torch.nn.Module:
        row = require(PATH + "Sequential")(
            *(self.one(name) for name in self.call.row.split("+")))
        modules.fill(self.call, row)
        return row

    def one(self, name: str) -> typing.Any:
        call = self.call
        if name in UNARY or name in GATED or name in SCALED:
            return self.activation(name)
        if name in ("Linear", "BasicLinear", "GroupedLinear"):
            return self.linear(name)
        if name in ("LayerNorm", "RMSNorm"):
            return operation(name, {
                "normalized_shape": self.width,
                "zero_centered_gamma": call.zero_centered_gamma,
                **self.places}, {"zero_centered_gamma": False})
        if name in ("AddExtraInput", "MakeExtraOutput"):
            return operation(name, {"in_place": call.in_place},
                             {"in_place": False})
        if name == "Reshape":
            self.width //= 2
        return operation(name, self.arguments(name))

    def arguments(self, name: str) -> dict[str, typing.Any]:
        return {"Bias": {"size": self.width, **self.places},
                "ConstantScale": {"scale": 0.75}, "Dropout": {"p": 0.0},
                "Quantize": {"forward": True, "backward": True},
                "Reshape": {"shape": (-1, self.width)},
                }.get(name, {})

    def activation(self, name: str) -> typing.Any:
        call = self.call
        if name not in UNARY and name != "ScaledSReLU":
            self.width //= 2
        if name in SCALED:
            return operation(name, self.interleaved())
        return operation(name, {
            "cache_quantized_input": call.cache_quantized_input,
            **self.interleaved()}, {"cache_quantized_input": False})

    def interleaved(self) -> dict[str, typing.Any]:
        size = self.call.glu_interleave_size
        return {"glu_interleave_size": size} if size else {}

    def linear(self, name: str) -> typing.Any:
        given = self.width
        back = self.linears % 2 == 1
        self.width = self.call.features if back else self.call.out_features
        self.linears += 1
        sizes = {"in_features": given, "out_features": self.width,
                 **self.places}
        if name != "GroupedLinear":
            return operation(name, sizes)
        return operation(name, {"num_groups": GROUPS, **sizes,
                                "scale_bias": self.call.scale_bias},
                         {"scale_bias": False})


EXTRA = {"AddExtraInput": ["extra_input"],
         **{name: ["scales"] for name in SCALED}}


def extra_inputs(call: Call, leaves: dict[str, torch.Tensor],
                 ) -> list[torch.Tensor]:
    """In the order of the operations that take them."""
    found = []
    for name in call.row.split("+"):
        found += [leaves[extra] for extra in EXTRA.get(name, [])]
        if name == "GroupedLinear":
            found.append(call.inputs["split_sizes"])
            found += [leaves["scales"]] if call.scale_bias else []
    return found


def run(call: Call) -> Result:
    has_output = "MakeExtraOutput" in call.row
    inputs = ["x", *(name for name in ("extra_input", "scales")
                     if name in call.inputs)]

    def forward(module, leaves, options):
        answer = module(leaves["x"], *extra_inputs(call, leaves))
        names = ("y", "extra_output") if has_output else ("y",)
        return modules.tuple_of(answer, *names)

    gradients = {"y": "dy"}
    if has_output:
        gradients["extra_output"] = "d_extra_output"
    result = modules.Training(call, Row(call).make(), forward, inputs,
                              gradients, scaled=False).run()
    result.contract["defaults"] = defaults()
    return result


def defaults() -> dict[str, typing.Any]:
    found = {}
    for path in DEFAULTS:
        kind, name = path.split(".")
        made = resolve(PATH + kind)
        if made is not None:
            for value in defaults_of(made.__init__, [name]).values():
                found[path] = modules.plain(value)
    return found

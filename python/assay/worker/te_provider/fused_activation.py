"""fused_activation: operations of te.ops and the activations of the binding,
which quantise as they compute."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Result, Unsupported
from assay.worker.te_provider import modules, quantizers
from assay.worker.te_provider.api import (call_binding, defaults_of, require,
                                          resolve)
from assay.worker.te_provider.ops import PATH, operation
from assay.worker.te_provider.quantizers import Codes, Delayed
from assay.worker.torch_provider.linear_common import step_input

ADAPTER = 1
_TEX = "transformer_engine_torch."
OPERATIONS = {"gelu": "GELU", "geglu": "GEGLU", "glu": "GLU",
              "qgelu": "QGELU", "qgeglu": "QGEGLU", "relu": "ReLU",
              "reglu": "ReGLU", "srelu": "SReLU", "sreglu": "SReGLU",
              "silu": "SiLU", "swiglu": "SwiGLU",
              "clamped_swiglu": "ClampedSwiGLU", "situglu": "SiTUGLU"}
SCALED = {"swiglu": "ScaledSwiGLU", "situglu": "ScaledSiTUGLU",
          "clamped_swiglu": "ScaledClampedQGeGLU", "srelu": "ScaledSReLU"}
WITH_BIAS = ("gelu", "silu", "relu", "qgelu", "srelu")
BACKWARD = {"clamped_swiglu": "clamped_dswiglu"}
API = [*(PATH + name for name in (*OPERATIONS.values(), *SCALED.values())),
       "transformer_engine.pytorch.interleave_glu_tensor",
       "transformer_engine.pytorch.deinterleave_glu_tensor",
       *(_TEX + name for name in OPERATIONS),
       *(_TEX + BACKWARD.get(name, "d" + name) for name in OPERATIONS),
       *(f"{_TEX}dbias_d{name}" for name in WITH_BIAS)]
HISTORY = 4
# Quantizer and format of the passes, by recipe.
KINDS = {"delayed": ("Float8Quantizer", "E5M2"),
         "current": ("Float8CurrentScalingQuantizer", "E5M2"),
         "block": ("Float8BlockQuantizer", "E4M3"),
         "mxfp8": ("MXFP8Quantizer", "E4M3"),
         "nvfp4": ("NVFP4Quantizer", "E2M1")}
DTYPES = {"E4M3": torch.float8_e4m3fn, "E5M2": torch.float8_e5m2}
DEFAULTS = {"ClampedSwiGLU": ("limit", "alpha", "glu_linear_offset"),
            "SiTUGLU": ("beta1", "beta2")}


def settings(call: Call) -> dict[str, float]:
    """In the order of the binding's functions."""
    if call.activation == "clamped_swiglu":
        return {"limit": call.limit, "alpha": call.alpha,
                "glu_linear_offset": call.glu_linear_offset}
    if call.activation == "situglu":
        return {"beta1": call.beta1, "beta2": call.beta2}
    return {}


class Activation:
    """The functions of a case."""

    def __init__(self, call: Call):
        if call.activation not in OPERATIONS:
            raise ValueError(f"no activation {call.activation}")
        self.call = call

    def operation(self) -> typing.Any:
        call = self.call
        arguments: dict[str, typing.Any] = dict(settings(call))
        if call.glu_interleave_size:
            arguments["glu_interleave_size"] = call.glu_interleave_size
        names = SCALED if call.scaled else OPERATIONS
        neutral = {"limit": 7.0, "alpha": 1.702, "glu_linear_offset": 1.0,
                   "beta1": 4.0, "beta2": 25.0}
        return operation(names[call.activation], arguments, neutral)

    def forward(self, x: torch.Tensor, quantizer: typing.Any) -> typing.Any:
        return call_binding(require(_TEX + self.call.activation),
                            {"input": self.halves(x), "quantizer": quantizer,
                             **settings(self.call)})

    def backward(self, dy: torch.Tensor, x: torch.Tensor,
                 quantizer: typing.Any) -> typing.Any:
        name = self.call.activation
        dx = call_binding(require(_TEX + BACKWARD.get(name, "d" + name)),
                          {"grad": dy, "input": self.halves(x),
                           "quantizer": quantizer, **settings(self.call)})
        if self.call.glu_interleave_size and quantizer is not None:
            raise Unsupported("quantised gradients of interleaved columns")
        return dx

    def with_bias(self, dy: torch.Tensor, x: torch.Tensor,
                  quantizer: typing.Any) -> typing.Any:
        return call_binding(require(f"{_TEX}dbias_d{self.call.activation}"),
                            {"grad": dy, "input": x, "quantizer": quantizer})

    def halves(self, x: torch.Tensor) -> torch.Tensor:
        """The binding wants the gate before the linear columns."""
        size = self.call.glu_interleave_size
        if not size:
            return x.contiguous()
        return require("transformer_engine.pytorch.deinterleave_glu_tensor")(
            x, size).contiguous()


class Quantizing:
    """Quantizers of a linear layer's input and of its grad_output."""

    def __init__(self, call: Call):
        self.recipe, self.device = call.recipe, call.device
        self.kind, self.wide = KINDS[call.recipe]
        self.states = {
            "fwd": Delayed(HISTORY, 1, "E4M3", call.device),
            "bwd": Delayed(HISTORY, 1, "E5M2", call.device),
        } if call.recipe == "delayed" else {}

    def format(self, pass_name: str) -> str:
        return self.wide if pass_name == "bwd" or self.wide == "E2M1" else (
            "E4M3")

    def quantizer(self, pass_name: str, columnwise: bool) -> typing.Any:
        if self.recipe == "delayed":
            return self.states[pass_name].quantizer(columnwise)
        fmt = quantizers.te_format(self.format(pass_name))
        if self.recipe == "nvfp4":
            given = {"fp4_dtype": fmt, "with_rht": columnwise,
                     "with_post_rht_amax": columnwise}
        else:
            given = {"fp8_dtype": fmt}
        if self.recipe == "current":
            given["device"] = self.device
        if self.recipe == "block":
            given["block_scaling_dim"] = 1
        return quantizers.make(self.kind, given, columnwise)

    def put(self, result: Result, name: str, end: str, pass_name: str,
            codes: Codes) -> None:
        data, scale = codes.data(), codes.scale_inv()
        if self.recipe == "nvfp4":
            data = data.view(torch.float4_e2m1fn_x2)
            scale = scale.view(torch.float8_e4m3fn)
            result.outputs[f"{name}.amax{end}"] = codes.amax().clone()
        else:
            data = data.view(DTYPES[self.format(pass_name)])
        if self.recipe == "mxfp8":
            scale = scale.view(torch.float8_e8m0fnu)
        result.outputs[f"{name}.codes{end}"] = data
        result.outputs[f"{name}.scale_inv{end}"] = scale


def run(call: Call) -> Result:
    result = Result()
    activation = Activation(call)
    quantizing = Quantizing(call) if call.recipe != "none" else None
    for step in range(1, call.steps + 1):
        x, dy = step_input(call, "x", step), step_input(call, "dy", step)
        end = call.step_name("", step)
        plain_step(call, activation, x, dy, result, end)
        if quantizing is not None:
            quantised_step(call, activation, quantizing, x, dy, result, end)
    if call.recipe == "delayed":
        for name, state in quantizing.states.items():
            result.outputs[f"scale_{name}"] = state.scale
            result.outputs[f"amax_history_{name}"] = state.history
    result.contract["defaults"] = defaults()
    return result


def plain_step(call: Call, activation: Activation, x: torch.Tensor,
               dy: torch.Tensor, result: Result, end: str) -> None:
    x = x.detach().requires_grad_()
    extra = []
    if call.scaled:
        extra = [call.inputs["act_scales"].detach().requires_grad_()]
    y = activation.operation()(x, *extra)
    y.backward(dy)
    result.outputs[f"y{end}"], result.outputs[f"grad.x{end}"] = y, x.grad
    if extra:
        result.outputs[f"grad.act_scales{end}"] = extra[0].grad
    if call.dbias:
        db, _ = activation.with_bias(dy.contiguous(), x.detach().contiguous(),
                                     None)
        result.outputs[f"grad.bias{end}"] = db


def quantised_step(call: Call, activation: Activation, quantizing: Quantizing,
                   x: torch.Tensor, dy: torch.Tensor, result: Result,
                   end: str) -> None:
    x, dy = x.contiguous(), dy.contiguous()
    rows = x.shape[0]
    for way in ("row", "column"):
        column = way == "column"
        y = activation.forward(x, quantizing.quantizer("fwd", column))
        quantizing.put(result, f"quantized.y.{way}", end, "fwd",
                       Codes(y, quantizing.kind, column, rows, dy.shape[1]))
        quantizer = quantizing.quantizer("bwd", column)
        if call.dbias:
            db, dx = activation.with_bias(dy, x, quantizer)
            result.outputs[f"quantized.grad.bias{end}"] = db
        else:
            dx = activation.backward(dy, x, quantizer)
        quantizing.put(result, f"quantized.grad.x.{way}", end, "bwd",
                       Codes(dx, quantizing.kind, column, rows, x.shape[1]))
    for state in quantizing.states.values():
        state.update()


def defaults() -> dict[str, typing.Any]:
    found: dict[str, typing.Any] = {}
    for name, arguments in DEFAULTS.items():
        kind = resolve(PATH + name)
        if kind is not None:
            found.update(defaults_of(kind.__init__, arguments))
    return {name: modules.plain(value) for name, value in found.items()}

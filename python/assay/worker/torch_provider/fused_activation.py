"""fused_activation: NVTE's activations and their gradients in fp32, rounded
once; scaled by a factor per row, summed to the gradient of a bias, quantised.

Delayed scaling takes the fp32 results, the other recipes the rounded ones.
"""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Refused, Result
from assay.worker.torch_provider import activations, quantize
from assay.worker.torch_provider.delayed import DelayedState
from assay.worker.torch_provider.formats import E4M3, E5M2
from assay.worker.torch_provider.linear_common import step_input
from assay.worker.torch_provider.nvfp4 import nvfp4
from assay.worker.torch_provider.quantize import Quantized

ADAPTER = 1
DTYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
          "e2m1": torch.float4_e2m1fn_x2}
HISTORY = 4
DEFAULTS = {"limit": 7.0, "alpha": 1.702, "glu_linear_offset": 1.0,
            "beta1": 4.0, "beta2": 25.0}


def clamped_swiglu(call: Call, gate: torch.Tensor, linear: torch.Tensor,
                   ) -> tuple[torch.Tensor, ...]:
    """gpt-oss: the gate is clamped from above alone (trap T13). Clamps take
    a NaN for their bound: the gate's upper, linear's lower one."""
    limit = torch.full_like(gate, call.limit)
    above = torch.isnan(gate) | (gate > limit)
    value, slope = activations.logistic_times(
        torch.where(above, limit, gate), call.alpha)
    slope = torch.where(above, torch.zeros_like(slope), slope)
    inside = (linear >= -limit) & (linear <= limit)
    clamped = torch.where(torch.isnan(linear), -limit, linear)
    clamped = clamped.clamp(-call.limit, call.limit) + call.glu_linear_offset
    return value, slope, clamped, inside.float()


def situglu(call: Call, gate: torch.Tensor, linear: torch.Tensor,
            ) -> tuple[torch.Tensor, ...]:
    """beta1 tanh(a / beta1) sigma(a) beta2 tanh(b / beta2)."""
    t, s = torch.tanh(gate / call.beta1), torch.sigmoid(gate)
    up = torch.tanh(linear / call.beta2)
    return (call.beta1 * t * s,
            (1 - t * t) * s + call.beta1 * t * s * (1 - s),
            call.beta2 * up, 1 - up * up)


def gated(call: Call, gate: torch.Tensor, linear: torch.Tensor,
          ) -> tuple[torch.Tensor, ...]:
    """f(gate), f'(gate), h(linear), h'(linear); the result is f h."""
    if call.activation == "clamped_swiglu":
        return clamped_swiglu(call, gate, linear)
    if call.activation == "situglu":
        return situglu(call, gate, linear)
    if call.activation not in activations.GATED:
        raise Refused(f"activation {call.activation}")
    value, slope = activations.GATED[call.activation](gate)
    return value, slope, linear, torch.ones_like(linear)


def halves(call: Call, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    size = call.glu_interleave_size
    if size == 0:
        return x.chunk(2, -1)
    if x.shape[-1] % (2 * size):
        raise Refused(f"glu_interleave_size {size} of {x.shape[-1]} columns")
    blocks = x.unflatten(-1, (-1, 2, size))
    return blocks[..., 0, :].flatten(-2), blocks[..., 1, :].flatten(-2)


def joined(call: Call, gate: torch.Tensor,
           linear: torch.Tensor) -> torch.Tensor:
    size = call.glu_interleave_size
    if size == 0:
        return torch.cat((gate, linear), -1)
    blocks = torch.stack((gate.unflatten(-1, (-1, size)),
                          linear.unflatten(-1, (-1, size))), -2)
    return blocks.flatten(-3)


def both_ways(call: Call, x: torch.Tensor, dy: torch.Tensor,
              ) -> tuple[torch.Tensor, torch.Tensor]:
    """act(x) and dy act'(x), in fp32."""
    x, dy = x.float(), dy.float()
    if call.activation in activations.PLAIN:
        if call.glu_interleave_size:
            raise Refused(f"{call.activation} has no gate to interleave")
        value, slope = activations.PLAIN[call.activation](x)
        return value, dy * slope
    value, slope, other, other_slope = gated(call, *halves(call, x))
    return value * other, joined(call, dy * slope * other,
                                 dy * value * other_slope)


class Quantizers:
    """Of a linear layer's input and of its grad_output."""

    def __init__(self, call: Call):
        self.recipe, self.dtype = call.recipe, call.torch_dtype
        self.states = {
            "fwd": DelayedState(HISTORY, 1, E4M3.largest, device=call.device),
            "bwd": DelayedState(HISTORY, 1, E5M2.largest, device=call.device)}

    def quantize(self, x: torch.Tensor, pass_name: str,
                 columnwise: bool) -> Quantized:
        """x in fp32."""
        wide = E5M2 if pass_name == "bwd" else E4M3
        if self.recipe == "delayed":
            return self.states[pass_name].quantize(x, 0, wide, columnwise)
        x = x.to(self.dtype)
        if self.recipe == "current":
            return quantize.current(x, wide, columnwise)
        if self.recipe == "block":
            return quantize.block128(x, E4M3, 1, columnwise)
        if self.recipe == "mxfp8":
            return quantize.mxfp8(x, E4M3, columnwise)
        return nvfp4(x, columnwise, rht=columnwise)

    def update(self) -> None:
        for state in self.states.values():
            state.update()


class Outputs:
    """Results of one step under their names."""

    def __init__(self, call: Call, step: int, result: Result):
        self.call, self.step, self.result = call, step, result

    def put(self, name: str, tensor: torch.Tensor) -> None:
        self.result.outputs[self.call.step_name(name, self.step)] = tensor

    def put_quantized(self, name: str, q: Quantized) -> None:
        nvfp4 = q.mode == "nvfp4"
        codes = q.packed() if nvfp4 else q.codes
        self.put(f"{name}.codes",
                 codes.contiguous().view(DTYPES[q.format.name]))
        scale = q.scale_inv
        if q.mode == "mxfp8":
            scale = scale.contiguous().view(torch.float8_e8m0fnu)
        elif nvfp4:
            scale = scale.contiguous().view(torch.float8_e4m3fn)
            self.put(f"{name}.amax", q.amax.reshape(1))
        self.put(f"{name}.scale_inv", scale)


def run_step(call: Call, out: Outputs, x: torch.Tensor, dy: torch.Tensor,
             quantizers: Quantizers | None) -> None:
    y, dx = both_ways(call, x, dy)
    if call.scaled:
        scales = call.inputs["act_scales"].float()[:, None]
        out.put("grad.act_scales", (dy.float() * y).sum(-1))
        y, dx = y * scales, dx * scales
    out.put("y", y.to(x.dtype))
    out.put("grad.x", dx.to(x.dtype))
    if call.dbias:
        out.put("grad.bias", dx.sum(0).to(x.dtype))
    if quantizers is None:
        return
    for name, pass_name, tensor in (("y", "fwd", y), ("grad.x", "bwd", dx)):
        for way in ("row", "column"):
            out.put_quantized(f"quantized.{name}.{way}", quantizers.quantize(
                tensor, pass_name, way == "column"))
    if call.dbias:
        out.put("quantized.grad.bias", dx.sum(0).to(x.dtype))
    quantizers.update()


def run(call: Call) -> Result:
    result = Result()
    quantizers = Quantizers(call) if call.recipe != "none" else None
    for step in range(1, call.steps + 1):
        run_step(call, Outputs(call, step, result),
                 step_input(call, "x", step), step_input(call, "dy", step),
                 quantizers)
    if call.recipe == "delayed":
        for name, state in quantizers.states.items():
            result.outputs[f"scale_{name}"] = state.scale
            result.outputs[f"amax_history_{name}"] = state.history
    result.contract["defaults"] = DEFAULTS
    return result

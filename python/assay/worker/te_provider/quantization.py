"""quantization: every quantizer of the package in both directions, delayed
scaling over steps, and the defaults of recipes."""

from __future__ import annotations

import dataclasses
import typing

import torch

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules, quantizers
from assay.worker.te_provider.api import (call_named, defaults_of, require,
                                          resolve)
from assay.worker.te_provider.recipes import NAMES, RECIPES
from assay.worker.te_provider.quantizers import Codes, Delayed
from assay.worker.torch_provider.quantization import DEFAULTS

ADAPTER = 1
_PATH = "transformer_engine.pytorch."
_TENSOR = _PATH + "tensor."
_QUANTIZERS = {name: f"{_TENSOR}{place}.{name}"
               for name, place in quantizers.PLACES.items()}
_TENSORS = {"Float8Tensor": "float8_tensor", "MXFP8Tensor": "mxfp8_tensor",
            "Float8BlockwiseQTensor": "float8_blockwise_tensor",
            "NVFP4Tensor": "nvfp4_tensor"}
API = [_PATH + name for name in (
    "Quantizer", *_QUANTIZERS, "QuantizedTensor", *_TENSORS,
    "QuantizedTensorStorage", *(f"{name}Storage" for name in _TENSORS),
    "float8_tensor.Float8Tensor", "DType")] + [
        *_QUANTIZERS.values(),
        *(f"{_TENSOR}{place}.{name}" for name, place in _TENSORS.items()),
        *(RECIPES + name for name in (
            "Format", "Recipe", *(found for found, _ in NAMES.values()),
            "CustomRecipe"))]
KINDS = {"current": "Float8CurrentScalingQuantizer",
         "block": "Float8BlockQuantizer", "mxfp8": "MXFP8Quantizer",
         "nvfp4": "NVFP4Quantizer"}


def format_of(call: Call) -> str:
    """E4M3 or E5M2. The package itself must refuse a recipe of E5M2 alone."""
    recipe_of(call)
    wide = call.fp8_format == "HYBRID" and call.direction == "backward"
    return "E5M2" if wide or call.fp8_format == "E5M2" else "E4M3"


def recipe_of(call: Call) -> typing.Any:
    """Of delayed scaling with the settings that its update reads."""
    name, _ = NAMES[call.quantizer]
    given = {"fp8_format": getattr(require(RECIPES + "Format"),
                                   call.fp8_format)}
    if call.quantizer == "delayed":
        given.update(margin=call.margin,
                     amax_history_len=call.amax_history_len,
                     amax_compute_algo=call.amax_compute_algo)
    return call_named(require(RECIPES + name), given)


def options(call: Call) -> dict[str, typing.Any]:
    if call.quantizer == "nvfp4":
        return {"fp4_dtype": quantizers.te_format("E2M1"),
                "with_rht": call.with_rht,
                "with_post_rht_amax": call.with_rht,
                "with_2d_quantization": call.with_2d_quantization,
                "stochastic_rounding": False,
                "row_scaled_nvfp4": call.row_scaled_nvfp4,
                "nvfp4_use_4over6": call.nvfp4_4over6 != "none",
                "nvfp4_e4m3_max": call.nvfp4_e4m3_max,
                "nvfp4_4over6_err_mode": "MAE"
                if call.nvfp4_4over6 == "none" else call.nvfp4_4over6,
                "with_random_sign_mask": call.with_random_sign_mask}
    found: dict[str, typing.Any] = {
        "fp8_dtype": quantizers.te_format(format_of(call))}
    if call.quantizer == "mxfp8":
        return {**found, "with_2d_quantization": call.with_2d_quantization}
    found.update(force_pow_2_scales=call.force_pow_2_scales,
                 amax_epsilon=call.amax_epsilon)
    if call.quantizer == "current":
        return {**found, "device": call.device}
    return {**found, "block_scaling_dim": call.block_scaling_dim}


def run(call: Call) -> Result:
    result = Result()
    if call.quantizer == "delayed":
        run_delayed(call, result)
    else:
        recipe_of(call)
        for columnwise in (False, True):
            if not (columnwise and call.row_scaled_nvfp4):
                one_direction(call, result, columnwise)
    result.contract = {"enums": enums(), "defaults": defaults()}
    return result


def one_direction(call: Call, result: Result, columnwise: bool) -> None:
    prefix = "column" if columnwise else "row"
    kind, x = KINDS[call.quantizer], call.inputs["x"]
    quantizer = quantizers.make(kind, options(call), columnwise)
    codes = Codes(quantizer(x), kind, columnwise, call.rows, call.columns,
                  call.block_scaling_dim)
    put(result, prefix, codes, x)
    if call.quantizer == "current":
        result.outputs[f"{prefix}.amax"] = quantizer.amax.reshape(1)
    if call.quantizer == "nvfp4":
        result.outputs[f"{prefix}.amax"] = codes.amax()
    if call.quantizer in ("mxfp8", "nvfp4"):
        # Last: it turns the scales over where they are.
        result.outputs[f"{prefix}.scale_swizzled"] = codes.swizzled()


def put(result: Result, prefix: str, codes: Codes, x: torch.Tensor,
        end: str = "") -> None:
    values = {"codes": codes.data(), "scale_inv": codes.scale_inv(),
              "values": codes.tensor.dequantize(dtype=x.dtype)}
    for name, tensor in values.items():
        result.outputs[f"{prefix}.{name}{end}"] = tensor.clone().reshape(
            x.shape if name == "values" else tensor.shape)


def run_delayed(call: Call, result: Result) -> None:
    """Slot 0 quantises its own tensor at every step; the others take the
    magnitudes in `amax`."""
    fmt, given = format_of(call), call.inputs["amax"].abs()
    state = Delayed(call.amax_history_len, given.shape[1] + 1, fmt,
                    call.device, call.margin, call.amax_compute_algo)
    for step in range(1, call.steps + 1):
        x, end = call.inputs["x"][step - 1], call.step_name("", step)
        for columnwise in (False, True):
            prefix = "delayed.column" if columnwise else "delayed.row"
            codes = Codes(state.quantizer(columnwise)(x), "Float8Quantizer",
                          columnwise, call.rows, call.columns)
            put(result, prefix, codes, x, end)
            result.outputs[f"{prefix}.amax{end}"] = state.history[0, :1].clone()
        state.history[0, 1:] = given[step - 1]
        if call.update == "unfused":
            state.update_unfused(recipe_of(call), largest(call, fmt))
        else:
            state.update()
        result.outputs[f"delayed.amax_history{end}"] = state.history.clone()
        result.outputs[f"delayed.scale{end}"] = state.scale.clone()


def largest(call: Call, fmt: str) -> float:
    return float(getattr(require(RECIPES + "Format"), fmt).value.max_fwd)


def enums() -> dict[str, typing.Any]:
    found: dict[str, typing.Any] = {}
    types = resolve(_PATH + "DType")
    if types is not None:
        found["DType"] = {name: int(member)
                          for name, member in types.__members__.items()}
    formats = resolve(RECIPES + "Format")
    if formats is not None:
        found["Format"] = {name: [member.value.max_fwd, member.value.max_bwd]
                           for name, member in formats.__members__.items()}
    return found


def defaults() -> dict[str, typing.Any]:
    """Of every class that is there, each argument that the spec names."""
    found = {}
    for name, expected in DEFAULTS.items():
        kind = resolve(RECIPES + name) or resolve(_PATH + name)
        if kind is not None:
            found[name] = {key: shown(value) for key, value in
                           defaults_of(kind, expected).items()}
    return found


def shown(value: typing.Any) -> typing.Any:
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    return modules.plain(value)

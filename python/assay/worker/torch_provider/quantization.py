"""quantization: codes, scales and values of every quantiser, both directions;
delayed scaling's state over steps; the recipes' defaults."""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result
from assay.worker.torch_provider import formats, nvfp4, quantize
from assay.worker.torch_provider.delayed import DelayedState
from assay.worker.torch_provider.formats import E4M3, E5M2, Format
from assay.worker.torch_provider.quantize import Quantized

ADAPTER = 1


def run(call: Call) -> Result:
    result = Result()
    if call.quantizer == "delayed":
        run_delayed(call, result)
    else:
        x = call.inputs["x"]
        for columnwise in (False, True):
            if columnwise and call.row_scaled_nvfp4:
                continue
            prefix = "column" if columnwise else "row"
            q = quantize_one(call, x, columnwise)
            for name, tensor in outputs_of(q, x).items():
                result.outputs[f"{prefix}.{name}"] = tensor
    result.contract = {"enums": ENUMS, "defaults": DEFAULTS}
    return result


def format_of(call: Call) -> Format:
    if call.fp8_format not in ("E4M3", "HYBRID"):
        raise Refused(f"fp8_format: {call.fp8_format}")
    backward = call.direction == "backward"
    return E5M2 if call.fp8_format == "HYBRID" and backward else E4M3


def quantize_one(call: Call, x: torch.Tensor, columnwise: bool) -> Quantized:
    target = format_of(call)
    if call.amax_epsilon < 0:
        raise Refused(f"amax_epsilon: {call.amax_epsilon}, expected 0 or more")
    if call.quantizer == "current":
        return quantize.current(x, target, columnwise, call.force_pow_2_scales,
                                call.amax_epsilon)
    if call.quantizer == "block":
        return quantize.block128(x, target, call.block_scaling_dim, columnwise,
                                 call.force_pow_2_scales, call.amax_epsilon)
    if call.quantizer == "mxfp8":
        return quantize.mxfp8(x, target, columnwise, call.with_2d_quantization)
    if call.quantizer == "nvfp4":
        signs = nvfp4.SIGNS if call.with_random_sign_mask else [1] * 16
        return nvfp4.nvfp4(
            x, columnwise, call.with_2d_quantization, call.with_rht,
            call.row_scaled_nvfp4,
            None if call.nvfp4_4over6 == "none" else call.nvfp4_4over6,
            float(call.nvfp4_e4m3_max), signs)
    raise Refused(f"quantizer: {call.quantizer}")


def outputs_of(q: Quantized, x: torch.Tensor) -> dict[str, torch.Tensor]:
    packed = q.mode == "nvfp4"
    found = {"codes": q.packed() if packed else q.codes,
             "scale_inv": q.scale_inv,
             "values": q.matrix().to(x.dtype).reshape(x.shape)}
    if q.amax is not None:
        found["amax"] = q.amax
    if q.mode in ("mxfp8", "nvfp4"):
        # MXFP8's column-wise scales are tiled as those of the transposed
        # matrix, in a buffer that keeps the shape of the padded ones.
        turned = q.mode == "mxfp8" and q.columnwise
        tiled = swizzled(q.scale_inv.T if turned else q.scale_inv)
        found["scale_swizzled"] = (tiled.reshape(tiled.shape[::-1]) if turned
                                   else tiled)
    return found


def swizzled(scales: torch.Tensor) -> torch.Tensor:
    """128 x 4 tiles, row-tile major; in one, byte (r mod 32) 16 + (r div 32) 4
    + c. Padding is zero."""
    m, k = scales.shape
    down, right = -(-m // 128), -(-k // 4)
    padded = torch.nn.functional.pad(scales, (0, right * 4 - k,
                                              0, down * 128 - m))
    tiles = padded.reshape(down, 4, 32, right, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(down * 128, right * 4)


def run_delayed(call: Call, result: Result) -> None:
    """Slot 0 quantises its own tensor at every step; the others take the
    magnitudes in `amax`."""
    target = format_of(call)
    given = call.inputs["amax"].abs()
    state = DelayedState(call.amax_history_len, given.shape[1] + 1,
                         target.largest, call.margin, call.amax_compute_algo,
                         call.device)
    for step in range(1, call.steps + 1):
        x = call.inputs["x"][step - 1]
        for columnwise in (False, True):
            prefix = "delayed.column" if columnwise else "delayed.row"
            q = state.quantize(x, 0, target, columnwise)
            for name, tensor in outputs_of(q, x).items():
                result.outputs[call.step_name(f"{prefix}.{name}", step)] = (
                    tensor)
        state.history[0, 1:] = given[step - 1]
        if call.update == "unfused":
            state.update_unfused()
        else:
            state.update()
        for name, tensor in (("amax_history", state.history),
                             ("scale", state.scale)):
            result.outputs[call.step_name(f"delayed.{name}", step)] = (
                tensor.clone())


# NVTE's enumerations and signatures, as documented.
ENUMS = {
    "DType": {"kByte": 0, "kInt16": 1, "kInt32": 2, "kInt64": 3,
              "kFloat32": 4, "kFloat16": 5, "kBFloat16": 6, "kFloat8E4M3": 7,
              "kFloat8E5M2": 8, "kFloat8E8M0": 9, "kFloat4E2M1": 10},
    "Format": {"E2M1": [6, 6], "E4M3": [448, 448], "E5M2": [57344, 57344],
               "HYBRID": [448, 57344]},
}
EVERY_RECIPE = {"fp8_dpa": False, "fp8_mha": False, "backward_override": None}
SPLIT = {"use_split_accumulator": True}
DEFAULTS = {
    "DelayedScaling": {
        **EVERY_RECIPE, "margin": 0, "fp8_format": "HYBRID",
        "amax_history_len": 1024, "amax_compute_algo": "max",
        "scaling_factor_compute_algo": None, "reduce_amax": True},
    "Float8CurrentScaling": {
        **EVERY_RECIPE, "fp8_format": "HYBRID", "use_power_2_scales": False,
        "fp8_gemm_fprop": {"use_split_accumulator": False},
        "fp8_gemm_dgrad": SPLIT, "fp8_gemm_wgrad": SPLIT},
    "Float8BlockScaling": {
        **EVERY_RECIPE, "fp8_format": "E4M3", "use_f32_scales": False,
        "x_block_scaling_dim": 1, "w_block_scaling_dim": 2,
        "grad_block_scaling_dim": 1, "fp8_gemm_fprop": SPLIT,
        "fp8_gemm_dgrad": SPLIT, "fp8_gemm_wgrad": SPLIT},
    "MXFP8BlockScaling": {
        **EVERY_RECIPE, "fp8_format": "E4M3", "margin": 0,
        "enable_2d_quantization": False},
    "NVFP4BlockScaling": {
        **EVERY_RECIPE, "fp8_format": "E4M3", "fp4_format": "E2M1",
        "disable_rht": False, "disable_stochastic_rounding": False,
        "disable_2d_quantization": False, "row_scaled_activation": False,
        "nvfp4_4over6": "none", "nvfp4_4over6_e4m3_use_256": "all",
        "nvfp4_4over6_err_mode": "MAE"},
    "CustomRecipe": {
        **EVERY_RECIPE, "fp8_format": "HYBRID", "quantization_alignment": 128},
    "Float8CurrentScalingQuantizer": {
        "force_pow_2_scales": False, "amax_epsilon": 0.0},
    "Float8BlockQuantizer": {
        "force_pow_2_scales": True, "amax_epsilon": 0.0,
        "block_scaling_dim": 2},
    "MXFP8Quantizer": {"with_2d_quantization": False},
    "NVFP4Quantizer": {
        "with_rht": False, "with_2d_quantization": False,
        "stochastic_rounding": False, "row_scaled_nvfp4": False,
        "nvfp4_use_4over6": False, "nvfp4_e4m3_max": 448,
        "with_random_sign_mask": True},
}

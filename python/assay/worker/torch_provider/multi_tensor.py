"""multi_tensor: scaling with an overflow flag, norms, scales of shards."""

from __future__ import annotations

import torch

from assay.worker.call import DTYPES, Call, Refused, Result
from assay.worker.torch_provider import formats, quantize

ADAPTER = 1


def run(call: Call) -> Result:
    if not call.sizes_agree:
        raise Refused("outputs have not the sizes of their inputs")
    result = Result()
    inputs = {name: call.inputs[name] for name in ("a", "small")}
    if call.op in ("scale", "scale_tensor"):
        run_scale(call, inputs, result)
    elif call.op in ("l2norm", "unscale_l2norm"):
        run_norm(call, inputs, result)
    elif call.op in ("compute_scale_and_scale_inv", "compute_scale_inv_e8m0"):
        for name, tensor in inputs.items():
            run_scales(call, name, tensor.abs().float(), result)
    else:
        raise Refused(f"op: {call.op}")
    return result


def f32(value: float, like: torch.Tensor) -> torch.Tensor:
    return torch.full((), value, dtype=torch.float32, device=like.device)


def run_scale(call: Call, inputs: dict[str, torch.Tensor],
              result: Result) -> None:
    finite = True
    for name, tensor in inputs.items():
        finite = finite and bool(torch.isfinite(tensor).all())
        product = tensor.float() * f32(call.factor, tensor)
        result.outputs[f"out.{name}"] = product.to(DTYPES[call.out_dtype])
    result.outputs["overflow"] = torch.tensor([0 if finite else 1],
                                              dtype=torch.int32)


def run_norm(call: Call, inputs: dict[str, torch.Tensor],
             result: Result) -> None:
    """sqrt of the sum of squares, in fp64; the empty tensor's is 0."""
    squares = []
    for tensor in (inputs["a"].reshape(1, -1),
                   inputs["a"].new_zeros(1, 0), inputs["small"]):
        values = tensor.float()
        if call.op == "unscale_l2norm":
            values = values * f32(call.factor, values)
        squares.append(values.double().square().sum(1))
    each = torch.cat(squares)
    result.outputs["norm"] = each.sum().sqrt().float().reshape(1)
    result.outputs["norm.per_tensor"] = each.sqrt().float()


def run_scales(call: Call, name: str, amax: torch.Tensor,
               result: Result) -> None:
    if call.op == "compute_scale_inv_e8m0":
        inverse = formats.divide(1.0, torch.full_like(amax, 448.0))
        result.outputs[f"scale_inv.{name}"] = formats.encode_e8m0_up(
            amax * inverse)
        return
    scale = quantize.compute_scale(amax, call.max_fp8,
                                   call.force_pow_2_scales, call.epsilon)
    result.outputs[f"scale.{name}"] = scale
    result.outputs[f"scale_inv.{name}"] = formats.divide(1.0, scale)

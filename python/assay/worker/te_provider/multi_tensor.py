"""multi_tensor: calls over lists of tensors, through MultiTensorApply where
empty tensors may be dropped and straight to the binding where each counts."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import DTYPES, Call, Result
from assay.worker.te_provider.api import require

ADAPTER = 1
_PYTORCH = "transformer_engine.pytorch.optimizers."
_TEX = "transformer_engine_torch."
API = [_PYTORCH + "MultiTensorApply", _PYTORCH + "multi_tensor_applier",
       _PYTORCH + "multi_tensor_scale", _PYTORCH + "multi_tensor_scale_tensor",
       _PYTORCH + "multi_tensor_l2norm",
       _PYTORCH + "multi_tensor_unscale_l2norm",
       _TEX + "multi_tensor_scale", _TEX + "multi_tensor_scale_tensor",
       _TEX + "multi_tensor_l2norm", _TEX + "multi_tensor_unscale_l2norm",
       _TEX + "multi_tensor_compute_scale_and_scale_inv",
       _TEX + "multi_tensor_compute_scale_inv_e8m0"]
CHUNK = 2048 * 32


class Lists:
    """The inputs of a case as lists: the large one, an empty one, the small
    ones. Kernels walk over flat memory."""

    def __init__(self, call: Call):
        self.call = call
        self.small = call.inputs["small"]
        self.tensors = [call.inputs["a"].contiguous(), self.small.new_zeros(0),
                        *self.small.contiguous().unbind(0)]
        self.flag = torch.zeros(1, dtype=torch.int32, device=call.device)

    def like(self, dtype: torch.dtype) -> list[torch.Tensor]:
        return [torch.empty_like(t, dtype=dtype) for t in self.tensors]

    def put(self, result: Result, name: str,
            tensors: list[torch.Tensor]) -> None:
        result.outputs[f"{name}.a"] = tensors[0]
        result.outputs[f"{name}.small"] = (
            torch.stack(tensors[2:]) if len(tensors) > 2
            else self.small.new_zeros(0, 7).to(tensors[0].dtype))


def named(name: str) -> typing.Any:
    return require(_PYTORCH + name, _TEX + name)


def scalar(call: Call) -> torch.Tensor:
    return torch.full((1,), call.factor, device=call.device)


def run(call: Call) -> Result:
    result = Result()
    lists = Lists(call)
    if call.op in ("scale", "scale_tensor"):
        scale(call, lists, result)
    elif call.op in ("l2norm", "unscale_l2norm"):
        norm(call, lists, result)
    elif call.op in ("compute_scale_and_scale_inv", "compute_scale_inv_e8m0"):
        scales(call, lists, result)
    else:
        raise ValueError(f"no op {call.op}")
    return result


def scale(call: Call, lists: Lists, result: Result) -> None:
    outputs = lists.like(DTYPES[call.out_dtype])
    if not call.sizes_agree:
        outputs[0] = outputs[0][:-1]
    factor = call.factor if call.op == "scale" else scalar(call)
    require(_PYTORCH + "multi_tensor_applier")(
        named(f"multi_tensor_{call.op}"), lists.flag,
        [lists.tensors, outputs], factor)
    lists.put(result, "out", outputs)
    result.outputs["overflow"] = lists.flag


def norm(call: Call, lists: Lists, result: Result) -> None:
    factor = [scalar(call)] if call.op == "unscale_l2norm" else []
    total, each = named(f"multi_tensor_{call.op}")(
        CHUNK, lists.flag, [lists.tensors], *factor, True)
    result.outputs["norm"] = total.reshape(1)
    result.outputs["norm.per_tensor"] = each


def scales(call: Call, lists: Lists, result: Result) -> None:
    amaxes = [t.abs().float() for t in lists.tensors]
    operation = require(f"{_TEX}multi_tensor_{call.op}")
    if call.op == "compute_scale_inv_e8m0":
        inverse = lists.like(torch.uint8)
        operation(CHUNK, lists.flag, [amaxes, inverse])
        lists.put(result, "scale_inv", inverse)
        return
    found, inverse = (lists.like(torch.float32) for _ in range(2))
    operation(CHUNK, lists.flag, [amaxes, found, inverse], call.max_fp8,
              call.force_pow_2_scales, call.epsilon)
    lists.put(result, "scale", found)
    lists.put(result, "scale_inv", inverse)

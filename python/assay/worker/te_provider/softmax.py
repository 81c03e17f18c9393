"""softmax: the functions behind FusedScaleMaskSoftmax, forward and backward,
and when that module would run them."""

from __future__ import annotations

import typing

from assay.worker.call import Call, Result, Unsupported
from assay.worker.te_provider.api import call_named, require

ADAPTER = 1
_PATH = "transformer_engine.pytorch.attention.dot_product_attention.softmax."
_OLD = "transformer_engine.pytorch.softmax."
_TEX = "transformer_engine_torch."
KERNELS = ("scaled_softmax", "scaled_masked_softmax",
           "scaled_upper_triang_masked_softmax",
           "scaled_aligned_causal_masked_softmax")
API = [f"{_TEX}{name}_{way}" for name in KERNELS
       for way in ("forward", "backward")]
FUNCTIONS = {"none": "ScaledSoftmax", "padding": "ScaledMaskedSoftmax",
             "upper_triangular": "ScaledUpperTriangMaskedSoftmax",
             "aligned_causal": "ScaledAlignedCausalMaskedSoftmax"}
# As FusedScaleMaskSoftmax is told.
MASKS = {"none": "no_mask", "padding": "padding",
         "upper_triangular": "causal",
         "aligned_causal": "causal_bottom_right"}


def run(call: Call) -> Result:
    if call.mask_type not in FUNCTIONS:
        raise ValueError(f"no mask {call.mask_type}")
    name = FUNCTIONS[call.mask_type]
    function = require(_PATH + name, _OLD + name)
    x = call.inputs["x"].detach().requires_grad_()
    y = apply(call, function, x)
    y.backward(call.inputs["dy"].reshape(y.shape))
    result = Result()
    result.outputs = {"y": y.reshape(x.shape), "grad.x": x.grad}
    result.contract["fused_kernel"] = fused_kernel(call)
    return result


def apply(call: Call, function: typing.Any, x):
    """The triangular one takes the heads of all sequences as one dimension."""
    if call.mask_type == "padding":
        return function.apply(x, call.inputs["mask"].bool(), call.scale)
    if call.mask_type == "upper_triangular":
        return function.apply(x.reshape(-1, *x.shape[-2:]), call.scale)
    return function.apply(x, call.scale)


def fused_kernel(call: Call) -> bool:
    module = call_named(require(_PATH + "FusedScaleMaskSoftmax",
                                _OLD + "FusedScaleMaskSoftmax"),
                        {"mask_func": lambda scores, mask: scores})
    if not hasattr(module, "is_kernel_available"):
        raise Unsupported("FusedScaleMaskSoftmax says not whether it runs its "
                          "kernel")
    x = call.inputs["x"]
    # What forward() leaves before it asks.
    module.input_in_fp16 = str(x.dtype) == "torch.float16"
    module.input_in_bf16 = str(x.dtype) == "torch.bfloat16"
    module.input_in_float16 = module.input_in_fp16 or module.input_in_bf16
    module.attn_mask_type = MASKS[call.mask_type]
    return bool(module.is_kernel_available(call.inputs.get("mask"),
                                           *x.shape))

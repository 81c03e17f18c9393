"""te.RMSNorm and te.LayerNorm, and the functions of the binding that give
what the modules keep to themselves: means and 1 / deviations."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import DTYPES, Call, Result, state_dict_contract
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import call_named, require
from assay.worker.torch_provider.rmsnorm import DEFAULTS

TEX = "transformer_engine_torch."


def te_dtype(dtype: torch.dtype) -> typing.Any:
    table = require("transformer_engine.pytorch.constants.TE_DType")
    return table[dtype]


def module_of(call: Call, api: list[str]) -> torch.nn.Module:
    # Releases before 2.0 say hidden_size; both take it in the first place.
    kind = require(*api)
    module = kind(call.hidden_size, **norm_options(call))
    modules.fill(call, module)
    return module


def norm_options(call: Call) -> dict[str, typing.Any]:
    return {"eps": call.eps, "zero_centered_gamma": call.zero_centered_gamma,
            "params_dtype": DTYPES[call.params_dtype],
            "device": str(call.device)}


def run_module(call: Call, api: list[str]) -> Result:
    """y, and in training the gradients by autograd."""
    result = Result()
    module = module_of(call, api)
    if call.training:
        x = call.inputs["x"].detach().requires_grad_()
        y = module(x)
        y.backward(call.inputs["dy"])
        result.outputs["grad.x"] = x.grad
        for name, parameter in module.named_parameters():
            result.outputs[f"grad.{name}"] = parameter.grad
    else:
        module.eval()
        with torch.no_grad():
            y = module(call.inputs["x"])
    result.outputs["y"] = y
    result.contract = {
        "defaults": modules.defaults_contract(require(*api), DEFAULTS),
        "state_dict": state_dict_contract(dict(module.named_parameters()))}
    return result


def statistics(call: Call, name: str) -> tuple[typing.Any, ...]:
    """y, mean, rsigma as rmsnorm_fwd or layernorm_fwd gives them; parameters
    in the dtype of x, as the modules cast them."""
    dtype = call.torch_dtype
    arguments = {"input": call.inputs["x"].contiguous(),
                 "weight": call.inputs["weight"].to(dtype)}
    if "bias" in call.inputs:
        arguments["bias"] = call.inputs["bias"].to(dtype)
    return call_named(require(TEX + name), {
        **arguments, "eps": call.eps, "ln_out": None, "quantizer": None,
        "otype": te_dtype(dtype), "sm_margin": 0,
        "zero_centered_gamma": call.zero_centered_gamma})

"""What the composites of modules with linear layers share: the steps of a case
and where gradients go."""

from __future__ import annotations

import torch

from assay.worker.call import Call, Result, state_dict_contract

# Defaults of NVTE's constructors that every such module has, as documented.
LINEAR_DEFAULTS = {
    "bias": True,
    "return_bias": False,
    "params_dtype": "float32",
    "fuse_wgrad_accumulation": False,
    "delay_wgrad_compute": False,
}
NORM_LINEAR_DEFAULTS = {
    **LINEAR_DEFAULTS,
    "eps": 1e-5,
    "normalization": "LayerNorm",
    "zero_centered_gamma": False,
    "return_layernorm_output": False,
}


def step_input(call: Call, name: str, step: int) -> torch.Tensor:
    """x 0.75^(step - 1), the product in fp32, rounded to x's dtype: every step
    has another amax, none a power of two apart."""
    x = call.inputs[name]
    return x if step == 1 else (x.float() * 0.75**(step - 1)).to(x.dtype)


class Gradients:
    """Gradients by parameter name; GEMM weights' add up in fp32 over the steps
    where the case fuses their accumulation."""

    def __init__(self, call: Call):
        self.fuses = call.parameters.get("fuse_wgrad_accumulation", False)
        self.parameters: dict[str, torch.Tensor] = {}
        self.outputs: dict[str, torch.Tensor] = {}

    def put_weight(self, name: str, parameter: torch.Tensor,
                   dw: torch.Tensor) -> None:
        """dw in fp32."""
        self.parameters[name] = parameter
        if not self.fuses:
            self.outputs[f"grad.{name}"] = dw.to(parameter.dtype)
            return
        key = f"main_grad.{name}"
        before = self.outputs.get(key)
        self.outputs[key] = dw if before is None else before + dw

    def put(self, name: str, parameter: torch.Tensor | None,
            grad: torch.Tensor | None) -> None:
        """A gradient in the parameter's dtype; nothing where there is none."""
        if parameter is not None:
            self.parameters[name] = parameter
            self.outputs[f"grad.{name}"] = grad


def finish(result: Result, gradients: Gradients,
           histories: dict[str, torch.Tensor],
           defaults: dict[str, object]) -> Result:
    result.outputs.update(gradients.outputs)
    result.outputs.update(histories)
    result.contract["state_dict"] = state_dict_contract(
        {**gradients.parameters, **histories})
    result.contract["defaults"] = defaults
    return result

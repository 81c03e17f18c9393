"""layernorm_linear: y = norm(x) W^T + b.

Delayed scaling quantises the norm's fp32 result, everything else its value in
the activations' dtype; so does delayed scaling where that value is given back
(return_layernorm_output).
"""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result
from assay.worker.torch_provider.linear_common import (NORM_LINEAR_DEFAULTS,
                                                       Gradients, finish,
                                                       step_input)
from assay.worker.torch_provider.norms import Norm
from assay.worker.torch_provider.recipes import (Products, bias_gradient,
                                                 histories, products_of)

ADAPTER = 1


def norm_of(call: Call, eps: str = "eps") -> Norm:
    try:
        return Norm(call.normalization, call.parameters[eps],
                    call.zero_centered_gamma)
    except ValueError as error:
        raise Refused(str(error)) from None


class NormLinear:
    """The norm and the GEMM behind it."""

    def __init__(self, norm: Norm, gemm: Products, weight: torch.Tensor,
                 bias: torch.Tensor | None, norm_weight: torch.Tensor,
                 norm_bias: torch.Tensor | None, returns_norm: bool):
        self.norm, self.gemm, self.returns_norm = norm, gemm, returns_norm
        self.weight, self.bias = weight, bias
        self.norm_weight, self.norm_bias = norm_weight, norm_bias

    def forward(self, x: torch.Tensor, adds_bias: bool = True,
                ) -> tuple[torch.Tensor, torch.Tensor]:
        """y and the norm's result, both in x's dtype."""
        z, self._norm = self.norm.forward(x, self.norm_weight, self.norm_bias)
        rounded = z.to(x.dtype)
        fused = self.gemm.recipe == "delayed" and not self.returns_norm
        y, self._gemm = self.gemm.fprop(z if fused else rounded, self.weight,
                                        self.bias if adds_bias else None)
        return y, rounded

    def backward(self, dy: torch.Tensor, dz: torch.Tensor | None,
                 dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """dx and dW (fp32); leaves dgamma and dbeta. `dz`: a gradient of the
        norm's result from elsewhere, added in fp32 and rounded once."""
        inner, dw = self.gemm.backward(dy, self._gemm)
        if dz is not None:
            inner = (inner.float() + dz.float()).to(dtype)
        dx, self.dgamma, self.dbeta = self.norm.backward(
            inner, self._norm, self.norm_weight, self.norm_bias)
        return dx.to(dtype), dw


def run(call: Call) -> Result:
    inputs = call.inputs
    (gemm,) = products_of(call, 1)
    layer = NormLinear(norm_of(call), gemm, inputs["weight"],
                       inputs.get("bias"), inputs["layer_norm_weight"],
                       inputs.get("layer_norm_bias"),
                       call.return_layernorm_output)
    gradients, result = Gradients(call), Result()
    for step in range(1, call.steps + 1):
        x, dy = step_input(call, "x", step), step_input(call, "dy", step)
        y, z = layer.forward(x, not call.return_bias)
        gemm.update_forward()
        dz = None
        if call.return_layernorm_output:
            dz = step_input(call, "d_layernorm_output", step)
            result.outputs[call.step_name("layernorm_output", step)] = z
        dx, dw = layer.backward(dy, dz, call.torch_dtype)
        gemm.update_backward()
        result.outputs[call.step_name("y", step)] = y
        result.outputs[call.step_name("grad.x", step)] = dx
        gradients.put("layer_norm_weight", layer.norm_weight, layer.dgamma)
        gradients.put("layer_norm_bias", layer.norm_bias, layer.dbeta)
        gradients.put_weight("weight", layer.weight, dw)
        if layer.bias is not None:
            gradients.put("bias", layer.bias, bias_gradient(dy, layer.bias))
    return finish(result, gradients, histories([gemm]), NORM_LINEAR_DEFAULTS)

"""layernorm_mlp: y = act(norm(x) W1^T + b1) W2^T + b2.

fc1's result h is rounded to the activations' dtype. act(h), and in backward
da act'(h), are what fc2 and fc1 quantise: in fp32 under delayed scaling, else
rounded. b1's gradient sums the fp32 values of da act'(h).
"""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result
from assay.worker.torch_provider import activations
from assay.worker.torch_provider.layernorm_linear import NormLinear, norm_of
from assay.worker.torch_provider.linear_common import (NORM_LINEAR_DEFAULTS,
                                                       Gradients, finish,
                                                       step_input)
from assay.worker.torch_provider.recipes import (Products, bias_gradient,
                                                 histories, products_of)

ADAPTER = 1
DEFAULTS = {**NORM_LINEAR_DEFAULTS, "activation": "gelu", "checkpoint": False}


class Mlp:
    """fc1 with its norm, the activation, fc2."""

    def __init__(self, fc1: NormLinear, activation: str, fc2: Products,
                 weight: torch.Tensor, bias: torch.Tensor | None):
        if not (activations.is_gated(activation)
                or activation in activations.PLAIN):
            raise Refused(f"activation: {activation}")
        self.fc1, self.activation, self.fc2 = fc1, activation, fc2
        self.weight, self.bias = weight, bias

    def forward(self, x: torch.Tensor, adds_bias: bool = True,
                ) -> tuple[torch.Tensor, torch.Tensor]:
        """y and the norm's result."""
        self._h, z = self.fc1.forward(x)
        a = activations.forward(self.activation, self._h)
        if self.fc2.recipe != "delayed":
            a = a.to(x.dtype)
        y, self._fc2 = self.fc2.fprop(a, self.weight,
                                      self.bias if adds_bias else None)
        return y, z

    def backward(self, dy: torch.Tensor, dz: torch.Tensor | None,
                 dtype: torch.dtype) -> torch.Tensor:
        """dx; leaves the gradients of the weights (fp32) and of b1."""
        da, self.dw2 = self.fc2.backward(dy, self._fc2)
        dh = activations.backward(self.activation, da, self._h)
        b1 = self.fc1.bias
        self.db1 = None if b1 is None else bias_gradient(dh, b1)
        dx, self.dw1 = self.fc1.backward(dh, dz, dtype)
        return dx

    def products(self) -> list[Products]:
        return [self.fc1.gemm, self.fc2]


def mlp_of(call: Call, tensors: dict[str, torch.Tensor], norm,
           returns_norm: bool) -> Mlp:
    """`tensors`: parameters under NVTE's names."""
    if call.parameters.get("backward_override", "none") != "none":
        raise Refused("backward_override, expected none")
    first, second = products_of(call, 2)
    fc1 = NormLinear(norm, first, tensors["fc1_weight"],
                     tensors.get("fc1_bias"), tensors["layer_norm_weight"],
                     tensors.get("layer_norm_bias"), returns_norm)
    return Mlp(fc1, call.activation, second, tensors["fc2_weight"],
               tensors.get("fc2_bias"))


def put_gradients(gradients: Gradients, mlp: Mlp, dy: torch.Tensor,
                  prefix: str = "") -> None:
    fc1 = mlp.fc1
    gradients.put(prefix + "layer_norm_weight", fc1.norm_weight, fc1.dgamma)
    gradients.put(prefix + "layer_norm_bias", fc1.norm_bias, fc1.dbeta)
    gradients.put_weight(prefix + "fc1_weight", fc1.weight, mlp.dw1)
    gradients.put(prefix + "fc1_bias", fc1.bias, mlp.db1)
    gradients.put_weight(prefix + "fc2_weight", mlp.weight, mlp.dw2)
    if mlp.bias is not None:
        gradients.put(prefix + "fc2_bias", mlp.bias,
                      bias_gradient(dy, mlp.bias))


def run(call: Call) -> Result:
    mlp = mlp_of(call, call.inputs, norm_of(call),
                 call.return_layernorm_output)
    gradients, result = Gradients(call), Result()
    for step in range(1, call.steps + 1):
        x, dy = step_input(call, "x", step), step_input(call, "dy", step)
        y, z = mlp.forward(x, not call.return_bias)
        for gemm in mlp.products():
            gemm.update_forward()
        dz = None
        if call.return_layernorm_output:
            dz = step_input(call, "d_layernorm_output", step)
            result.outputs[call.step_name("layernorm_output", step)] = z
        dx = mlp.backward(dy, dz, call.torch_dtype)
        for gemm in mlp.products():
            gemm.update_backward()
        result.outputs[call.step_name("y", step)] = y
        result.outputs[call.step_name("grad.x", step)] = dx
        put_gradients(gradients, mlp, dy)
    return finish(result, gradients, histories(mlp.products()), DEFAULTS)

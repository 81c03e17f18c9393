"""What adapters of torch modules share: parameters, steps, gradients."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Refused, Result, state_dict_contract
from assay.worker.te_provider.api import call_named, defaults_of
from assay.worker.te_provider.recipes import region


def build(call: Call, kind: typing.Any,
          arguments: dict[str, typing.Any]) -> torch.nn.Module:
    """Makes the module on the device with the parameters of the inputs."""
    module = call_named(kind, {**arguments, "params_dtype": call.torch_dtype,
                               "device": str(call.device)})
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            given = call.inputs.get(name)
            if given is None:
                raise Refused(f"input {name} is not given")
            if given.shape != parameter.shape:
                raise Refused(f"input {name}: {list(given.shape)}, expected "
                              f"{list(parameter.shape)}")
            parameter.copy_(given)
    return module


Forward = typing.Callable[[torch.nn.Module, dict[str, torch.Tensor]],
                          torch.Tensor]


def train(call: Call, module: torch.nn.Module, forward: Forward,
          inputs: tuple[str, ...] = ("x",), grad: str = "dy") -> Result:
    """call.steps times forward and backward: y, the gradients of `inputs` at
    every step, the parameters' of the last one, the state dict's schema."""
    result = Result()
    for step in range(1, call.steps + 1):
        module.zero_grad()
        leaves = {name: call.inputs[name].detach().requires_grad_()
                  for name in inputs}
        with region(call):
            y = forward(module, leaves)
        y.backward(call.inputs[grad])
        result.outputs[call.step_name("y", step)] = y
        for name, leaf in leaves.items():
            result.outputs[call.step_name(f"grad.{name}", step)] = leaf.grad
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            result.outputs[f"grad.{name}"] = parameter.grad
    result.contract["state_dict"] = state_dict_contract(
        dict(module.named_parameters()))
    return result


def contract_defaults(result: Result, kind: typing.Any,
                      names: typing.Iterable[str]) -> None:
    """Dtypes by the names of the specs; torch's default stands for None."""
    found = defaults_of(kind.__init__, names)
    if "params_dtype" in found:
        dtype = found["params_dtype"] or torch.get_default_dtype()
        found["params_dtype"] = str(dtype).removeprefix("torch.")
    result.contract["defaults"] = found

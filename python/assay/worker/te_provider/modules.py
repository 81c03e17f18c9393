"""What adapters of torch modules share: parameters, steps, gradients."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Result, state_dict_contract
from assay.worker.te_provider.api import call_named, defaults_of
from assay.worker.te_provider.recipes import region
from assay.worker.torch_provider.linear_common import step_input

# Attention's own state is that of a recipe that quantises it, which cases of
# the modules around it do not ask for.
NO_STATE = "core_attention"


def build(call: Call, kind: typing.Any, arguments: dict[str, typing.Any],
          defaults: dict[str, typing.Any] | None = None,
          places: bool = True) -> torch.nn.Module:
    """Makes the module on the device with the parameters of the inputs.

    `defaults`: documented values, which a release without the argument has
    anyway. `places`: it takes a dtype and a device.
    """
    if places:
        arguments = {**arguments, "params_dtype": call.torch_dtype,
                     "device": str(call.device)}
    module = call_named(kind, arguments, defaults)
    fill(call, module)
    return module


def fill(call: Call, module: torch.nn.Module) -> None:
    """Other names or sizes are a fault of the package, not of the case: what
    AttributeError says."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            given = call.inputs.get(name)
            if given is None:
                raise AttributeError(f"parameter {name} is not in the spec")
            if given.shape != parameter.shape:
                raise AttributeError(
                    f"parameter {name}: {list(parameter.shape)}, expected "
                    f"{list(given.shape)}")
            parameter.copy_(given)


Outputs = typing.Dict[str, torch.Tensor]
BIAS = "returned bias"


class Training:
    """call.steps times forward and backward of one module.

    `forward(module, leaves, options)` gives the results by their output
    names; `gradients` names the input that holds the gradient of each. A
    result BIAS is added to y for backward, as callers of return_bias do; the
    y that is compared stays without it.
    """

    def __init__(self, call: Call, module: torch.nn.Module,
                 forward: typing.Callable[..., Outputs],
                 inputs: typing.Iterable[str] = ("x",),
                 gradients: dict[str, str] | None = None,
                 scaled: bool = True):
        self.call, self.module, self.forward = call, module, forward
        self.inputs = tuple(inputs)
        self.gradients = gradients or {"y": "dy"}
        self.scaled = scaled
        self.fuses = call.parameters.get("fuse_wgrad_accumulation", False)

    def given(self, name: str, step: int) -> torch.Tensor:
        return step_input(self.call, name, step if self.scaled else 1)

    def run(self, **recipe_options: typing.Any) -> Result:
        result = Result()
        if self.fuses:
            self._add_main_grads()
        for step in range(1, self.call.steps + 1):
            self.module.zero_grad()
            leaves = {name: self.given(name, step).detach().requires_grad_()
                      for name in self.inputs}
            with region(self.call, **recipe_options):
                outputs = self.forward(self.module, leaves,
                                       self._microbatch(step))
            self._backward(outputs, step)
            for name, tensor in outputs.items():
                result.outputs[self.call.step_name(name, step)] = tensor
            for name, leaf in leaves.items():
                result.outputs[self.call.step_name(f"grad.{name}",
                                                   step)] = leaf.grad
        self._parameters(result)
        return result

    def _microbatch(self, step: int) -> dict[str, typing.Any]:
        if self.call.parameters.get("is_first_microbatch", "none") == "none":
            return {}
        return {"is_first_microbatch": step == 1}

    def _backward(self, outputs: Outputs, step: int) -> None:
        names = list(self.gradients)
        bias = outputs.pop(BIAS, None)
        roots = dict(outputs) if bias is None else {
            **outputs, "y": outputs["y"] + bias}
        torch.autograd.backward(
            [roots[name] for name in names],
            [self.given(self.gradients[name], step).reshape(
                outputs[name].shape) for name in names])
        if self.call.parameters.get("delay_wgrad_compute", False):
            self.module.backward_dw()

    def _weights(self) -> dict[str, torch.nn.Parameter]:
        """Of GEMMs: what fuse_wgrad_accumulation is about."""
        return {name: p for name, p in self.module.named_parameters()
                if "weight" in name and "layer_norm" not in name}

    def _add_main_grads(self) -> None:
        for parameter in self._weights().values():
            parameter.main_grad = torch.zeros(
                parameter.shape, dtype=torch.float32,
                device=parameter.device)

    def _parameters(self, result: Result) -> None:
        fused = self._weights() if self.fuses else {}
        for name, parameter in self.module.named_parameters():
            if name in fused:
                result.outputs[f"main_grad.{name}"] = parameter.main_grad
            elif parameter.grad is not None:
                result.outputs[f"grad.{name}"] = parameter.grad
        put_state(self.call, result, self.module)


def put_state(call: Call, result: Result, module: torch.nn.Module) -> None:
    """contract.state_dict; and delayed scaling's memory, which a release may
    pickle into its extra state: read where the package keeps it."""
    kept = {name: t for name, t in module.state_dict().items()
            if isinstance(t, torch.Tensor)
            and not name.endswith("_extra_state")}
    if call.parameters.get("recipe") == "delayed":
        states = histories(module)
        result.outputs.update(states)
        kept.update(states)
    result.contract["state_dict"] = state_dict_contract(kept)


def histories(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    found = {}
    for name, child in module.named_modules():
        meta = getattr(child, "fp8_meta", None)
        if not isinstance(meta, dict) or name.split(".")[-1] == NO_STATE:
            continue
        prefix = f"{name}." if name else ""
        for end in ("fwd", "bwd"):
            state = meta.get(f"scaling_{end}")
            if state is None:
                continue
            at = f"{prefix}_extra_state."
            found[f"{at}scale_{end}"] = state.scale.clone()
            found[f"{at}amax_history_{end}"] = state.amax_history.clone()
    return found


def tuple_of(answer: typing.Any, *names: str) -> Outputs:
    """The results of a module under names; "" is one that is not compared."""
    parts = answer if isinstance(answer, (tuple, list)) else (answer,)
    if len(parts) != len(names):
        raise AttributeError(f"{len(parts)} results, expected {len(names)}")
    return {name: part for name, part in zip(names, parts) if name}


def returned(call: Call, *names: str) -> list[str]:
    """Names of a module's results, in NVTE's order."""
    found = list(names)
    if call.parameters.get("return_bias", False):
        found.append(BIAS)
    if call.parameters.get("return_layernorm_output", False):
        found.append("layernorm_output")
    return found


def train_with_norm(call: Call, module: torch.nn.Module) -> Result:
    """A module that begins with a norm, whose result it may give back."""
    names = returned(call, "y")
    gradients = {"y": "dy"}
    if call.return_layernorm_output:
        gradients["layernorm_output"] = "d_layernorm_output"

    def forward(module, leaves, options):
        return tuple_of(module(leaves["x"], **options), *names)

    return Training(call, module, forward, gradients=gradients).run()


def plain(value: typing.Any) -> typing.Any:
    """A default as JSON has it: dtypes and enumerations by name."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return getattr(value, "name", value)


def defaults_contract(kind: typing.Any,
                      names: typing.Iterable[str]) -> dict[str, typing.Any]:
    """Of these keyword arguments; torch's default stands for None where a
    dtype is asked for."""
    found = defaults_of(kind.__init__, names)
    if "params_dtype" in found and found["params_dtype"] is None:
        found["params_dtype"] = torch.get_default_dtype()
    return {name: plain(value) for name, value in found.items()}

"""fused_optimizer: FusedAdam and FusedSGD over steps, with what they keep."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import (DTYPES, Call, Result, Unsupported,
                               state_dict_contract)
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import call_named, require, resolve
from assay.worker.torch_provider.fused_optimizer import (DEFAULTS, INV_SCALE,
                                                         NAMES, SKIPPED_STEP)

ADAPTER = 1
_PATH = "transformer_engine.pytorch.optimizers."
API = [_PATH + "FusedAdam", _PATH + "FusedSGD",
       _PATH + "fused_adam.FusedAdam", _PATH + "fused_sgd.FusedSGD"]
FP8 = torch.float8_e4m3fn
STATES = ("exp_avg", "exp_avg_sq", "master_param", "momentum_buffer")


def state_dtype(name: str) -> torch.dtype:
    """FusedAdam says uint8 for FP8."""
    return torch.uint8 if name.startswith("float8") else DTYPES[name]


class Scaler:
    """What FusedAdam asks a GradScaler for: loss scale and overflows."""

    def __init__(self, device: torch.device):
        self.scale = torch.tensor([1 / INV_SCALE], device=device)
        self.found = torch.zeros(1, device=device)

    def _get_scale_async(self) -> torch.Tensor:
        return self.scale

    def _check_inf_per_device(self, optimizer: typing.Any,
                              ) -> dict[torch.device, torch.Tensor]:
        del optimizer
        return {self.scale.device: self.found}


def adam(call: Call, parameters: list[torch.nn.Parameter]) -> typing.Any:
    return call_named(require(API[0], API[2]), {
        "params": parameters, "lr": call.lr,
        "betas": (call.beta1, call.beta2), "eps": call.eps,
        "weight_decay": call.weight_decay, "amsgrad": call.amsgrad,
        "bias_correction": call.bias_correction,
        "adam_w_mode": call.adam_w_mode, "capturable": call.capturable,
        "master_weights": call.master_weights,
        "master_weight_dtype": DTYPES[call.master_weight_dtype],
        "exp_avg_dtype": state_dtype(call.exp_avg_dtype),
        "exp_avg_sq_dtype": state_dtype(call.exp_avg_sq_dtype),
        "store_param_remainders": call.store_param_remainders,
    }, {"capturable": False, "master_weights": False,
        "master_weight_dtype": torch.float32, "exp_avg_dtype": torch.float32,
        "exp_avg_sq_dtype": torch.float32, "store_param_remainders": False})


def sgd(call: Call, parameters: list[torch.nn.Parameter]) -> typing.Any:
    optimizer = call_named(require(API[1], API[3]), {
        "params": parameters, "lr": call.lr, "momentum": call.momentum,
        "dampening": call.dampening, "weight_decay": call.weight_decay,
        "nesterov": call.nesterov,
        "wd_after_momentum": call.wd_after_momentum,
        "master_weights": call.master_weights,
        "capturable": call.capturable,
    }, {"master_weights": False, "capturable": False})
    return optimizer


class Run:
    """The steps of a case."""

    def __init__(self, call: Call):
        if call.optimizer not in ("adam", "sgd"):
            raise ValueError(f"no optimizer {call.optimizer}")
        self.call = call
        self.parameters = {name: torch.nn.Parameter(call.inputs[name].clone())
                           for name in NAMES}
        make = adam if call.optimizer == "adam" else sgd
        self.optimizer = make(call, list(self.parameters.values()))
        self.scaler = Scaler(call.device)

    def step(self, step: int) -> None:
        for name, parameter in self.parameters.items():
            parameter.grad = self.call.inputs[f"grad.{name}"][step - 1]
        if not self.call.capturable:
            self.optimizer.step()
            return
        self.scaler.found.fill_(float(step == SKIPPED_STEP))
        self.optimizer.step(grad_scaler=self.scaler)

    def put(self, result: Result, step: int) -> None:
        for name, parameter in self.parameters.items():
            self._put(result, name, step, parameter.detach().clone())
            for key, tensor in self.states(name).items():
                if key == "master_param":
                    tensor = self.master(name)
                self._put(result, f"{name}.{key}", step, tensor)
                scale = self.scale(name, key)
                if scale is not None:
                    self._put(result, f"{name}.{key}.scale", step, scale)

    def _put(self, result: Result, name: str, step: int,
             tensor: torch.Tensor) -> None:
        result.outputs[self.call.step_name(name, step)] = tensor.clone()

    def states(self, name: str) -> dict[str, torch.Tensor]:
        kept = self.optimizer.state[self.parameters[name]]
        return {key: codes_of(kept[key]) for key in STATES
                if kept.get(key) is not None}

    def scale(self, name: str, key: str) -> torch.Tensor | None:
        """Of states in 16 and 8 bits; FusedAdam keeps one for all others too,
        and does not use it."""
        if key not in ("exp_avg", "exp_avg_sq"):
            return None
        if self.call.parameters[f"{key}_dtype"] in ("float32", "bfloat16"):
            return None
        scales = getattr(self.optimizer, "_scales", None)
        if scales is None:
            raise Unsupported("no scales of optimizer states")
        return scales[self.parameters[name]][key].reshape(1)

    def master(self, name: str) -> torch.Tensor:
        """In fp32. Of a remainder the upper half is the parameter: together
        they are the bits of the master."""
        parameter = self.parameters[name]
        kept = self.optimizer.state[parameter]["master_param"]
        if kept.dtype != torch.int16:
            return self.optimizer.get_unscaled_state(parameter,
                                                     "master_param")
        high = parameter.detach().view(torch.int16).to(torch.int32) << 16
        return (high + kept.to(torch.int32)).view(torch.float32)


def codes_of(state: torch.Tensor) -> torch.Tensor:
    """FP8 states are a Float8Tensor around bytes, or bytes."""
    data = getattr(state, "_data", state)
    return data.view(FP8) if data.dtype == torch.uint8 else data


def run(call: Call) -> Result:
    steps = Run(call)
    result = Result()
    for step in range(1, call.steps + 1):
        steps.step(step)
        steps.put(result, step)
    result.contract["state_dict"] = state_dict_contract(
        {f"{name}.{key}": tensor for name in NAMES
         for key, tensor in steps.states(name).items()})
    result.contract["defaults"] = {
        name: modules.defaults_contract(kind, DEFAULTS[name])
        for name, kind in ((name, resolve(_PATH + name)) for name in DEFAULTS)
        if kind is not None}
    return result

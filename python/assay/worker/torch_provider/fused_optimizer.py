"""fused_optimizer: Adam, AdamW and SGD with momentum over steps, parameters
and states; from the formulas of docs/numerics.md and te/optim/{adam,sgd}.h."""

from __future__ import annotations

import dataclasses

import torch

from assay.worker.call import (DTYPES, Call, Refused, Result,
                               state_dict_contract)
from assay.worker.torch_provider import formats

ADAPTER = 1

NAMES = ("a", "b", "empty")
INV_SCALE = 0.125  # of the capturable form's gradients
SKIPPED_STEP = 3  # where it finds an overflow
FP8 = torch.float8_e4m3fn


@dataclasses.dataclass
class State:
    """A tensor kept in fp32, bf16, or in 16 or 8 bits under a scale."""

    dtype: torch.dtype
    data: torch.Tensor
    scale: torch.Tensor | None = None

    @classmethod
    def zeros(cls, like: torch.Tensor, dtype: torch.dtype) -> State:
        state = cls(dtype, torch.zeros_like(like, dtype=torch.float32))
        state.store(state.data)
        return state

    def load(self) -> torch.Tensor:
        values = self.data.float()
        return values if self.scale is None else values * self.scale

    def store(self, values: torch.Tensor) -> None:
        """Scaled: the greatest magnitude becomes half of fp16's largest, or
        448; NaN does not count."""
        if self.dtype in (torch.float32, torch.bfloat16):
            self.data = values.to(self.dtype)
            return
        limit = 32752.0 if self.dtype == torch.float16 else 448.0
        self.scale = formats.amax(values) / torch.full((1,), limit,
                                                       device=values.device)
        inverse = torch.where(self.scale > 0,
                              formats.divide(1.0, self.scale),
                              torch.zeros_like(self.scale))
        scaled = values * inverse
        self.data = (scaled.to(torch.float16) if self.dtype == torch.float16
                     else formats.encode(scaled, formats.E4M3).view(FP8))


def ties_up(master: torch.Tensor) -> torch.Tensor:
    """bf16 of a master whose low 16 bits are kept beside it."""
    high = (formats.bits_of(master).to(torch.int64) + 0x8000) >> 16
    return formats.float_from_bits(high << 16).to(torch.bfloat16)


class Slot:
    """A parameter with its states."""

    def __init__(self, call: Call, name: str):
        self.name = name
        self.value = call.inputs[name].clone()
        self.states: dict[str, State] = {}
        self.remainders = False
        if call.master_weights and self.value.dtype != torch.float32:
            kept = torch.float32
            if call.optimizer == "adam":
                kept = DTYPES[call.master_weight_dtype]
                self.remainders = (call.store_param_remainders
                                   and self.value.dtype == torch.bfloat16)
            self.states["master_param"] = State.zeros(self.value, kept)
            self.states["master_param"].store(self.value.float())

    def load(self) -> torch.Tensor:
        master = self.states.get("master_param")
        return self.value.float() if master is None else master.load()

    def store(self, values: torch.Tensor) -> None:
        if "master_param" in self.states:
            self.states["master_param"].store(values)
        self.value = (ties_up(values) if self.remainders
                      else values.to(self.value.dtype))


def state_dtype(name: str) -> torch.dtype:
    return FP8 if name == "float8_e4m3fn" else DTYPES[name]


def adam(call: Call, slot: Slot, grad: torch.Tensor, step: int) -> None:
    p, first, second = slot.load(), slot.states["exp_avg"], slot.states[
        "exp_avg_sq"]
    if not call.adam_w_mode:
        grad = grad + call.weight_decay * p
    m = call.beta1 * first.load() + (1 - call.beta1) * grad
    v = call.beta2 * second.load() + (1 - call.beta2) * grad * grad
    c1 = 1 - call.beta1**step if call.bias_correction else 1.0
    c2 = 1 - call.beta2**step if call.bias_correction else 1.0
    update = (m / c1) / ((v / c2).sqrt() + call.eps)
    if call.adam_w_mode:
        update = update + call.weight_decay * p
    first.store(m)
    second.store(v)
    slot.store(p - call.lr * update)


def sgd(call: Call, slot: Slot, grad: torch.Tensor, step: int) -> None:
    p = slot.load()
    if not call.wd_after_momentum:
        grad = grad + call.weight_decay * p
    if call.momentum != 0:
        state = slot.states["momentum_buffer"]
        buffer = grad if step == 1 else (
            call.momentum * state.load() + (1 - call.dampening) * grad)
        state.store(buffer)
        grad = grad + call.momentum * buffer if call.nesterov else buffer
    if call.wd_after_momentum:
        grad = grad + call.weight_decay * p
    slot.store(p - call.lr * grad)


def check(call: Call) -> None:
    if call.optimizer not in ("adam", "sgd"):
        raise Refused(f"optimizer: {call.optimizer}")
    if call.amsgrad:
        raise Refused("amsgrad: true, expected false")
    if call.nesterov and (call.momentum <= 0 or call.dampening != 0):
        raise Refused("nesterov needs momentum above 0 and no dampening")
    if call.store_param_remainders and not (
            call.master_weights and call.master_weight_dtype == "float32"):
        raise Refused("store_param_remainders needs masters in float32")


def slots_of(call: Call) -> list[Slot]:
    slots = [Slot(call, name) for name in NAMES]
    for slot in slots:
        if call.optimizer == "adam":
            for name in ("exp_avg", "exp_avg_sq"):
                slot.states[name] = State.zeros(
                    slot.value, state_dtype(call.parameters[f"{name}_dtype"]))
        elif call.momentum != 0:
            slot.states["momentum_buffer"] = State.zeros(slot.value,
                                                         torch.float32)
    return slots


def put(call: Call, result: Result, slot: Slot, step: int) -> None:
    result.outputs[call.step_name(slot.name, step)] = slot.value.clone()
    for name, state in slot.states.items():
        key = f"{slot.name}.{name}"
        if name == "master_param":
            result.outputs[call.step_name(key, step)] = state.load()
            continue
        result.outputs[call.step_name(key, step)] = state.data
        if state.scale is not None:
            result.outputs[call.step_name(f"{key}.scale", step)] = state.scale


def run(call: Call) -> Result:
    check(call)
    slots = slots_of(call)
    update = adam if call.optimizer == "adam" else sgd
    result = Result()
    taken = 0
    for step in range(1, call.steps + 1):
        if not (call.capturable and step == SKIPPED_STEP):
            taken += 1
            for slot in slots:
                grad = call.inputs[f"grad.{slot.name}"][step - 1]
                if call.capturable:
                    grad = (grad.float() * INV_SCALE).to(grad.dtype)
                update(call, slot, grad.float(), taken)
        for slot in slots:
            put(call, result, slot, step)
    result.contract["state_dict"] = state_dict_contract(stored(slots))
    result.contract["defaults"] = DEFAULTS
    return result


def stored(slots: list[Slot]) -> dict[str, torch.Tensor]:
    """Every state as a checkpoint keeps it; a remainder is the low half."""
    return {f"{slot.name}.{name}":
            (state.data.to(torch.int16)
             if name == "master_param" and slot.remainders else state.data)
            for slot in slots for name, state in slot.states.items()}


# NVTE's constructors, as documented.
DEFAULTS = {
    "FusedAdam": {
        "lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-08, "weight_decay": 0.0,
        "amsgrad": False, "bias_correction": True, "adam_w_mode": True,
        "master_weights": False, "master_weight_dtype": "float32",
        "exp_avg_dtype": "float32", "exp_avg_sq_dtype": "float32",
        "store_param_remainders": False},
    "FusedSGD": {
        "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0,
        "nesterov": False, "wd_after_momentum": False},
}

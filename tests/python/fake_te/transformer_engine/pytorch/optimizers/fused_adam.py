"""FusedAdam with NVTE's signature."""

from __future__ import annotations

import torch

from assay.worker.call import Call
from assay.worker.torch_provider import fused_optimizer as composite


def dtype_name(dtype):
    if dtype == torch.uint8:
        return "float8_e4m3fn"
    return str(dtype).removeprefix("torch.")


class FusedAdam(torch.optim.Optimizer):

    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08,
                 weight_decay=0.0, amsgrad=False, *, bias_correction=True,
                 adam_w_mode=True, capturable=False, master_weights=False,
                 master_weight_dtype=torch.float32,
                 exp_avg_dtype=torch.float32, exp_avg_sq_dtype=torch.float32,
                 use_decoupled_grad=False, store_param_remainders=False,
                 set_grad_none=None):
        if amsgrad:
            raise RuntimeError("FusedAdam does not support amsgrad")
        if store_param_remainders and not (
                master_weights and master_weight_dtype == torch.float32):
            raise RuntimeError("store_param_remainders needs fp32 masters")
        super().__init__(params, {"lr": lr})
        self.capturable, self.steps = capturable, 0
        self._scales = {}
        self.options = {
            "optimizer": "adam", "lr": lr, "beta1": betas[0],
            "beta2": betas[1], "eps": eps, "weight_decay": weight_decay,
            "amsgrad": False, "bias_correction": bias_correction,
            "adam_w_mode": adam_w_mode, "master_weights": master_weights,
            "master_weight_dtype": dtype_name(master_weight_dtype),
            "exp_avg_dtype": dtype_name(exp_avg_dtype),
            "exp_avg_sq_dtype": dtype_name(exp_avg_sq_dtype),
            "store_param_remainders": store_param_remainders}
        self.slots = {p: self._slot(p) for p in self._parameters()}

    def _parameters(self):
        return [p for group in self.param_groups for p in group["params"]]

    def _call(self, inputs):
        return Call("", self.options, inputs, 1, 0, torch.device("cpu"))

    def _slot(self, parameter):
        call = self._call({"p": parameter.detach()})
        slot = composite.Slot(call, "p")
        for name in ("exp_avg", "exp_avg_sq"):
            slot.states[name] = composite.State.zeros(
                slot.value, composite.state_dtype(call.parameters[
                    f"{name}_dtype"]))
        return slot

    def step(self, closure=None, grad_scaler=None):
        inverse, found = 1.0, False
        if self.capturable and grad_scaler is not None:
            inverse = 1 / float(grad_scaler._get_scale_async())
            (overflow,) = grad_scaler._check_inf_per_device(self).values()
            found = bool(overflow)
        if not found:
            self.steps += 1
        for p in self._parameters():
            slot = self.slots[p]
            if not found:
                grad = (p.grad.float() * inverse).to(p.grad.dtype)
                composite.adam(self._call({}), slot, grad.float(), self.steps)
                p.data.copy_(slot.value)
            self._publish(p, slot)

    def _publish(self, parameter, slot):
        kept, scales = {}, {}
        for name, state in slot.states.items():
            data = state.data
            if name == "master_param" and slot.remainders:
                data = (data.view(torch.int32) & 0xFFFF).to(torch.int16)
            if data.dtype == torch.float8_e4m3fn:
                data = data.view(torch.uint8)
            kept[name] = data
            scales[name] = (torch.ones(1) if state.scale is None
                            else state.scale)
        self.state[parameter].update(kept)
        self._scales[parameter] = scales

    def get_unscaled_state(self, param, state_name):
        return self.slots[param].states[state_name].load()

"""FusedSGD with NVTE's signature."""

from __future__ import annotations

import torch

from assay.worker.call import Call
from assay.worker.torch_provider import fused_optimizer as composite


class FusedSGD(torch.optim.Optimizer):

    def __init__(self, params, lr=0.1, momentum=0.0, dampening=0.0,
                 weight_decay=0.0, nesterov=False, *, wd_after_momentum=False,
                 materialize_master_grads=True, set_grad_none=None):
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("nesterov needs a momentum and no dampening")
        super().__init__(params, {"lr": lr})
        self.steps = 0
        self.options = {"lr": lr, "momentum": momentum,
                        "dampening": dampening, "weight_decay": weight_decay,
                        "nesterov": nesterov, "optimizer": "sgd",
                        "wd_after_momentum": wd_after_momentum,
                        "master_weights": False}

    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                call = Call("", self.options, {"p": p.detach()}, 1, 0,
                            torch.device("cpu"))
                slot = composite.Slot(call, "p")
                kept = self.state[p].get("momentum_buffer",
                                         torch.zeros_like(p).float())
                slot.states["momentum_buffer"] = composite.State(
                    torch.float32, kept)
                composite.sgd(call, slot, p.grad.float(), self.steps)
                p.data.copy_(slot.value)
                if self.options["momentum"]:
                    self.state[p]["momentum_buffer"] = slot.states[
                        "momentum_buffer"].data

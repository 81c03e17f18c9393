"""Steps of optimizers, which write to var, m and v."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from assay.worker.call import Unsupported

Tensor = torch.Tensor
State = Sequence[Tensor]


def npu_apply_adam_w(beta1_power: float, beta2_power: float, lr: float,
                     weight_decay: float, beta1: float, beta2: float,
                     epsilon: float, grad: Tensor,
                     max_grad_norm: Optional[Tensor],
                     amsgrad: Optional[bool], maximize: Optional[bool], *,
                     out: State) -> Any:
    """The powers are those of the step before (aclnnApplyAdamW)."""
    var, m, v = out
    gradient = -grad if maximize else grad
    m.mul_(beta1).add_(gradient * (1 - beta1))
    v.mul_(beta2).add_(gradient.square() * (1 - beta2))
    largest = v
    if amsgrad:
        if max_grad_norm is None:
            raise Unsupported("npu_apply_adam_w: no golden with amsgrad and "
                              "no max_grad_norm")
        largest = torch.maximum(max_grad_norm, v)
    m_hat = m / (1 - beta1_power * beta1)
    v_hat = largest / (1 - beta2_power * beta2)
    var.sub_(var * (lr * weight_decay)).sub_(
        lr * m_hat / (v_hat.sqrt() + epsilon))
    return var, m, v


def npu_apply_adam(beta1_power: float, beta2_power: float, lr: float,
                   beta1: float, beta2: float, epsilon: float, grad: Tensor,
                   use_locking: Optional[bool],
                   use_nesterov: Optional[bool], *, out: State) -> Any:
    """The powers are those of this step; epsilon stands beside the root of
    v, which is not corrected (as TensorFlow's ApplyAdam)."""
    var, m, v = out
    m.add_((grad - m) * (1 - beta1))
    v.add_((grad.square() - v) * (1 - beta2))
    rate = lr * (1 - beta2_power) ** 0.5 / (1 - beta1_power)
    step = beta1 * m + (1 - beta1) * grad if use_nesterov else m
    var.sub_(rate * step / (v.sqrt() + epsilon))
    return var, m, v


OPERATORS = {
    "npu_apply_adam_w": npu_apply_adam_w,
    "npu_apply_adam": npu_apply_adam,
}

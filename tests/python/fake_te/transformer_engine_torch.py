"""The binding: functions by place, as pybind11 has them; FAKE_TE=positional
gives them no signature at all."""

from __future__ import annotations

import enum
import os

import torch

from assay.worker.call import Call
from assay.worker.torch_provider import layernorm as layernorm_composite
from assay.worker.torch_provider import rmsnorm as rmsnorm_composite
from assay.worker.torch_provider import formats, quantize
from assay.worker.torch_provider import softmax as softmax_composite


class DType(enum.IntEnum):
    kFloat32 = 4
    kFloat16 = 5
    kBFloat16 = 6


def _norm(run, inputs, eps, zero_centered_gamma, add=None):
    x = inputs["x"]
    extra = {} if add is None else {"add": add}
    inputs = {"dy": torch.zeros_like(x), **inputs, **extra}
    return run(Call("", {
        "hidden_size": x.shape[-1], "eps": eps, "training": True,
        "zero_centered_gamma": zero_centered_gamma, "add": add is not None,
        "dtype": str(x.dtype).removeprefix("torch.")}, inputs, 1, 0,
        x.device)).outputs


def rmsnorm_fwd(input, weight, eps, ln_out, quantizer, otype, sm_margin,
                zero_centered_gamma):
    del ln_out, quantizer, otype, sm_margin
    found = _norm(rmsnorm_composite.run, {"x": input, "weight": weight}, eps,
                  zero_centered_gamma)
    return found["y"], None, found["rsigma"]


def layernorm_fwd(input, weight, bias, eps, ln_out, quantizer, otype,
                  sm_margin, zero_centered_gamma):
    del ln_out, quantizer, otype, sm_margin
    found = _norm(layernorm_composite.run,
                  {"x": input, "weight": weight, "bias": bias}, eps,
                  zero_centered_gamma)
    return found["y"], found["mean"], found["rsigma"]


def rmsnorm_bwd_add(dz, x, add, rsigma, gamma, sm_margin,
                    zero_centered_gamma):
    del sm_margin
    x32, dz = x.float(), dz.float()
    weight = gamma.float() + (1.0 if zero_centered_gamma else 0.0)
    normed, t = x32 * rsigma[:, None], dz * weight
    dx = rsigma[:, None] * (t - (t * normed).mean(-1, keepdim=True) * normed)
    if add is not None:
        dx = dx + add.float()
    return dx.to(x.dtype), (dz * normed).sum(0).to(gamma.dtype)


def rmsnorm_bwd(dz, x, rsigma, gamma, sm_margin, zero_centered_gamma):
    return rmsnorm_bwd_add(dz, x, None, rsigma, gamma, sm_margin,
                           zero_centered_gamma)


def layernorm_bwd(dz, x, mu, rsigma, gamma, sm_margin, zero_centered_gamma):
    del sm_margin
    dz = dz.float()
    normed = (x.float() - mu[:, None]) * rsigma[:, None]
    t = dz * (gamma.float() + (1.0 if zero_centered_gamma else 0.0))
    dx = rsigma[:, None] * (t - (t * normed).mean(-1, keepdim=True) * normed
                            - t.mean(-1, keepdim=True))
    return (dx.to(x.dtype), (dz * normed).sum(0).to(gamma.dtype),
            dz.sum(0).to(gamma.dtype))


def _softmax(mask_type, x, scale, mask=None, dy=None):
    inputs = {"x": x, "dy": torch.zeros_like(x) if dy is None else dy}
    if mask is not None:
        inputs["mask"] = mask
    return softmax_composite.run(Call(
        "", {"mask_type": mask_type, "scale": scale}, inputs, 1, 0,
        x.device)).outputs


def _from_rounded(dy, y, scale):
    """The gradient of any of them, from the y that the forward gave."""
    dy, p = dy.float(), y.float()
    return (scale * p * (dy - (dy * p).sum(-1, keepdim=True))).to(y.dtype)


def scaled_softmax_forward(input, scale):
    return _softmax("none", input, scale)["y"]


def scaled_masked_softmax_forward(input, mask, scale):
    return _softmax("padding", input, scale, mask)["y"]


def scaled_upper_triang_masked_softmax_forward(input, scale):
    return _softmax("upper_triangular", input, scale)["y"]


def scaled_aligned_causal_masked_softmax_forward(input, scale):
    return _softmax("aligned_causal", input, scale)["y"]


scaled_softmax_backward = _from_rounded
scaled_masked_softmax_backward = _from_rounded
scaled_upper_triang_masked_softmax_backward = _from_rounded
scaled_aligned_causal_masked_softmax_backward = _from_rounded


class _Opaque:
    """A function of a binding: arguments by place, no signature."""

    def __init__(self, function):
        self._function = function
        self.__name__ = function.__name__

    __signature__ = "none"

    def __call__(self, *arguments):
        return self._function(*arguments)


if os.environ.get("FAKE_TE") == "positional":
    for _name in ("rmsnorm_fwd", "rmsnorm_bwd", "rmsnorm_bwd_add",
                  "layernorm_fwd", "layernorm_bwd"):
        globals()[_name] = _Opaque(globals()[_name])


def multi_tensor_scale(chunk_size, noop_flag, tensor_lists, scale):
    given, outputs = tensor_lists
    for x, y in zip(given, outputs):
        if x.shape != y.shape:
            raise RuntimeError("sizes of inputs and outputs differ")
        if not bool(torch.isfinite(x).all()):
            noop_flag.fill_(1)
        y.copy_((x.float() * torch.tensor(float(scale))).to(y.dtype))


def multi_tensor_scale_tensor(chunk_size, noop_flag, tensor_lists, scale):
    multi_tensor_scale(chunk_size, noop_flag, tensor_lists, scale)


def multi_tensor_l2norm(chunk_size, noop_flag, tensor_lists,
                        per_tensor=False):
    return multi_tensor_unscale_l2norm(chunk_size, noop_flag, tensor_lists,
                                       torch.ones(1), per_tensor)


def multi_tensor_unscale_l2norm(chunk_size, noop_flag, tensor_lists,
                                inv_scale, per_tensor=False):
    squares = torch.stack([(x.float() * inv_scale).double().square().sum()
                           for x in tensor_lists[0]])
    each = squares.sqrt().float() if per_tensor else torch.empty(0)
    return squares.sum().sqrt().float().reshape(1), each


def multi_tensor_compute_scale_and_scale_inv(
        chunk_size, noop_flag, tensor_lists, max_fp8, force_pow_2_scales,
        epsilon):
    for amax, scale, scale_inv in zip(*tensor_lists):
        scale.copy_(quantize.compute_scale(amax, max_fp8, force_pow_2_scales,
                                           epsilon))
        scale_inv.copy_(formats.divide(1.0, scale))


def multi_tensor_compute_scale_inv_e8m0(chunk_size, dummy, tensor_lists):
    for amax, scale_inv in zip(*tensor_lists):
        inverse = formats.divide(1.0, torch.full_like(amax, 448.0))
        scale_inv.copy_(formats.encode_e8m0_up(amax * inverse))

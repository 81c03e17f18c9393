#!/usr/bin/env python3
"""A worker whose operators have planted faults: the torch provider, with
functions put in the place of some that traces name.

    precheck_faults.py NAME[,NAME...]   a worker with these faults
    precheck_faults.py --list           their names, and what they break

They are of the kinds that field reports and comparison tools tell of: silent,
plausible, and each of one operator alone.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
from typing import Any, Callable

import torch

sys.path.append(str(pathlib.Path(__file__).parents[2] / "python"))

from assay.worker.api_call import replay  # noqa: E402
from assay.worker.serve import Server, claim_stdout, serve  # noqa: E402
from assay.worker.torch_provider.provider import TorchProvider  # noqa: E402

F = torch.nn.functional
Tensor = torch.Tensor


@dataclasses.dataclass(frozen=True)
class Fault:
    """`function` is called with the operator and its arguments."""

    api: str
    function: Callable[..., Any]


FAULTS: dict[str, Fault] = {}


def fault(api: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Lists a fault under its function's name."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        FAULTS[function.__name__] = Fault(api, function)
        return function

    return add


class _Backward(torch.autograd.Function):
    """The identity, whose gradient is changed."""

    @staticmethod
    def forward(ctx, x, change):
        ctx.change = change
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return ctx.change(gradient), None


# Formulas.


@fault("Functional.gelu")
def gelu_by_tanh(gelu, x, approximate="none"):
    return gelu(x, approximate="tanh")


@fault("Functional.softmax")
def softmax_without_its_maximum(softmax, x, dim=None, **options):
    powers = x.exp()
    return powers / powers.sum(dim, keepdim=True)


@fault("Functional.layer_norm")
def epsilon_outside_of_the_root(layer_norm, x, shape, weight=None, bias=None,
                                eps=1e-5):
    wide = x.float()
    y = (wide - wide.mean(-1, keepdim=True)) / (
        wide.var(-1, keepdim=True, unbiased=False).sqrt() + eps)
    return (y * weight.float() + bias.float()).to(x.dtype)


@fault("Functional.group_norm")
def variance_of_a_sample(group_norm, x, groups, weight=None, bias=None,
                         eps=1e-5):
    size = x[0].numel() // groups
    y = group_norm(x, groups, None, None, eps) * ((size - 1) / size) ** 0.5
    shape = (1, -1, *[1] * (x.dim() - 2))
    return y * weight.reshape(shape) + bias.reshape(shape)


@fault("Functional.linear")
def bias_left_out(linear, x, weight, bias=None):
    return linear(x, weight)


@fault("Functional.cross_entropy")
def ignored_rows_count(cross_entropy, logits, target, **options):
    return cross_entropy(logits, target.clamp(min=0), **options)


@fault("Functional.nll_loss")
def mean_over_all_rows(nll_loss, x, target, **options):
    return nll_loss(x, target, **{**options, "reduction": "sum"}) / len(target)


@fault("Functional.scaled_dot_product_attention")
def causal_mask_left_out(attention, q, k, v, is_causal=False, **options):
    return attention(q, k, v, **options)


@fault("Functional.conv2d")
def kernel_turned(conv2d, x, weight, *rest, **options):
    return conv2d(x, weight.flip(-1, -2), *rest, **options)


@fault("Torch.conj")
def conjugate_left_out(conj, z):
    return z.clone()


@fault("Torch.round")
def halves_rounded_up(round_, x):
    return torch.floor(x + 0.5)


@fault("Tensor.__floordiv__")
def division_towards_zero(floordiv, a, b):
    return torch.div(a, b, rounding_mode="trunc")


# Precision.


def _summed_in_bf16(a, b, parts):
    total = 0.0
    for x, y in zip(a.chunk(parts, -1), b.chunk(parts, -2)):
        total = (total + x.float() @ y.float()).bfloat16().float()
    return total.to(a.dtype)


@fault("Torch.matmul")
def sum_split_over_k_in_bf16(matmul, a, b):
    return _summed_in_bf16(a, b, 8)


@fault("Tensor.matmul")
def sum_kept_in_bf16(matmul, a, b):
    return _summed_in_bf16(a, b, a.shape[-1])


@fault("Torch.sqrt")
def scaled_by_four_in_a_thousand(sqrt, x):
    return (sqrt(x.float()) * 1.004).to(x.dtype)


@fault("Tensor.bfloat16")
def cast_rounds_towards_zero(bfloat16, x):
    bits = x.float().view(torch.int32) & -0x10000
    return bits.view(torch.float32).bfloat16()


@fault("Tensor.half")
def cast_saturates(half, x):
    return half(x.clamp(-65504.0, 65504.0))


@fault("Torch.mul")
def subnormals_flushed(mul, x, y):
    z = mul(x, y)
    return torch.where(z.abs() < torch.finfo(z.dtype).tiny, 0.0, z)


# Special values and integers.


@fault("Functional.relu")
def nan_becomes_zero(relu, x, inplace=False):
    return torch.nan_to_num(relu(x), nan=0.0, posinf=float("inf"))


@fault("Torch.log")
def infinity_of_the_other_sign(log, x):
    y = log(x)
    return torch.where(y.isinf(), -y, y)


@fault("Torch.add")
def integers_through_float(add, x, y):
    return add(x.float(), y.float()).to(x.dtype)


@fault("Torch.sum")
def eight_bit_sum_wraps(sum_, x, *rest, **options):
    return sum_(x, *rest, **options).to(torch.int8).long()


@fault("Torch.topk")
def index_off_by_one(topk, x, k, *rest, **options):
    values, indices = topk(x, k, *rest, **options)
    indices = indices.clone()
    indices[..., -1] = (indices[..., -1] + 1) % x.shape[-1]
    return values, indices


# Movement and memory.


@fault("Torch.bmm")
def last_element_not_written(bmm, x, y):
    z = bmm(x, y)
    last = torch.ones_like(z)
    last.reshape(-1)[-1] = 0.0
    return z * last


@fault("Torch.cat")
def joined_along_the_other_dimension(cat, tensors, dim=0):
    return cat(tensors, dim=1 - dim)


@fault("Torch.stack")
def stacked_along_the_other_dimension(stack, tensors, dim=0):
    return stack(tensors, dim=1 - dim)


@fault("Tensor.masked_fill")
def mask_the_other_way(masked_fill, x, mask, value):
    return masked_fill(x, ~mask, value)


@fault("Torch.where")
def sides_swapped(where, condition, x, y):
    return where(condition, y, x)


@fault("Tensor.transpose")
def strides_passed_over(transpose, x, a, b):
    return x.reshape(transpose(x, a, b).shape)


@fault("Torch.cumsum")
def sum_before_the_element(cumsum, x, dim):
    return cumsum(x, dim) - x


@fault("Tensor.add_")
def input_not_written(add_, x, y):
    return x + y


@fault("Tensor.index_add_")
def one_of_equal_indices_wins(index_add_, x, dim, index, source):
    return x.index_copy_(dim, index, x.index_select(dim, index) + source)


_last: dict[str, Tensor] = {}


@fault("Torch.rsqrt")
def output_of_the_call_before(rsqrt, x):
    stale = _last.get("rsqrt")
    _last["rsqrt"] = rsqrt(x).detach()
    if stale is None or stale.shape != x.shape:
        stale = torch.zeros_like(x)
    return stale.to(x.dtype) + x * 0


@fault("Torch.mean")
def sum_in_another_order_every_time(mean, x, *rest, **options):
    order = torch.randperm(x.numel(), generator=_ORDER)
    total = torch.zeros(())
    for part in x.reshape(-1)[order].chunk(64):
        total = (total + part.float().sum()).bfloat16().float()
    return (total / x.numel()).to(x.dtype)


_ORDER = torch.Generator().manual_seed(3)


# Gradients.


@fault("Torch.mm")
def gradient_transposed(mm, x, y):
    return mm(_Backward.apply(x, lambda g: g.t()), y)


@fault("Functional.silu")
def gradient_twice_as_large(silu, x, inplace=False):
    return silu(_Backward.apply(x, lambda g: 2 * g))


@fault("Torch.tanh")
def gradient_missing(tanh, x):
    return tanh(x).detach()


@fault("Functional.embedding")
def gradients_of_one_row_overwritten(embedding, index, weight, **options):
    def last_alone(gradient):
        changed = torch.zeros_like(gradient)
        for row in index.unique():
            changed[row] = gradient[row] / (index == row).sum()
        return changed

    return embedding(index, _Backward.apply(weight, last_alone))


@fault("Torch.sigmoid")
def gradient_of_another_formula(sigmoid, x):
    return sigmoid(_Backward.apply(x, lambda g: g * 1.01))


# Random numbers.


@fault("Functional.dropout")
def survivors_not_scaled(dropout, x, p=0.5, training=True, inplace=False):
    return dropout(x, p, training) * (1 - p)


@fault("Functional.dropout1d")
def another_share_is_dropped(dropout, x, p=0.5, training=True, inplace=False):
    return dropout(x, 0.5, training)


@fault("Functional.alpha_dropout")
def nothing_is_dropped(dropout, x, p=0.5, training=False, inplace=False):
    return x.clone()


def faulty(names: list[str], resolve: Callable[[str], Callable[..., Any]]
           ) -> Callable[[str], Callable[..., Any]]:
    """`resolve`, with faults in the place of what requests name."""
    planted = {FAULTS[name].api: FAULTS[name].function for name in names}
    if len(planted) < len(names):
        sys.exit("two faults of one API")

    def resolved(api: str) -> Callable[..., Any]:
        function = resolve(api)
        changed = planted.get(api)
        return function if changed is None else functools.partial(
            changed, function)

    return resolved


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        for name, each in FAULTS.items():
            print(f"{name:<36} {each.api}")
        return
    answers = claim_stdout()
    torch.set_num_threads(1)
    names = [name for name in sys.argv[1].split(",") if name]
    replay.resolve = faulty(names, replay.resolve)
    serve(Server(TorchProvider("cpu"), torch.device("cpu")), answers,
          sys.stdin)


if __name__ == "__main__":
    main()

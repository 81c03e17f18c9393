"""Functions of torch that draw in one fused operator on some devices, by the
operators that every device has."""

from __future__ import annotations

import contextlib
from typing import Any, Callable

import torch
import torch.nn.functional as F


def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True,
            inplace: bool = False) -> torch.Tensor:
    """F.dropout as the CPU does it, so that forward and backward are the same
    arithmetic on every device, some of which have an operator of their own."""
    if not training or not 0 < p < 1 or input.numel() == 0:
        return F.dropout(input, p, training, inplace)  # draws nothing
    noise = torch.empty_like(input).bernoulli_(1 - p).div_(1 - p)
    return input.mul_(noise) if inplace else input * noise


def unfused_attention() -> contextlib.AbstractContextManager:
    """Attention by products, softmax and a dropout of its own."""
    attention = getattr(torch.nn, "attention", None)
    if hasattr(attention, "sdpa_kernel"):
        return attention.sdpa_kernel(attention.SDPBackend.MATH)
    return torch.backends.cuda.sdp_kernel(
        enable_flash=False, enable_mem_efficient=False, enable_math=True)


def attention_call(func: Callable, args: tuple, kwargs: dict) -> Any:
    """F.scaled_dot_product_attention and F.multi_head_attention_forward."""
    if _attention_drops(func, args, kwargs):
        with unfused_attention():
            return func(*args, **kwargs)
    return func(*args, **kwargs)


def _attention_drops(func: Callable, args: tuple, kwargs: dict) -> bool:
    if func is F.scaled_dot_product_attention:
        p = kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0)
        return p > 0
    training = kwargs.get("training", args[13] if len(args) > 13 else True)
    p = kwargs.get("dropout_p", args[10] if len(args) > 10 else 0.0)
    return training and p > 0


def recurrent_call(func: Callable, args: tuple, kwargs: dict) -> Any:
    """torch.lstm and its like: without cuDNN, whose dropout is its own."""
    first = next((i for i, value in enumerate(args)
                  if isinstance(value, bool)), None)
    # has_biases, num_layers, dropout, train, bidirectional ...
    if first is None or not args[first + 2] or not args[first + 3]:
        return func(*args, **kwargs)
    with torch.backends.cudnn.flags(enabled=False):
        return func(*args, **kwargs)


def replaced() -> dict[Any, Callable]:
    """What to call, as replaced()[func](func, args, kwargs)."""
    table: dict[Any, Callable] = {
        F.dropout: lambda func, args, kwargs: dropout(*args, **kwargs),
        F.multi_head_attention_forward: attention_call,
        F.scaled_dot_product_attention: attention_call,
    }
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        table[getattr(torch, name)] = recurrent_call
    return table

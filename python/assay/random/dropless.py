"""Every dropout becomes the identity.

By the functions that people call, whatever name they were bound to; and below
autograd for what reaches a device as one operator without Python in between.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Tuple

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from assay.random.schema import KEEP, TRAIN, drop_argument, operator_name

# Functions that with `training` false return their input, by that argument.
_PYTHON = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d",
           "feature_alpha_dropout")
# Built in: (input, p, train).
_BUILT_IN = ("dropout", "alpha_dropout", "feature_dropout",
             "feature_alpha_dropout", "native_dropout")
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")

Arguments = Tuple[tuple, Dict[str, Any]]


def _untrained(args: tuple, kwargs: dict) -> Arguments:
    if len(args) > 2:
        return (*args[:2], False, *args[3:]), kwargs
    return args, {**kwargs, "train": False}


def _by_name(func: Callable, **values: Any) -> Callable:
    """Replaces arguments of a Python function, however they were passed."""
    signature = inspect.signature(func)

    def replace(args: tuple, kwargs: dict) -> Arguments:
        call = signature.bind(*args, **kwargs)
        call.arguments.update(values)
        return call.args, call.kwargs
    return replace


def _undropped_attention(args: tuple, kwargs: dict) -> Arguments:
    if len(args) > 4:
        return (*args[:4], 0.0, *args[5:]), kwargs
    return args, {**kwargs, "dropout_p": 0.0}


def _undropped_recurrent(args: tuple, kwargs: dict) -> Arguments:
    # ... has_biases, num_layers, dropout, train ...
    first = next((i for i, value in enumerate(args)
                  if isinstance(value, bool)), None)
    if first is None:
        return args, {**kwargs, "dropout": 0.0}
    return (*args[:first + 2], 0.0, *args[first + 3:]), kwargs


def _rewritten() -> dict[Any, Callable[[tuple, dict], Arguments]]:
    table: dict[Any, Callable] = {
        F.scaled_dot_product_attention: _undropped_attention,
        F.multi_head_attention_forward:
            _by_name(F.multi_head_attention_forward, dropout_p=0.0),
    }
    for name in _PYTHON:
        func = getattr(F, name)
        table[func] = _by_name(func, training=False)
    for name in _BUILT_IN:
        for spelled in (name, f"{name}_"):
            if hasattr(torch, spelled):
                table[getattr(torch, spelled)] = _untrained
    for name in _RECURRENT:
        table[getattr(torch, name)] = _undropped_recurrent
    return table


class DropNothing(TorchFunctionMode):
    """Calls of functions of torch."""

    def __init__(self) -> None:
        super().__init__()
        self._rewritten = _rewritten()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.OpOverload):
            args, kwargs = undropped(func, args, kwargs)
        elif isinstance(func, torch._ops.OpOverloadPacket):
            rewrite = self._rewritten.get(getattr(torch, func.__name__, None))
            if rewrite is not None:
                args, kwargs = rewrite(args, kwargs)
        else:
            try:
                rewrite = self._rewritten.get(func)
            except TypeError:  # not hashable
                rewrite = None
            if rewrite is not None:
                args, kwargs = rewrite(args, kwargs)
        return func(*args, **kwargs)


class DropNothingBelow(TorchDispatchMode):
    """Operators as they reach the device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        args, kwargs = undropped(func, args, kwargs or {})
        return func(*args, **kwargs)


def undropped(func: Any, args: tuple, kwargs: dict) -> Arguments:
    """The arguments of an operator's call with which it drops nothing.

    Backward passes of attention get the probability too; autograd has kept
    the one of the call.
    """
    name = drop_argument(func)
    if name is None:
        return args, kwargs
    arguments = [argument.name for argument in func._schema.arguments]
    value = 1.0 if name in KEEP else 0.0
    if "dropout" in operator_name(func):
        for train in TRAIN:
            if train in arguments:
                name, value = train, False
    place = arguments.index(name)
    if place < len(args):
        return (*args[:place], value, *args[place + 1:]), kwargs
    return args, {**kwargs, name: value}

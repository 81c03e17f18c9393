"""What a training step changes, kept and put back."""

from __future__ import annotations

import collections
import copy
import random
import sys
from typing import Any, Callable, Iterable

import torch

from assay.capture.modules import named_modules

Tensor = torch.Tensor
_BACKENDS = ("cuda", "npu", "musa", "xpu")


class Snapshot:
    """The state of modules, optimizers, generators and of everything that
    draws random numbers in this process, now."""

    def __init__(self, state: Iterable[Any]) -> None:
        # Each puts one thing back; they may be called any number of times.
        self._restores: list[Callable[[], None]] = []
        for one in state:
            self._restores.append(_restore_of(one))
        self._restores.extend(_restores_of_random())

    def restore(self) -> None:
        with torch.no_grad():
            for restore in self._restores:
                restore()


def _restore_of(one: Any) -> Callable[[], None]:
    if isinstance(one, torch.nn.Module):
        return _restore_of_module(one)
    if isinstance(one, torch.optim.Optimizer):
        return _restore_of_optimizer(one)
    if isinstance(one, torch.Generator):
        state = one.get_state().clone()
        return lambda: one.set_state(state)
    if hasattr(one, "state_dict") and hasattr(one, "load_state_dict"):
        saved = copy.deepcopy(one.state_dict())
        return lambda: one.load_state_dict(copy.deepcopy(saved))
    raise TypeError(f"state: a {type(one).__name__}, expected a module, an "
                    "optimizer, a generator, or what has state_dict() and "
                    "load_state_dict()")


def _restore_of_module(module: torch.nn.Module) -> Callable[[], None]:
    """Buffers that are not persistent too, and gradients: a state dict has
    neither."""
    tensors = [(tensor, tensor.detach().clone()) for tensor in
               (*module.parameters(), *module.buffers())]
    gradients = [(p, None if p.grad is None else p.grad.detach().clone())
                 for p in module.parameters()]
    training = [(m, m.training) for _, m in named_modules(module)]

    def restore() -> None:
        for tensor, saved in tensors:
            tensor.detach().copy_(saved)
        for parameter, saved in gradients:
            parameter.grad = None if saved is None else saved.clone()
        for one, mode in training:
            one.training = mode

    return restore


def _restore_of_optimizer(
        optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """Not by its state dict, which is cast to the dtypes of the
    parameters."""
    state = {key: _cloned(value) for key, value in optimizer.state.items()}
    groups = [{key: _cloned(value) for key, value in group.items()
               if key != "params"} for group in optimizer.param_groups]

    def restore() -> None:
        optimizer.state = collections.defaultdict(
            dict, {key: _cloned(value) for key, value in state.items()})
        for group, saved in zip(optimizer.param_groups, groups):
            parameters = group["params"]
            group.clear()
            group.update(params=parameters, **{
                key: _cloned(value) for key, value in saved.items()})

    return restore


def _cloned(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _cloned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_cloned(item) for item in value)
    return copy.deepcopy(value)


def _restores_of_random() -> Iterable[Callable[[], None]]:
    python = random.getstate()
    yield lambda: random.setstate(python)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state = numpy.random.get_state()
        yield lambda: numpy.random.set_state(state)
    host = torch.get_rng_state()
    yield lambda: torch.set_rng_state(host)
    for name in _BACKENDS:
        backend = getattr(torch, name, None)
        try:
            if backend is None or not backend.is_available():
                continue
            devices = backend.get_rng_state_all()
        except Exception:  # a driver that does not start
            continue
        yield (lambda backend=backend, devices=devices:
               backend.set_rng_state_all(devices))

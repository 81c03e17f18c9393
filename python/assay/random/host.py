"""host_random: torch draws on the host, whatever device a tensor is on."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from assay.random import functions
from assay.random.checks import checked_seed
from assay.random.dropless import DropNothing, DropNothingBelow, undropped
from assay.random.operators import HostRandomError, called, handler
from assay.random.schema import (bound, drop_argument, drops, operator_name)
from assay.random.stack import ModeStack, is_active
from assay.random.stream import Stream

# Tagged as random, but only asks which kernel is to run, or masks.
_DRAW_NOTHING = ("aten::_fused_sdp_choice",
                 "aten::_nested_tensor_softmax_with_shape")

_STATE = "torch_cpu_rng_state"  # of state_dict()

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd

# A draw of one host_random() is none of another around it.
_drawing = threading.local()


class host_random:
    """While active, torch's random operators draw on the host.

    The numbers depend on the seed, on how many drawing calls came before, and
    on the place of the element: not on the device, the number of threads, the
    version of torch, or (but for rounding) the dtype. With `seed`, a stream of
    its own from the start; torch's CPU generator is put back at the end.
    Without, it goes on from the state of torch's CPU generator, and leaves it
    further on. Either way the position is that generator's state.

    For the thread that entered it, and the backward passes that it runs.
    Operators that cannot be drawn on the host raise HostRandomError.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._seed = None if seed is None else checked_seed("host_random",
                                                            seed)
        self._modes: ModeStack | None = None
        self._before: torch.Tensor | None = None

    def start(self) -> host_random:
        if self._modes is not None:
            raise RuntimeError("host_random: start() while it is active")
        stream = Stream()
        if self._seed is not None:
            self._before = torch.get_rng_state()
            torch.default_generator.manual_seed(self._seed)
        self._modes = ModeStack("host_random")
        self._modes.enter(_Functions())
        self._modes.enter(_Operators(stream))
        return self

    def stop(self) -> None:
        if self._modes is None:
            raise RuntimeError("host_random: stop() while it is not active")
        self._modes.leave()
        self._modes = None
        if self._before is not None:
            torch.set_rng_state(self._before)
            self._before = None

    def __enter__(self) -> host_random:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The position of the stream: what to save in a checkpoint."""
        return {_STATE: torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Goes to a saved position; while active, for start() sets its own."""
        if self._modes is None:
            raise RuntimeError("host_random: load_state_dict() while it is "
                               "not active")
        position = state.get(_STATE)
        if position is None:
            raise ValueError(f"host_random: a state of {sorted(state)}, "
                             f"expected {_STATE!r}")
        torch.set_rng_state(position)


class _Functions(TorchFunctionMode):
    """Calls by whatever name they were bound to: functions that would draw
    in a fused operator take the way round it."""

    def __init__(self) -> None:
        super().__init__()
        self._replaced = functions.replaced()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        try:
            instead = self._replaced.get(func)
        except TypeError:  # not hashable
            instead = None
        # Where nothing drops, a mode below this one says so to the call.
        if instead is not None and not is_active(DropNothing):
            return instead(func, args, kwargs)
        return func(*args, **kwargs)


class _Operators(TorchDispatchMode):
    """Operators as they reach the device, called from Python or not."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream
        self._plans: dict[Any, Any] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(_drawing, "active", False):
            return func(*args, **kwargs)
        try:
            plan = self._plans[func]
        except KeyError:
            plan = self._plans[func] = _plan(func)
        if plan is None or _is_traced(types):
            return func(*args, **kwargs)
        if is_active(DropNothingBelow):
            args, kwargs = undropped(func, args, kwargs)
        return plan(self, func, types, args, kwargs)

    def draw(self, draws: Any, func, types, args, kwargs):
        _refuse_subclasses(func, types)
        _drawing.active = True
        try:
            with torch.no_grad():
                return draws(called(func, args, kwargs, self._stream))
        finally:
            _drawing.active = False

    def decompose(self, func, types, args, kwargs):
        """Of a composite operator, which inference mode shows whole: by
        torch's kernel of C++. func.decompose() may take one of Python, and
        torch 2.13's for recurrent layers forgets their dropout."""
        if not _is_composite(func):
            return self.check(func, types, args, kwargs)
        with self:
            return func._op_dk(_COMPOSITE, *args, **kwargs)

    def check(self, func, types, args, kwargs):
        """Of an operator that draws for some arguments: refuses those."""
        if drop_argument(func) is None or drops(func,
                                                bound(func, args, kwargs)):
            raise HostRandomError(
                f"host_random: {operator_name(func).replace('::', '.')} draws "
                "on the device, out of reach; see docs/determinism.md for "
                "what takes its place")
        return func(*args, **kwargs)


def _plan(func: Any) -> Any:
    """How to call an operator, as plan(mode, func, types, args, kwargs); None
    for one that draws nothing."""
    if operator_name(func) in _DRAW_NOTHING:
        return None
    draws = handler(func)
    if draws is not None:
        return lambda mode, *call: mode.draw(draws, *call)
    if not _may_draw(func):
        return None
    return _Operators.decompose


def _may_draw(func: Any) -> bool:
    tag = getattr(torch.Tag, "nondeterministic_seeded", None)
    if tag is not None and tag in func.tags:
        return True
    if any("Generator" in str(argument.type)
           for argument in func._schema.arguments):
        return True
    # A backend's own, and what a torch of another year left untagged.
    backward = "backward" in operator_name(func) or \
        operator_name(func).endswith("_grad")
    return drop_argument(func) is not None and not backward


def _is_composite(func: Any) -> bool:
    has_kernel = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key",
                         None)
    return has_kernel is not None and hasattr(func, "_op_dk") and \
        has_kernel(func.name(), "CompositeImplicitAutograd")


def _is_traced(types: Any) -> bool:
    """Shapes alone are computed, by FakeTensor: there are no numbers."""
    return any(kind.__name__ == "FakeTensor" for kind in types)


def _refuse_subclasses(func: Any, types: Any) -> None:
    for kind in types:
        if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            raise HostRandomError(
                f"host_random: {operator_name(func)} of a {kind.__name__}, "
                "which draws for its parts by a rule of its own; expected a "
                "plain tensor")


__all__ = ["HostRandomError", "host_random"]

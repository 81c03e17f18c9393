"""Level "aten": every operator that torch's dispatcher runs, in the forward
and the backward pass.

A TorchDispatchMode sees them below autograd. So there are no gradients to
watch for: what the backward pass computes are operators like any other. It is
not combined with the level of functions, whose calls these operators are the
inside of. What torch.compile() made into one kernel is one kernel. Autocast
is above the dispatcher's operators: its casts are operators, its region is not
told.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

import torch
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from assay.capture.guards import THREAD, is_compiling
from assay.capture.leaves import arguments, leaves, results
from assay.capture.names import NAMESPACES
from assay.capture.recorder import Recorder

Tensor = torch.Tensor

# collectives.py sees communication, and reads results when they are there.
_OTHERS = ("c10d", "_c10d_functional", "_c10d_functional_autograd",
           "c10d_functional", "profiler", "prim")


class _Operator:
    """What is to be known of an operator, once."""

    def __init__(self, func: Any) -> None:
        namespace, _, self.api = func._schema.name.partition("::")
        self.seen = namespace not in _OTHERS
        self.prefix = NAMESPACES.get(namespace, namespace)
        self._written = [
            (i, argument.name)
            for i, argument in enumerate(func._schema.arguments)
            if argument.alias_info is not None
            and argument.alias_info.is_write]

    def written(self, args: tuple, kwargs: dict) -> Iterator[Tensor]:
        """The tensors that a call of it writes to. Their version is counted
        after the mode has seen the call, so it does not tell."""
        for i, name in self._written:
            value = args[i] if i < len(args) else kwargs.get(name)
            for _, leaf in leaves(value, ""):
                if isinstance(leaf, Tensor):
                    yield leaf

    def result(self, result: Any, args: tuple) -> Any:
        """_foreach_add_() returns nothing: it changed its argument."""
        if result is None and self._written and args:
            return args[self._written[0][0]]
        return result


class AtenMode(TorchDispatchMode):
    """Hands every operator of the dispatcher to a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.on = True  # until the capture stops
        self._operators: dict[Any, _Operator] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """torch.compile goes on as without the mode, which then sees what
        compiled code hands to the dispatcher. Else torch runs in eager mode
        what is compiled otherwise, with other bits."""
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        recorder = self.recorder
        if (THREAD.busy or not self.on or not recorder.alive
                or is_compiling()):
            return func(*args, **kwargs)
        operator = self._operators.get(func)
        if operator is None:
            operator = self._operators[func] = _Operator(func)
        if not operator.seen:
            return func(*args, **kwargs)
        return self._recorded(operator, func, args, kwargs)

    def _recorded(self, operator: _Operator, func: Callable, args: tuple,
                  kwargs: dict) -> Any:
        recorder = self.recorder
        api = f"{operator.prefix}.{operator.api}"
        number = recorder.next_call(api)
        name = f"{api}.{number}.forward"
        op = -1
        with recorder.guarded(name):
            op = recorder.begin(
                name, operator.api, operator.prefix, number, "forward",
                parent=recorder.enclosing_op(),
                recompute=recorder.recomputing())
            self._leaves(op, "input", arguments(args, kwargs))
        try:
            result = func(*args, **kwargs)
        except BaseException as error:
            with recorder.guarded(name):
                self._leaves(op, "output", [(
                    "output.raised", f"{type(error).__name__}: {error}")])
            raise
        with recorder.guarded(name):
            for tensor in operator.written(args, kwargs):
                recorder.identities.written(tensor)
            self._leaves(op, "output", results(operator.result(result, args)))
        return result

    def _leaves(self, op: int, role: str, found: Any) -> None:
        if op >= 0:
            self.recorder.leaves(op, role, found)

    def remove(self) -> None:
        """Sees no more operators."""
        self.on = False
        leave(self)


def leave(mode: TorchDispatchMode) -> None:
    """Takes a mode off this thread's stack; what was put on above it since
    stays."""
    pop = getattr(_python_dispatch, "_pop_mode", None)
    push = getattr(_python_dispatch, "_push_mode", None)
    stack = _modes()
    if stack is None or pop is None or push is None:
        mode.__exit__(None, None, None)
        return
    if mode not in stack:
        return
    above = []
    while stack.pop() is not mode:
        above.append(pop())
    mode.__exit__(None, None, None)
    for other in reversed(above):
        push(other)


def _modes() -> Optional[list[Any]]:
    """Modes on this thread's stack, but for those that torch keeps in places
    of their own (FakeTensorMode)."""
    stack = getattr(_python_dispatch, "_get_current_dispatch_mode_stack",
                    None)
    if stack is None:
        return None
    return [one for one in stack()
            if getattr(one, "_mode_key", None) is None]

"""API calls: torch.*, torch.nn.functional.*, methods of tensors, operators of
extensions.

A TorchFunctionMode sees them whatever name they were imported by, and patches
nothing. Of a function that calls others only the outer call is an operator;
aten.py sees what is inside.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from assay.capture import mode_stack
from assay.capture.calls import Call
from assay.capture.guards import THREAD, is_compiling
from assay.capture.names import Kind, kind_of
from assay.capture.recorder import Recorder


class FunctionMode(TorchFunctionMode):
    """Hands every API call to a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.on = True  # until the capture stops
        self._kinds: dict[Any, Kind] = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if is_compiling():  # dynamo traces this: the graph is as without
            return func(*args, **kwargs)
        recorder = self.recorder
        if THREAD.busy or not self.on or not recorder.alive:
            return func(*args, **kwargs)
        try:
            kind = self._kinds[func]
        except (KeyError, TypeError):
            kind = self._learn(func)
        if kind is None:
            return func(*args, **kwargs)
        if callable(kind):
            return kind(self, func, args, kwargs)
        return self._recorded(kind, func, args, kwargs)

    def _learn(self, func: Callable) -> Any:
        """What to do with calls of a function, from now on."""
        kind = None
        with self.recorder.guarded(getattr(func, "__name__", "a function")):
            kind = _known(func)
        try:
            self._kinds[func] = kind
        except TypeError:  # it cannot be hashed: it is asked for again
            pass
        return kind

    def escape(self, args: tuple) -> None:
        """The memory of these tensors may be written to unseen."""
        with self.recorder.guarded("memory that is handed out"):
            for each in args:
                if isinstance(each, torch.Tensor):
                    self.recorder.identities.escape(each)

    def _recorded(self, kind: tuple[str, str], func: Callable, args: tuple,
                  kwargs: dict) -> Any:
        recorder = self.recorder
        prefix, api = kind
        number = recorder.next_call(f"{prefix}.{api}")
        call = Call(recorder, prefix, api, f"{prefix}.{api}.{number}", "",
                    number)
        with recorder.guarded(call):
            call.begin(args, kwargs)
        try:
            result = func(*args, **kwargs)
        except BaseException as error:
            with recorder.guarded(call):
                call.raised(error)
            raise
        with recorder.guarded(call):
            # x[0] = 1 and _foreach_add_ return nothing: they changed this.
            call.end(args[0] if result is None and args else result)
        return result


def _known(func: Callable) -> Any:
    try:
        special = _SPECIAL.get(func)
    except TypeError:  # it cannot be hashed
        special = None
    if special is not None:
        return special
    if getattr(func, "__name__", "") in ("__get__", "__set__"):
        name = (resolve_name(func) or "").split(".")
        if name[-2:-1] == ["data"]:
            return _escape
    return kind_of(func)


def _escape(mode: FunctionMode, func: Callable, args: tuple,
            kwargs: dict) -> Any:
    """Memory is handed out, and may be written to unseen."""
    mode.escape(args)
    return func(*args, **kwargs)


def _recorded_escape(mode: FunctionMode, func: Callable, args: tuple,
                     kwargs: dict) -> Any:
    """Tensors come to share memory, but no version counter."""
    mode.escape(args)
    result = mode._recorded(kind_of(func), func, args, kwargs)
    mode.escape(args)
    return result


def _tensor_backward(mode: FunctionMode, func: Callable, args: tuple,
                     kwargs: dict) -> Any:
    def call(tensor, gradient=None, retain_graph=None, create_graph=False,
             inputs=None):
        return (tensor,), (gradient,), retain_graph, create_graph, inputs

    return _run_backward(mode, func, args, kwargs, call)


def _autograd_backward(mode: FunctionMode, func: Callable, args: tuple,
                       kwargs: dict) -> Any:
    def call(tensors, grad_tensors=None, retain_graph=None,
             create_graph=False, grad_variables=None, inputs=None):
        if grad_variables is not None:
            raise TypeError("grad_variables")  # told of by torch itself
        if isinstance(tensors, torch.Tensor):
            tensors = (tensors,)
        if grad_tensors is None or isinstance(grad_tensors, torch.Tensor):
            grad_tensors = (grad_tensors,) * len(tensors)
        return (tuple(tensors), tuple(grad_tensors), retain_graph,
                create_graph, inputs)

    return _run_backward(mode, func, args, kwargs, call)


def _run_backward(mode: FunctionMode, func: Callable, args: tuple,
                  kwargs: dict, call: Callable) -> Any:
    """Runs the backward pass with the mode on, so that recomputation in it
    is seen.

    torch.autograd.backward() asks the mode again before it starts the engine,
    so the engine is started here. Where that is not possible, or the call is
    unusual, the pass runs as torch does it, and only hooks see it.
    """
    autograd = torch.autograd
    make = getattr(autograd, "_make_grads", None)
    run = getattr(autograd.graph, "_engine_run_backward", None) or getattr(
        getattr(autograd.Variable, "_execution_engine", None),
        "run_backward", None)
    try:
        tensors, gradients, retain, create, inputs = call(*args, **kwargs)
        usual = inputs is None and all(
            type(t) in (torch.Tensor, torch.nn.Parameter) for t in tensors)
    except TypeError:
        usual = False
    if not usual or make is None or run is None or _transforms():
        return func(*args, **kwargs)
    outer, THREAD.busy = THREAD.busy, True  # ones_like() is no user's call
    try:
        gradients = make(tensors, gradients, is_grads_batched=False)
    finally:
        THREAD.busy = outer
    mode_stack.enter(mode)
    try:
        run(tensors, gradients, create if retain is None else retain, create,
            (), allow_unreachable=True, accumulate_grad=True)
    finally:
        mode_stack.leave(mode)
    return None


_transforms = getattr(torch._C, "_are_functorch_transforms_active",
                      lambda: False)

_SPECIAL = {
    torch.Tensor.backward: _tensor_backward,
    torch.autograd.backward: _autograd_backward,
    torch.Tensor.numpy: _escape,
    torch.Tensor.__dlpack__: _escape,
    torch.Tensor.data_ptr: _escape,
    torch.Tensor.untyped_storage: _escape,
    torch.Tensor.storage: _escape,
    torch.Tensor.__reduce_ex__: _escape,  # copy.copy() asks for it
    **{getattr(of, name): _recorded_escape
       for name in ("unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes")
       for of in (torch, torch.Tensor) if hasattr(of, name)},
}

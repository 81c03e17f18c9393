"""One step of one rank on its way into a trace."""

from __future__ import annotations

import collections
import itertools
import os
import sys
import threading
import warnings
from typing import Any, Iterable

import torch
from torch.utils.hooks import unserializable_hook

from assay import _core
from assay.capture.autocast import autocast
from assay.capture.device_copies import DeviceCopies
from assay.capture.guards import THREAD, Guard
from assay.capture.identities import Identities, swaps_parameters
from assay.capture.in_flight import InFlight
from assay.capture.leaves import (Cut, described, leaves, limited,
                                  utf8)
from assay.capture.options import Options
from assay.capture.passes import Passes, current_pass
from assay.capture.pieces import part_text, refuse_expanded, sliced
from assay.capture.stacks import Stacks
from assay.capture.te_tensors import is_storage, parts
from assay.tensors import Unreadable, host_view

Tensor = torch.Tensor


# As many faults are told of one by one.
MAX_FAULTS = 100
# How often it is asked whether what was written arrived.
OPS_BETWEEN_LOOKS = 32


class _Entered(threading.local):
    """The module calls that a thread is inside of."""

    def __init__(self) -> None:
        self.calls: list[Any] = []


class Recorder:
    """Numbers operators and hands their leaves to the writer.

    Hooks may run in the autograd engine's threads: one lock covers what they
    share. After close(), and in a forked process, every call does nothing.
    """

    def __init__(self, directory: str, options: Options, step: int, rank: int,
                 world_size: int, device: str) -> None:
        self.options = options
        self.directory = directory
        self.writer_mode = (options.mode if options.mode != "overflow"
                            else "statistics")
        self.writer = _core.CaptureWriter(
            directory, self.writer_mode,
            step=step, rank=rank, world_size=world_size,
            framework_version=torch.__version__, level=options.level,
            device=device, queue_bytes=options.queue_bytes)
        self.lock = threading.RLock()
        self.state = _Entered()
        self.open = True
        self.broken = False  # nothing can be written any more
        self.fault_count = 0
        self.faults: list[str] = []
        self._owner = os.getpid()
        # next() of a counter is one step for every thread.
        self._calls: dict[str, Any] = collections.defaultdict(itertools.count)
        self._until_look = 0
        self.thread = threading.get_ident()
        self._told_of_threads = False
        self._stacks = Stacks(self.writer.stack)
        # Level "module" sees no call that hands out memory; and tensors that
        # are known, by weak references, cannot be swapped.
        self.identities = Identities(options.level != "module"
                                     and not swaps_parameters())
        self.in_flight = InFlight()
        self.passes = Passes(self.guarded)
        self._backward = False
        self._copies = DeviceCopies(options.queue_bytes)

    @property
    def alive(self) -> bool:
        """Whether what is seen is to be written."""
        return (self.open and not self.broken
                and os.getpid() == self._owner)

    @property
    def watches_gradients(self) -> bool:
        return self.options.backward and self.options.level != "aten"

    def begin_here(self) -> None:
        """This thread is the training's, and inside of no module."""
        self.thread = threading.get_ident()
        self.state.calls.clear()

    def look_at_thread(self) -> None:
        """Functions are seen where their mode is on: in the thread that
        called start(), and in autograd's, which inherit it."""
        if (self.thread == threading.get_ident() or self._told_of_threads
                or not self.options.functions or _function_modes()):
            return
        self._told_of_threads = True
        warn("modules run in another thread than the one that called "
             "start(): functions called there are not seen")

    def guarded(self, what: Any = None) -> Guard:
        """Training goes on whatever happens to its capture.

        The first error is warned of, each is told of in the trace. what: the
        call that is recorded, or its name.
        """
        return Guard(self._fault, what)

    def _fault(self, error: Exception, what: Any) -> None:
        text = f"{type(error).__name__}: {error}".strip(": ")
        text = " ".join(text.split())[:500]
        name = getattr(what, "stem", what) or "a call"
        with self.lock:
            self.fault_count += 1
            if self.fault_count > MAX_FAULTS:
                return
            self.faults.append(f"{name}: {text}")
            if self.fault_count == 1:
                warn(f"{text}; the trace lacks what {name} holds")
            self._tell(f"fault.{self.fault_count - 1}", name, text)

    def _tell(self, op_name: str, name: str, why: str) -> None:
        """A row that never matches stands for what is not in the trace."""
        try:
            op = self.writer.op(f"{op_name}.debug", op_name, "Debug",
                                0, "")
            self.writer.unreadable(op, "tensor", f"tensor.{utf8(name)}", "",
                                   [], utf8(why))
        except Exception as error:  # the writer's own: there is no trace
            self.faults.append(f"{type(error).__name__}: {error}")

    def left(self, why: str) -> None:
        """The step ended before its time; what would have come is unknown."""
        if self.alive:
            with self.guarded("the rest of the step"), self.lock:
                self._tell("left", "rest", why)

    def next_call(self, api: str) -> int:
        """Numbers the calls of one API from 0."""
        return next(self._calls[api])

    def begin(self, name: str, api: str, prefix: str, call: int,
              direction: str, *, parent: int = -1, stack: bool = True,
              recompute: bool = False, collective: Any = None) -> int:
        """A new operator; its number, -1 where its name is not wanted."""
        if self.in_flight.calls:
            self.in_flight.poll()
        if in_backward() != self._backward:
            self._backward = not self._backward
            self.forget()
        if not self.options.wanted(name):
            return -1
        with self.lock:
            self._look_at_disk()
            number = -1
            if stack and self.options.stacks:
                number = self._stacks.here()
            return self.writer.op(name, api, prefix, call, direction, parent,
                                  number, recompute, autocast(), collective)

    def enclosing_op(self) -> int:
        """The module call around what this thread does now; -1: none."""
        for call in reversed(self.state.calls):
            if call.op >= 0:
                return call.op
        return -1

    def recomputing(self) -> bool:
        """Whether this thread is in a module that runs again for the sake
        of its backward pass."""
        calls = self.state.calls
        return bool(calls) and calls[-1].recompute

    def _look_at_disk(self) -> None:
        """Warns once where the trace cannot be written; close() raises."""
        self._until_look -= 1
        if self._until_look > 0:
            return
        self._until_look = OPS_BETWEEN_LOOKS
        problem = self.writer.problem
        if problem:
            self.broken = True
            warn(f"{problem}; the trace ends here, the training goes on")

    def forget(self) -> None:
        """Tensors may have been written to unseen: all are read again."""
        with self.lock:
            self.identities.forget()
            self.writer.forget()

    def leaves(self, op: int, role: str,
               found: Iterable[tuple[str, Any]]) -> None:
        """Records every leaf of a call."""
        for path, leaf in found:
            if isinstance(leaf, Tensor):
                self.tensor(op, role, path, leaf)
            elif isinstance(leaf, Cut):
                with self.lock:
                    self.writer.unreadable(op, role, path, "", [], leaf.why,
                                           "")
            elif is_storage(leaf):
                self._storage(op, role, path, leaf)
            else:
                self._value(op, role, path, leaf)

    def _value(self, op: int, role: str, path: str, leaf: Any) -> None:
        kind, text = described(leaf)
        with self.lock:
            if text is not None:
                self.writer.value(op, role, path, kind, text)
            elif kind == "numpy.ndarray":
                self._array(op, role, path, leaf)
            else:
                self.writer.opaque(op, role, path, kind,
                                   f"a {kind} is not compared")

    def _array(self, op: int, role: str, path: str, array: Any) -> None:
        try:
            view, dtype = host_view(array)
            self.writer.tensor(op, role, path, view, "numpy.ndarray",
                               False, dtype)
        except Unreadable as error:
            self.writer.opaque(op, role, path, "numpy.ndarray", str(error))

    def value(self, op: int, role: str, path: str, kind: str,
              text: str) -> None:
        """Records a leaf that is no tensor."""
        with self.lock:
            self.writer.value(op, role, path, kind, text)

    def unreadable(self, op: int, role: str, path: str, tensor: Tensor,
                   why: str) -> None:
        """Records that a tensor was there, and why not what it held."""
        with self.lock:
            self._unreadable(op, role, path, tensor, why, _type_name(tensor))

    def tensor(self, op: int, role: str, path: str, tensor: Tensor) -> None:
        """Records a tensor as it is now; one that cannot be had, with why."""
        with self.lock:
            kind = _type_name(tensor)
            self._tensor(op, role, path, tensor, kind)
            if kind != "torch.Tensor":
                self._parts(op, role, path, tensor)

    def _storage(self, op: int, role: str, path: str, storage: Any) -> None:
        """A quantised tensor that is no torch.Tensor."""
        with self.lock:
            try:
                self._tensor(op, role, path, storage.dequantize(),
                             _type_name(storage))
            except Exception as error:  # it may hold one direction alone
                self.writer.unreadable(
                    op, role, path, "", [],
                    f"{type(error).__name__}: {error}"[:500],
                    _type_name(storage))
            self._parts(op, role, path, storage)

    def _parts(self, op: int, role: str, path: str, quantised: Any) -> None:
        """Codes and scales of a quantised tensor."""
        for leaf, tensor, dtype in parts(quantised):
            self._tensor(op, role, f"{path}.{leaf}", tensor,
                         _type_name(tensor), dtype)

    def _tensor(self, op: int, role: str, path: str, tensor: Tensor,
                kind: str, of: str = "") -> None:
        """of: the dtype of which its bytes are the codes."""
        grad = bool(tensor.requires_grad)
        try:
            part = sliced(tensor, self.options.slices)
            if part is not tensor and part.shape != tensor.shape:
                self.writer.value(op, role, f"{path}.part", "str",
                                  part_text(tensor, self.options.slices))
            if part.device.type not in ("cpu", "meta"):
                self._copies.push(
                    part, lambda array, dtype: self.writer.tensor(
                        op, role, path, array, kind, grad, of or dtype,
                        owned=True))
                return
            if self.writer_mode != "statistics":
                refuse_expanded(part)
            array, dtype = host_view(part)
            number = 0 if of or part is not tensor else (
                self.identities.number(tensor))
            self.writer.tensor(op, role, path, array, kind, grad, of or dtype,
                               number=number)
        except Unreadable as error:
            self._unreadable(op, role, path, tensor, str(error), kind)
        except Exception as error:  # of a subclass nobody has seen before
            self._unreadable(op, role, path, tensor,
                             f"{type(error).__name__}: {error}", kind)

    def _unreadable(self, op: int, role: str, path: str, tensor: Tensor,
                    why: str, kind: str) -> None:
        try:
            shape = [int(n) for n in tensor.shape]
        except Exception:  # symbolic, or a nested tensor's
            shape = []
        self.writer.unreadable(op, role, path,
                               str(tensor.dtype).replace("torch.", ""), shape,
                               " ".join(why.split())[:500], kind)

    def save(self, value: Any, name: str) -> None:
        """A value of the user's; its gradient too, once it arrives."""
        if not self.alive:
            return
        with self.guarded(f"save({name!r})"):
            name = utf8(name)
            found = list(limited(leaves(value, "")))
            op = self._debug(name)
            for path, leaf in found:
                leaf_name = f"tensor{path}"
                self.leaves(op, "tensor", [(leaf_name, leaf)])
                if (isinstance(leaf, Tensor) and leaf.requires_grad
                        and self.options.backward):
                    leaf.register_hook(unserializable_hook(
                        lambda gradient, path=leaf_name:
                        self._save_gradient(name, path, gradient)))

    def _save_gradient(self, name: str, path: str, gradient: Tensor) -> None:
        if self.alive:
            with self.guarded(name):
                self.tensor(self._debug(f"{name}_grad"), "tensor", path,
                            gradient)

    def _debug(self, name: str) -> int:
        number = self.next_call(f"{name}.debug")
        return self.begin(f"{name}.{number}.debug", name, "Debug", number, "")

    def checkpoint(self, op: int) -> None:
        """An operator's leaves are complete."""

    def drain(self) -> None:
        """Waits for copies from devices and writes them."""
        with self.lock:
            self._copies.drain()

    def close(self) -> None:
        """Ends the trace; raises what went wrong while it was written."""
        if not self.open:
            return
        if self.alive:
            with self.guarded("a copy from the device"):
                self.drain()
            if self.fault_count > MAX_FAULTS:
                self._tell("fault.more", "more", f"{self.fault_count} faults, "
                           f"of which {MAX_FAULTS} are listed")
        self.open = False
        self.writer.close()


_function_modes = getattr(torch._C, "_len_torch_function_stack", lambda: 1)


def warn(text: str) -> None:
    """Says it once, and never raises: where warnings are errors it is
    printed."""
    try:
        warnings.warn(f"assay.capture: {text}", RuntimeWarning, stacklevel=5)
    except Warning:
        print(f"assay.capture: {text}", file=sys.stderr)


def in_backward() -> bool:
    """Whether the autograd engine is running: what is called now, activation
    checkpointing calls again."""
    return current_pass() != -1


def _type_name(tensor: Any) -> str:
    kind = type(tensor)
    if kind is Tensor or kind is torch.nn.Parameter:
        return "torch.Tensor"
    return f"{kind.__module__}.{kind.__qualname__}"

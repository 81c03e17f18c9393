"""One step of one rank on its way into a trace."""

from __future__ import annotations

import collections
import itertools
import os
import threading
from typing import Any

import torch
from torch.utils.hooks import unserializable_hook

from assay import _core
from assay.capture.autocast import autocast
from assay.capture.faults import Faults, warn
from assay.capture.guards import Guard
from assay.capture.in_flight import InFlight
from assay.capture.leaf_writer import LeafWriter
from assay.capture.leaves import leaves, limited, utf8
from assay.capture.options import Options
from assay.capture.passes import Passes, current_pass
from assay.capture.stacks import Stacks

Tensor = torch.Tensor

# How often it is asked whether what was written arrived.
OPS_BETWEEN_LOOKS = 32


class _Entered(threading.local):
    """The module calls that a thread is inside of."""

    def __init__(self) -> None:
        self.calls: list[Any] = []


class Recorder(LeafWriter):
    """Numbers operators and hands their leaves to the writer.

    After close(), and in a forked process, every call does nothing.
    """

    def __init__(self, directory: str, options: Options, step: int, rank: int,
                 world_size: int, device: str) -> None:
        mode = options.mode if options.mode != "overflow" else "statistics"
        super().__init__(options, _core.CaptureWriter(
            directory, mode, step=step, rank=rank, world_size=world_size,
            framework_version=torch.__version__, level=options.level,
            device=device, queue_bytes=options.queue_bytes), mode)
        self.directory = directory
        self.state = _Entered()
        self.open = True
        self.broken = False  # nothing can be written any more
        self.faults = Faults(self.writer)
        self._owner = os.getpid()
        # next() of a counter is one step for every thread.
        self._calls: dict[str, Any] = collections.defaultdict(itertools.count)
        self._until_look = 0
        self.thread = threading.get_ident()
        self._told_of_threads = False
        self._stacks = Stacks(self.writer.stack)
        self.in_flight = InFlight()
        self.passes = Passes(self.guarded)
        self._backward = False

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
        with self.lock:
            self.faults.add(error, what)

    def left(self, why: str) -> None:
        """The step ended before its time; what would have come is unknown."""
        if self.alive:
            with self.guarded("the rest of the step"), self.lock:
                self.faults.tell("left", "rest", why)

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

    def close(self) -> None:
        """Ends the trace; raises what went wrong while it was written."""
        if not self.open:
            return
        if self.alive:
            with self.guarded("a copy from the device"):
                self.drain()
            self.faults.close()
        self.open = False
        self.writer.close()


_function_modes = getattr(torch._C, "_len_torch_function_stack", lambda: 1)


def in_backward() -> bool:
    """Whether the autograd engine is running: what is called now, activation
    checkpointing calls again."""
    return current_pass() != -1

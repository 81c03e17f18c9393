"""One step of one rank on its way into a trace."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from typing import Any, Iterable, Iterator, Optional

import torch

from assay import _core
from assay.capture.device_copies import DeviceCopies
from assay.capture.identities import Identities
from assay.capture.in_flight import InFlight
from assay.capture.leaves import described, leaves
from assay.capture.options import Options
from assay.capture.stacks import Stacks
from assay.tensors import Unreadable, host_view

Tensor = torch.Tensor


class _Thread(threading.local):
    busy = False  # a capture is calling torch


# Of every capture: what one of them calls, another does not see.
THREAD = _Thread()


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
        self.writer = _core.CaptureWriter(
            directory, options.mode if options.mode != "overflow"
            else "statistics",
            step=step, rank=rank, world_size=world_size,
            framework_version=torch.__version__, level=options.level,
            device=device, queue_bytes=options.queue_bytes)
        self.lock = threading.RLock()
        self.state = _Entered()
        self.open = True
        self.faults = 0
        self.first_fault: Optional[Exception] = None
        self._owner = os.getpid()
        self._calls: dict[str, int] = {}
        self._stacks = Stacks(self.writer.stack)
        self.identities = Identities()
        self.in_flight = InFlight()
        self._backward = False
        self._copies = DeviceCopies(options.queue_bytes)

    @property
    def alive(self) -> bool:
        """Whether what is seen is to be written."""
        return self.open and os.getpid() == self._owner

    @property
    def watches_gradients(self) -> bool:
        return self.options.backward

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Training goes on whatever happens to its capture.

        What torch is asked for meanwhile is no call of the user's. The first
        error is warned of and kept for close().
        """
        outer, THREAD.busy = THREAD.busy, True
        try:
            yield
        except Exception as error:
            self._fault(error)
        finally:
            THREAD.busy = outer

    def _fault(self, error: Exception) -> None:
        with self.lock:
            self.faults += 1
            if self.first_fault is None:
                self.first_fault = error
                warnings.warn(f"assay.capture: {type(error).__name__}: "
                              f"{error}; the trace lacks this call",
                              RuntimeWarning, stacklevel=4)

    def next_call(self, api: str) -> int:
        """Numbers the calls of one API from 0."""
        call = self._calls.get(api, 0)
        self._calls[api] = call + 1
        return call

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
            elif self.options.values:
                kind, text = described(leaf)
                with self.lock:
                    self.writer.value(op, role, path, kind, text)

    def value(self, op: int, role: str, path: str, kind: str,
              text: str) -> None:
        """Records a leaf that is no tensor."""
        if self.options.values:
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
            self._tensor(op, role, path, tensor)

    def _tensor(self, op: int, role: str, path: str, tensor: Tensor) -> None:
        kind = _type_name(tensor)
        grad = bool(tensor.requires_grad)
        try:
            part = self._sliced(tensor)
            if part.device.type not in ("cpu", "meta"):
                self._copies.push(
                    part, lambda array, dtype: self.writer.tensor(
                        op, role, path, array, kind, grad, dtype,
                        owned=True))
                return
            array, dtype = host_view(part)
            number = 0 if part is not tensor else (
                self.identities.number(tensor))
            self.writer.tensor(op, role, path, array, kind, grad, dtype,
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

    def _sliced(self, tensor: Tensor) -> Tensor:
        for dimension, part in self.options.slices.items():
            if -tensor.dim() <= dimension < tensor.dim():
                index = [slice(None)] * tensor.dim()
                index[dimension] = part
                tensor = tensor[tuple(index)]
        return tensor

    def save(self, value: Any, name: str) -> None:
        """A value of the user's; its gradient too, once it arrives."""
        with self.guarded():
            found = list(leaves(value, ""))
            op = self._debug(name)
            for path, leaf in found:
                leaf_name = f"tensor{path}"
                self.leaves(op, "tensor", [(leaf_name, leaf)])
                if (isinstance(leaf, Tensor) and leaf.requires_grad
                        and self.options.backward):
                    leaf.register_hook(
                        lambda gradient, path=leaf_name:
                        self._save_gradient(name, path, gradient))

    def _save_gradient(self, name: str, path: str, gradient: Tensor) -> None:
        if self.alive:
            with self.guarded():
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
            self.drain()
        self.open = False
        self.writer.close()


def in_backward() -> bool:
    """Whether the autograd engine is running: what is called now, activation
    checkpointing calls again."""
    current = getattr(torch._C, "_current_graph_task_id", None)
    return current is not None and current() != -1


def autocast() -> str:
    """The dtype of the autocast region around the caller; "" outside."""
    for kind in _AUTOCAST_DEVICES:
        if torch.is_autocast_enabled(kind):
            return str(torch.get_autocast_dtype(kind)).replace("torch.", "")
    return ""


def _autocast_before_2_4() -> str:
    if torch.is_autocast_enabled():
        return str(torch.get_autocast_gpu_dtype()).replace("torch.", "")
    if torch.is_autocast_cpu_enabled():
        return str(torch.get_autocast_cpu_dtype()).replace("torch.", "")
    return ""


def _autocast_devices() -> list[str]:
    found = ["cpu"]
    for kind in ("cuda", "npu", "musa", "xpu", "mps"):
        backend = getattr(torch, kind, None)
        try:
            if backend is not None and backend.is_available():
                found.append(kind)
        except Exception:  # a backend that is half installed
            continue
    return found


if hasattr(torch, "get_autocast_dtype"):
    _AUTOCAST_DEVICES = _autocast_devices()
else:
    autocast = _autocast_before_2_4  # noqa: F811


def _type_name(tensor: Tensor) -> str:
    kind = type(tensor)
    if kind is Tensor or kind is torch.nn.Parameter:
        return "torch.Tensor"
    return f"{kind.__module__}.{kind.__qualname__}"

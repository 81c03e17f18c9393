"""Writes the leaves of operators: tensors, quantised ones with their parts,
values, and whatever can only be named."""

from __future__ import annotations

import threading
from typing import Any, Iterable

import torch

from assay import _core
from assay.capture.device_copies import DeviceCopies
from assay.capture.identities import Identities, swaps_parameters
from assay.capture.leaves import Cut, described
from assay.capture.options import Options
from assay.capture.pieces import part_text, refuse_expanded, sliced
from assay.capture.te_tensors import is_storage, parts
from assay.tensors import Unreadable, host_view

Tensor = torch.Tensor


class LeafWriter:
    """Hands leaves to the trace's writer, as they are now.

    Hooks may run in the autograd engine's threads: one lock covers what they
    share.
    """

    def __init__(self, options: Options, writer: _core.CaptureWriter,
                 writer_mode: str) -> None:
        self.options = options
        self.writer, self.writer_mode = writer, writer_mode
        self.lock = threading.RLock()
        # Level "module" sees no call that hands out memory; and tensors that
        # are known, by weak references, cannot be swapped.
        self.identities = Identities(options.level != "module"
                                     and not swaps_parameters())
        self._copies = DeviceCopies(options.queue_bytes)

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

    def drain(self) -> None:
        """Waits for copies from devices and writes them."""
        with self.lock:
            self._copies.drain()


def _type_name(tensor: Any) -> str:
    kind = type(tensor)
    if kind is Tensor or kind is torch.nn.Parameter:
        return "torch.Tensor"
    return f"{kind.__module__}.{kind.__qualname__}"

"""Which tensors a capture has seen already."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

# Bytes; smaller tensors are looked at again (capture_content.cpp).
SMALLEST = 32 << 10

_weak = getattr(torch._C, "_WeakTensorRef", None) if hasattr(
    torch.UntypedStorage, "resizable") else None


class Identities:
    """Numbers tensors; the same one, unchanged, gets its number again.

    In one step most tensors pass many times: as the result of an operator, of
    the modules around it, as the argument of the next ones. Identity is that
    of torch's own object (a weak reference keeps its address from being used
    again), its version counter and its memory. What writes past the version
    counter is not seen by it: numbers are forgotten where that is usual (at
    the beginning and end of a backward pass and of an optimizer's step),
    tensors in memory that was handed out, or that numpy or another library
    shares, get none, and the writer holds a sample of the bytes against every
    reuse.

    trusting: whether who calls says what is handed out (escape()); else no
    tensor has a number.
    """

    def __init__(self, trusting: bool = True) -> None:
        self._known: dict[int, tuple[Any, int, int, int]] = {}
        self._escaped: dict[int, StorageWeakRef] = {}  # by storage
        self._weak = _weak if trusting else None
        self._next = 1

    def number(self, tensor: torch.Tensor) -> int:
        """0 where nothing can be promised."""
        if self._weak is None or type(tensor) not in _PLAIN:
            return 0
        try:
            if tensor.numel() * tensor.element_size() < SMALLEST:
                return 0
            storage = tensor.untyped_storage()
            # Memory of a numpy array or of another library, and what
            # numpy() has seen, cannot be resized.
            if (not storage.resizable() or storage.is_shared()
                    or storage._cdata in self._escaped):
                return 0
            version, pointer = tensor._version, tensor.data_ptr()
        except RuntimeError:  # an inference tensor, or one without a storage
            return 0
        key = tensor._cdata
        known = self._known.get(key)
        if known is not None and known[1] == version and known[2] == pointer:
            return known[3]
        number = self._next
        self._next = number + 1
        self._known[key] = (self._weak(tensor), version, pointer, number)
        return number

    def escape(self, tensor: torch.Tensor) -> None:
        """The tensor's memory may be written to unseen from now on, whatever
        tensor shows it."""
        if self._weak is None or type(tensor) not in _PLAIN:
            return
        try:
            storage = tensor.untyped_storage()
            self._escaped[storage._cdata] = StorageWeakRef(storage)
        except (RuntimeError, NotImplementedError):  # it has none
            pass

    def written(self, tensor: torch.Tensor) -> None:
        """The tensor's memory was written to past the version counter."""
        try:
            storage = tensor.untyped_storage()
            first = storage.data_ptr()
            end = first + storage.nbytes()
        except Exception:  # a subclass that keeps its values elsewhere
            self.forget()
            return
        for key, known in list(self._known.items()):
            if first <= known[2] < end:
                del self._known[key]

    def forget(self) -> None:
        """What is seen from now on is new."""
        self._known.clear()


def swaps_parameters() -> bool:
    """Whether Module.to() exchanges the insides of parameters."""
    future = getattr(torch, "__future__", None)
    asked = getattr(future, "get_swap_module_params_on_conversion", None)
    return asked is not None and asked()


_PLAIN = (torch.Tensor, torch.nn.Parameter)

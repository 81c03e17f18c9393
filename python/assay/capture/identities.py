"""Which tensors a capture has seen already."""

from __future__ import annotations

from typing import Any

import torch

_weak = getattr(torch._C, "_WeakTensorRef", None)


class Identities:
    """Numbers tensors; the same one, unchanged, gets its number again.

    In one step most tensors pass many times: as the result of an operator, of
    the modules around it, as the argument of the next ones. Identity is that
    of torch's own object (a weak reference keeps its address from being used
    again), its version counter and its memory. What writes past the version
    counter is not seen by it: numbers are forgotten where that is usual (at
    the beginning and end of a backward pass and of an optimizer's step), a
    tensor whose memory was handed out gets none, and the writer holds a
    sample of the bytes against every reuse.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int, int, int]] = {}
        self._escaped: dict[int, Any] = {}
        self._next = 1

    def number(self, tensor: torch.Tensor) -> int:
        """0 where nothing can be promised."""
        if _weak is None or type(tensor) not in _PLAIN:
            return 0
        key = tensor._cdata
        try:
            version, pointer = tensor._version, tensor.data_ptr()
        except RuntimeError:  # an inference tensor, or one without a storage
            return 0
        known = self._known.get(key)
        if known is not None and known[1] == version and known[2] == pointer:
            return known[3]
        if key in self._escaped:
            return 0
        number = self._next
        self._next = number + 1
        self._known[key] = (_weak(tensor), version, pointer, number)
        return number

    def escape(self, tensor: torch.Tensor) -> None:
        """The tensor may be written to unseen from now on."""
        if _weak is not None and type(tensor) in _PLAIN:
            self._escaped[tensor._cdata] = _weak(tensor)
            self._known.pop(tensor._cdata, None)

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


_PLAIN = (torch.Tensor, torch.nn.Parameter)

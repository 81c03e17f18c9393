"""The arguments of a call, changed tensor by tensor."""

from __future__ import annotations

import collections
from typing import Any, Callable, Iterator, Optional, Sequence

import torch

Tensor = torch.Tensor
Change = Callable[[Tensor], Tensor]

# What a wider dtype is found for; of float8 and the like, kernels take the
# very dtype or nothing.
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)
_WIDE_COMPLEX = {torch.complex64: torch.complex128}

# Unit roundoff.
ROUNDOFF = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11,
            torch.float32: 2.0**-24, torch.float64: 2.0**-53}

_BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16,
         torch.float32: torch.int32, torch.float64: torch.int64}


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Nested containers with every leaf changed; a tensor that occurs twice
    is changed once."""
    return _mapped(value, change, {})


def mapped_call(args: tuple, kwargs: dict,
                change: Callable[[Any], Any]) -> tuple[tuple, dict]:
    """The same of a call's arguments, both together."""
    known: dict[int, Any] = {}
    return (_mapped(args, change, known), _mapped(kwargs, change, known))


def _mapped(value: Any, change: Callable[[Any], Any],
            known: dict[int, Any]) -> Any:
    if isinstance(value, Tensor):
        if id(value) not in known:
            known[id(value)] = change(value)
        return known[id(value)]
    kind = type(value)
    if kind in (list, tuple):
        return kind(_mapped(item, change, known) for item in value)
    if isinstance(value, tuple) and kind is not torch.Size:
        items = [_mapped(item, change, known) for item in value]
        # torch.return_types take a sequence, named tuples their fields.
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    if kind in (dict, collections.OrderedDict):
        return kind((key, _mapped(item, change, known))
                    for key, item in value.items())
    return change(value)


def changed_tensors(change: Change) -> Callable[[Any], Any]:
    """Changes tensors and leaves all else."""
    return lambda leaf: change(leaf) if isinstance(leaf, Tensor) else leaf


def same_layout(like: Tensor, values: Tensor) -> Tensor:
    """The values in memory that is laid out as `like` is, where no two
    elements of it share a place: kernels are chosen by layout."""
    if any(size > 1 and step == 0
           for size, step in zip(like.shape, like.stride())):
        return values
    out = torch.empty_strided(like.shape, like.stride(), dtype=values.dtype,
                              device=values.device)
    return out.copy_(values)


def copied(tensor: Tensor) -> Tensor:
    """In memory of its own, laid out as it is."""
    return same_layout(tensor, tensor.detach().clone())


def share_memory(tensors: Sequence[Tensor]) -> bool:
    """Whether two of them, not being one, have memory in common; views that
    interleave are taken for such."""
    spans = sorted({(t.untyped_storage().data_ptr(), *_span(t), id(t))
                    for t in tensors if t.numel() > 0})
    return any(a[0] == b[0] and b[1] < a[2]
               for a, b in zip(spans, spans[1:]))


def _span(tensor: Tensor) -> tuple[int, int]:
    """The bytes of its storage that it lies in."""
    reach = 1 + sum((size - 1) * step for size, step
                    in zip(tensor.shape, tensor.stride()))
    begin = tensor.storage_offset() * tensor.element_size()
    return begin, begin + reach * tensor.element_size()


class StorageCopies:
    """Copies tensors with what lies beside them: those that share memory
    share that of the copies."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}

    def __call__(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        copy = self._known.setdefault(storage.data_ptr(), None)
        if copy is None:
            copy = self._known[storage.data_ptr()] = storage.clone()
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return made.set_(copy, tensor.storage_offset(), tensor.shape,
                         tensor.stride())


def wide_of(dtype: torch.dtype, wide: torch.dtype) -> torch.dtype:
    """The wide dtype for a narrower one, others as they are."""
    if dtype in FLOATS:
        return wide if ROUNDOFF[dtype] > ROUNDOFF[wide] else dtype
    return _WIDE_COMPLEX.get(dtype, dtype) if wide is torch.float64 else dtype


def widest(tensors: Iterator[Tensor]) -> Optional[torch.dtype]:
    """The float dtype among them that rounds least; None without any."""
    found = {t.dtype for t in tensors if t.dtype in FLOATS}
    return min(found, key=ROUNDOFF.__getitem__, default=None)


def generator(device: torch.device, seed: int) -> torch.Generator:
    """One of our own: the training's are not drawn from."""
    try:
        made = torch.Generator(device=device)
    except (RuntimeError, TypeError):  # a backend that has none
        made = torch.Generator()
    made.manual_seed(seed % 2**63)
    return made


class Sources:
    """A generator for each device, all of one seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._known: dict[torch.device, torch.Generator] = {}

    def of(self, device: torch.device) -> torch.Generator:
        if device not in self._known:
            self._known[device] = generator(device, self._seed)
        return self._known[device]


def _drawn(tensor: Tensor, source: torch.Generator) -> Tensor:
    numbers = torch.rand(tensor.shape, generator=source, device=source.device,
                         dtype=torch.float32)
    return numbers.to(tensor.device)


def noisy(tensor: Tensor, delta: float, source: torch.Generator) -> Tensor:
    """Every element times 1 + d, delta / 2 <= |d| <= delta; zeros stay."""
    numbers = _drawn(tensor, source).double()
    # [0, 1) to [-1, -1/2) and [1/2, 1).
    factor = torch.where(numbers < 0.5, numbers - 1, numbers) * delta + 1
    return same_layout(tensor, (tensor.double() * factor).to(tensor.dtype))


def rounded_otherwise(tensor: Tensor, unit: float,
                      source: torch.Generator) -> Tensor:
    """Every element of a wide tensor moved by one unit roundoff of the dtype
    it had, up or down."""
    factor = torch.where(_drawn(tensor, source) < 0.5, 1 - unit, 1 + unit)
    return (tensor.double() * factor.double()).to(tensor.dtype)


def last_bit_flipped(tensor: Tensor) -> Tensor:
    """The last bit of the mantissa, where the value is a normal number."""
    bits = _BITS[tensor.dtype]
    dense = tensor.detach().clone(memory_format=torch.contiguous_format)
    flipped = (dense.view(bits) ^ 1).view(tensor.dtype)
    normal = (dense.abs() >= torch.finfo(tensor.dtype).tiny) & dense.isfinite()
    return same_layout(tensor, torch.where(normal, flipped, dense))


def exchanged(tensor: Tensor) -> Tensor:
    """First and last slice along dimension 0 change places."""
    order = torch.arange(tensor.shape[0], device=tensor.device)
    order[0], order[-1] = tensor.shape[0] - 1, 0
    return same_layout(tensor, tensor.detach().index_select(0, order))

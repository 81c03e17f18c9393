"""Puts the arguments of a call together from a request."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import torch

from assay.worker.api_call import values
from assay.worker.api_call.precision import Precision
from assay.worker.call import Refused, Unsupported

Tensor = torch.Tensor
# More positions than any call has.
MAX_POSITIONS = 1000
MAX_DEPTH = 32


@dataclasses.dataclass
class Input:
    """A tensor that the call is given."""

    passed: Tensor
    leaf: Optional[Tensor]  # what gets its gradient
    original: Tensor  # its elements, which nothing touches
    version: int
    recorded: torch.dtype  # before it was widened

    def written(self) -> bool:
        """Whether the call wrote to it. Operators of extensions may not
        count what they write, so the bits are looked at as well."""
        return (self.passed._version != self.version
                or not same_bits(self.passed, self.original))


def same_bits(a: Tensor, b: Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return torch.equal(_bits(a), _bits(b))


def _bits(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    # The stride of a single element may be anything.
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def fresh(tensor: Tensor, requires_grad: bool,
          recorded: torch.dtype) -> Input:
    """A copy behind the same strides, which the call may write to: it is no
    leaf of autograd, whatever it requires."""
    leaf = tensor.detach()
    if requires_grad:
        leaf.requires_grad_()
    passed = leaf.clone()  # hands a sparse gradient on as it is
    if passed.stride() != leaf.stride() and 0 not in leaf.stride():
        passed = torch.empty_strided(leaf.size(), leaf.stride(),
                                     dtype=leaf.dtype, device=leaf.device)
        passed.copy_(leaf)
    return Input(passed, leaf if requires_grad else None, tensor,
                 passed._version, recorded)


class Arguments:
    """What a call is called with, in one precision, for one run."""

    def __init__(self, request: dict[str, Any], api: str,
                 inputs: dict[str, Tensor], device: torch.device,
                 precision: Precision, gradients: bool) -> None:
        self.inputs: dict[str, Input] = {}
        self.no_gradient: dict[str, str] = {}
        self._files = inputs
        self._device = device
        self._precision = precision
        self._gradients = gradients
        # An index is a tuple, unless its list is marked.
        self._index = api in ("Tensor.__getitem__", "Tensor.__setitem__")
        self.positional = self._positional(request)
        self.keywords = {key: self._argument(key, argument)
                         for key, argument in request.items()
                         if not key.isdigit()}

    def recorded(self, value: Any) -> Optional[torch.dtype]:
        """The dtype that an argument was recorded in; None of no tensor."""
        return next((each.recorded for each in self.inputs.values()
                     if each.passed is value), None)

    def values(self) -> list[Any]:
        return [*self.positional, *self.keywords.values()]

    def _positional(self, request: dict[str, Any]) -> list[Any]:
        """A position that is left out is an empty container: they have no
        leaves in older traces."""
        given = {int(key): argument for key, argument in request.items()
                 if key.isdigit()}
        if given and max(given) >= MAX_POSITIONS:
            raise Refused(f"argument {max(given)}: expected less than "
                          f"{MAX_POSITIONS} positions")
        found = [self._argument(str(i), given[i]) if i in given else []
                 for i in range(max(given, default=-1) + 1)]
        if self._index and len(found) > 1 and isinstance(found[1], list):
            as_list = isinstance(given.get(1), dict) and given[1].get("list")
            found[1] = (self._list_index(found[1]) if as_list
                        else tuple(found[1]))
        return found

    def _list_index(self, numbers: list[Any]) -> Tensor:
        """A list that stands for a tensor; torch reads nested ones as a
        tuple."""
        try:
            index = torch.tensor(numbers, device=self._device)
        except (TypeError, ValueError) as error:
            raise Refused(f"argument 1: a list of numbers expected: {error}"
                          ) from None
        return index if numbers else index.long()

    def _argument(self, where: str, argument: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH or not isinstance(argument, dict):
            raise Refused(f"argument {where}: expected an object, nested at "
                          f"most {MAX_DEPTH} deep")
        if "tensor" in argument:
            return self._tensor(where, argument)
        if "items" in argument:
            return [self._argument(f"{where}.{i}", each, depth + 1)
                    for i, each in enumerate(argument["items"])]
        if "members" in argument:
            return {key: self._argument(f"{where}.{key}", each, depth + 1)
                    for key, each in argument["members"].items()}
        if "type" not in argument:
            raise Refused(f"argument {where}: expected tensor, items, members "
                          "or type")
        try:
            value = values.read(argument["type"], argument.get("value"))
        except Unsupported as error:
            raise Unsupported(f"argument {where}: {error}") from None
        if isinstance(value, values.Device):
            return self._own_device(where, value)
        if isinstance(value, values.Seed):
            return torch.Generator(self._device).manual_seed(value)
        return self._precision.value(value)

    def _own_device(self, where: str, device: values.Device) -> torch.device:
        kind = device.partition(":")[0]
        if kind == "meta":
            raise Unsupported(f"argument {where}: the device meta has no "
                              "elements")
        return torch.device("cpu") if kind == "cpu" else self._device

    def _tensor(self, where: str, argument: dict[str, Any]) -> Tensor:
        name = argument["tensor"]
        if name in self.inputs:  # the same tensor twice
            return self.inputs[name].passed
        if name not in self._files:
            raise Refused(f"argument {where}: the inputs have no tensor "
                          f"{name}")
        stored = self._files[name]
        if argument.get("dtype") == "complex128":
            stored = torch.complex(stored[..., 0], stored[..., 1])
        try:
            tensor = self._precision.tensor(stored)
        except Unsupported as error:
            raise Unsupported(f"argument {where}: {error}") from None
        wanted = self._gradients and bool(argument.get("requires_grad"))
        able = tensor.is_floating_point() or tensor.is_complex()
        if wanted and not able:
            self.no_gradient[name] = f"{tensor.dtype} has none"
        self.inputs[name] = fresh(tensor, wanted and able, stored.dtype)
        return self.inputs[name].passed

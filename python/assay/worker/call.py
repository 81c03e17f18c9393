"""What a provider's module is given and what it gives back."""

from __future__ import annotations

import dataclasses
import typing

import torch

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in
         (*DTYPES.values(), torch.float8_e4m3fn, torch.float8_e5m2,
          torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.bool)}


class Unsupported(Exception):
    """The provider lacks something that the case asks for."""


class Refused(Exception):
    """The arguments are wrong: what every implementation must refuse."""


@dataclasses.dataclass
class Call:
    """One case. `inputs` are on `device`, strided where the case wants it."""

    module: str
    parameters: dict[str, typing.Any]
    inputs: dict[str, torch.Tensor]
    steps: int
    seed: int
    device: torch.device
    rank: int = 0
    ranks: int = 1  # torch.distributed is initialised where there are more

    def __getattr__(self, name: str) -> typing.Any:
        """`call.bias` is the parameter of that name."""
        try:
            return self.__dict__["parameters"][name]
        except KeyError:
            raise AttributeError(f"{self.module}: no parameter {name}") from None

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.parameters["dtype"]]

    def step_name(self, name: str, step: int) -> str:
        """`name` where there is one step, `name.step<step>` otherwise."""
        return name if self.steps == 1 else f"{name}.step{step}"


@dataclasses.dataclass
class Result:
    outputs: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    contract: dict[str, typing.Any] = dataclasses.field(default_factory=dict)


def state_dict_contract(
        tensors: dict[str, torch.Tensor]) -> dict[str, list[typing.Any]]:
    """contract.state_dict: {name: [dtype, [sizes]]}."""
    return {name: [NAMES[t.dtype], list(t.shape)]
            for name, t in tensors.items()}

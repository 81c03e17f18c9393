"""torch as a training script finds it."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Iterator, Optional

import torch


@dataclasses.dataclass(frozen=True)
class Settings:
    """Switches that decide which kernels run."""

    deterministic: bool
    warn_only: bool
    tf32: bool

    @classmethod
    def now(cls) -> Settings:
        return cls(
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.backends.cuda.matmul.allow_tf32)

    def apply(self) -> None:
        torch.use_deterministic_algorithms(self.deterministic,
                                           warn_only=self.warn_only)
        torch.backends.cuda.matmul.allow_tf32 = self.tf32


# Read before any provider sets its own: what environment variables say too.
TORCH_OWN = Settings.now()


@contextlib.contextmanager
def torch_own(default: Optional[torch.dtype] = None) -> Iterator[None]:
    """torch's own switches; `default`: the dtype of what names none."""
    before = Settings.now()
    dtype = torch.get_default_dtype()
    TORCH_OWN.apply()
    if default is not None:
        torch.set_default_dtype(default)
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        before.apply()

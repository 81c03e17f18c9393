"""Where the numbers of host_random() come from.

Every drawing call takes 63 bits of a CPU generator of torch, which are the key
of its own Philox4x32-10 (assay/kernels/random_fill.h). So the position of the
stream is the state of that generator: whatever saves and restores torch's CPU
state (activation checkpointing, Megatron-Core, Lightning) rewinds it, and
torch.manual_seed() sets it.
"""

from __future__ import annotations

import math

import torch

from assay import _core
from assay.random.checks import BACKENDS

_REAL = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class Stream:
    """Draws for one host_random(); not thread-safe, as torch's modes are of
    one thread."""

    def __init__(self) -> None:
        """Before the CPU's generator is seeded for the stream."""
        self._first_cpu_seed = torch.default_generator.initial_seed()
        self._first_seeds = _device_seeds()

    def call(self, generator: torch.Generator | None,
             device: torch.device) -> Draw:
        """The numbers of one drawing call."""
        key = torch.empty((), dtype=torch.int64, device="cpu").random_(
            generator=generator)
        stream = 0 if generator is not None else self._stream(device)
        return Draw(key.item(), stream)

    def _stream(self, device: torch.device) -> int:
        """0, or the seed that a tracker of random states has given the device.

        Megatron's tracker switches a device to states of other seeds, so that
        ranks draw different numbers; those must differ here too. A device
        whose seed is the one that it had at first, or a seed of the CPU's, is
        under no tracker: 0, as it is on the CPU. (torch.manual_seed() sets
        both, and unseeded ones are alike.)
        """
        seed = device_seed(device)
        plain = (None, self._first_cpu_seed, self._first_seeds.get(device),
                 torch.default_generator.initial_seed())
        return 0 if seed in plain else seed % 2**64


def _device_seeds() -> dict[torch.device, int]:
    """Of the devices that have started; a device starts at its first use."""
    return {torch.device(name, i): generator.initial_seed()
            for name in BACKENDS
            for i, generator in enumerate(getattr(
                getattr(torch, name, None), "default_generators", ()))}


def device_seed(device: torch.device) -> int | None:
    """The seed of a device's own generator; None where it has none."""
    if device.type == "cpu":
        return None
    module = getattr(torch, device.type, None)
    generators = getattr(module, "default_generators", ())
    index = device.index
    if index is None and hasattr(module, "current_device"):
        index = module.current_device()
    if index is None or not 0 <= index < len(generators):
        return None
    return generators[index].initial_seed()


class Draw:
    """The numbers of one call: of element i always the same."""

    def __init__(self, key: int, stream: int) -> None:
        self._key = (key, stream)

    def fill(self, target: torch.Tensor, law: str, a: float,
             b: float = 0.0) -> torch.Tensor:
        """Numbers of a law of reals (random_fill.h) into `target`."""
        if target.is_complex():
            return self._fill_complex(target, law, a, b)
        if target.dtype in _REAL:
            host = target if _is_host_array(target) else torch.empty(
                target.shape, dtype=target.dtype, device="cpu")
        else:  # integers: what geometric_() has
            host = torch.empty(target.shape, dtype=torch.float64, device="cpu")
        _core.random_fill(host.detach(), *self._key, law, a, b)
        return _arrived(host, target)

    def _fill_complex(self, target: torch.Tensor, law: str, a: float,
                      b: float) -> torch.Tensor:
        # As torch: half the variance in each part, the mean in the real one.
        host = torch.empty(target.shape, dtype=target.dtype, device="cpu")
        parts = torch.view_as_real(host)
        normal = law == "normal"
        _core.random_fill(parts, *self._key, law, 0.0 if normal else a,
                          b / math.sqrt(2) if normal else b)
        return _arrived(host.add_(a) if normal else host, target)

    def reals(self, shape: torch.Size, law: str, a: float,
              b: float) -> torch.Tensor:
        return self.fill(torch.empty(shape, dtype=torch.float64, device="cpu"),
                         law, a, b)

    def coins(self, p: float | torch.Tensor,
              shape: torch.Size) -> torch.Tensor:
        """1 with the probability `p`, else 0: uint8 on the host."""
        host = torch.empty(shape, dtype=torch.uint8, device="cpu")
        if isinstance(p, torch.Tensor):
            each = p.detach().to("cpu", torch.float64).expand(shape)
            _core.random_bernoulli_each(host, *self._key, each.contiguous())
        else:
            _core.random_bernoulli(host, *self._key, p)
        return host

    def integers(self, shape: torch.Size, low: int,
                 high: int) -> torch.Tensor:
        """int64 of [low, high) on the host."""
        host = torch.empty(shape, dtype=torch.int64, device="cpu")
        _core.random_integers(host, *self._key, low, (high - low) % 2**64)
        return host

    def permutation(self, n: int) -> torch.Tensor:
        host = torch.empty(n, dtype=torch.int64, device="cpu")
        _core.random_permutation(host, *self._key)
        return host

    def choice(self, weights: torch.Tensor, samples: int,
               replacement: bool) -> torch.Tensor:
        """Indices by weight for each row of a matrix, int64 on the host."""
        rows = weights.detach().to("cpu", torch.float64).contiguous()
        host = torch.empty((rows.shape[0], samples), dtype=torch.int64,
                           device="cpu")
        _core.random_choice(host, *self._key, rows, replacement)
        return host


def _is_host_array(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.is_contiguous()


def _arrived(host: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if host is not target:
        target.copy_(host)
    return target

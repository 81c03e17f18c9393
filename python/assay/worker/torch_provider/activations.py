"""The activations of NVTE's MLPs in fp32, forward and backward: gelu is the
tanh form everywhere (trap T12), gates are the first half of a row."""

from __future__ import annotations

import typing

import torch

# act(x) and act'(x) of the plain ones.
Pair = typing.Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def gelu(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    inner = 0.79788456 * x * (1 + 0.044715 * x * x)
    t = torch.tanh(inner)
    slope = 0.79788456 + 0.1070322243 * x * x
    return (x * (0.5 + 0.5 * t),
            0.5 * x * (1 - t * t) * slope + 0.5 * (1 + t))


def logistic_times(x: torch.Tensor, alpha: float,
                   ) -> tuple[torch.Tensor, torch.Tensor]:
    """x sigma(alpha x): silu with 1, qgelu with 1.702."""
    s = torch.sigmoid(alpha * x)
    return x * s, s + alpha * x * s * (1 - s)


def relu(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    positive = (x > 0).float()
    return torch.where(x > 0, x, torch.zeros_like(x)), positive


def srelu(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    kept, positive = relu(x)
    return kept * kept, 2 * kept * positive


def logistic(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    s = torch.sigmoid(x)
    return s, s * (1 - s)


PLAIN: dict[str, Pair] = {
    "gelu": gelu,
    "silu": lambda x: logistic_times(x, 1.0),
    "qgelu": lambda x: logistic_times(x, 1.702),
    "relu": relu,
    "srelu": srelu,
}
GATED: dict[str, Pair] = {
    "glu": logistic,
    "geglu": gelu,
    "swiglu": PLAIN["silu"],
    "qgeglu": PLAIN["qgelu"],
    "reglu": relu,
    "sreglu": srelu,
}
LIMIT, ALPHA, OFFSET = 7.0, 1.702, 1.0  # of clamped_swiglu


def is_gated(name: str) -> bool:
    return name in GATED or name == "clamped_swiglu"


def forward(name: str, x: torch.Tensor) -> torch.Tensor:
    x = x.float()
    if name in PLAIN:
        return PLAIN[name](x)[0]
    gate, linear = x.chunk(2, -1)
    if name == "clamped_swiglu":
        gate = gate.clamp(max=LIMIT)
        linear = linear.clamp(-LIMIT, LIMIT) + OFFSET
        return logistic_times(gate, ALPHA)[0] * linear
    return GATED[name](gate)[0] * linear


def backward(name: str, dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """dy act'(x), of x's shape."""
    x, dy = x.float(), dy.float()
    if name in PLAIN:
        return dy * PLAIN[name](x)[1]
    gate, linear = x.chunk(2, -1)
    if name == "clamped_swiglu":
        return _clamped_backward(dy, gate, linear)
    value, slope = GATED[name](gate)
    return torch.cat((dy * slope * linear, dy * value), -1)


def _clamped_backward(dy: torch.Tensor, gate: torch.Tensor,
                      linear: torch.Tensor) -> torch.Tensor:
    """The gate is clamped from above alone (trap T13)."""
    inside = ((linear >= -LIMIT) & (linear <= LIMIT)).float()
    value, slope = logistic_times(gate.clamp(max=LIMIT), ALPHA)
    below = (gate <= LIMIT).float()
    clamped = linear.clamp(-LIMIT, LIMIT) + OFFSET
    return torch.cat((dy * slope * clamped * below, dy * value * inside), -1)

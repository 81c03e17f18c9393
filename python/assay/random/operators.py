"""Random operators of aten, drawn from a Stream.

Below autograd and below what composite operators do, random numbers of torch
come from few operators. Each is two parts: the tensor that it fills, and the
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict

import torch

from assay.random.schema import bound, operator_name
from assay.random.stream import Draw, Stream

Values = Dict[str, Any]


class HostRandomError(RuntimeError):
    """A draw that host_random() cannot make the same on every device."""


@dataclass
class Call:
    """One call of an operator."""

    func: Any
    values: Values
    stream: Stream
    args: tuple = ()
    kwargs: Values = field(default_factory=dict)

    @property
    def name(self) -> str:
        return operator_name(self.func).split("::")[1]

    def by_torch(self) -> Any:
        """Of a call that draws nothing."""
        return self.func(*self.args, **self.kwargs)

    def draw(self, device: torch.device) -> Draw:
        generator = self.values.get("generator")
        if generator is not None and generator.device.type != "cpu":
            raise HostRandomError(
                f"host_random: {self.name} with a generator of "
                f"{generator.device}, expected one of the CPU "
                "(torch.Generator()), which serves every device here")
        return self.stream.call(generator, device)


def handler(func: Any) -> Callable[[Call], Any] | None:
    """What draws for an OpOverload; None for one that is not known here."""
    namespace, name = operator_name(func).split("::")
    if namespace != "aten":
        return None
    if name in _WHOLE:
        return _WHOLE[name]
    if name == "normal" and func._schema.overload_name.startswith(
            ("Tensor_", "float_Tensor")):
        return _normal_of_tensors
    base = name[:-1] if name.endswith("_") else name
    base = base[:-5] if base.endswith("_like") else base
    fill = _FILLS.get(base)
    if fill is None:
        return None

    def run(call: Call) -> torch.Tensor:
        target = _target(call)
        if has_no_numbers(target):
            return target
        return fill(call, target)
    return run


def has_no_numbers(tensor: torch.Tensor) -> bool:
    """Of tensors that stand for a shape: nothing is drawn for those."""
    return tensor.is_meta or type(tensor).__name__ == "FakeTensor"


def called(func: Any, args: tuple, kwargs: dict, stream: Stream) -> Call:
    return Call(func, bound(func, args, kwargs), stream, args, kwargs)


# The tensor that a call fills ----------------------------------------------


def _target(call: Call) -> torch.Tensor:
    values = call.values
    if values.get("names") is not None:
        raise HostRandomError(f"host_random: {call.name} of a named tensor, "
                              "expected one without names")
    size = _size(call)
    if "out" in values:
        out = values["out"]
        return out if out.shape == torch.Size(size) else out.resize_(size)
    if call.name.endswith("_"):
        return values["self"]
    options = {name: values[name] for name in
               ("dtype", "layout", "device", "pin_memory", "memory_format")
               if values.get(name) is not None}
    if not isinstance(options.get("dtype", torch.int64), torch.dtype):
        options["dtype"] = torch.int64  # the schema's default, a number
    if options.get("layout", torch.strided) is not torch.strided:
        raise HostRandomError(f"host_random: {call.name} of layout "
                              f"{options['layout']}, expected torch.strided")
    if "self" in values:
        return torch.empty_like(values["self"], **options)
    if call.name in ("randint", "randperm"):
        options.setdefault("dtype", torch.int64)
    return torch.empty(size, **options)


def _size(call: Call) -> Any:
    if call.name == "randperm":
        return (call.values["n"],)
    if "size" in call.values:
        return call.values["size"]
    return call.values["self"].shape


# The numbers ----------------------------------------------------------------


def _law(law: str, a: str | float, b: str | float = 0.0) -> Callable:
    """A law of reals with parameters by the names of their arguments."""

    def fill(call: Call, target: torch.Tensor) -> torch.Tensor:
        _refuse_dtype(call, target, integers=law == "geometric")
        first, second = (call.values[p] if isinstance(p, str) else p
                         for p in (a, b))
        return call.draw(target.device).fill(target, law, first, second)
    return fill


def _refuse_dtype(call: Call, target: torch.Tensor, integers: bool) -> None:
    dtype = target.dtype
    floating = dtype.is_floating_point and dtype.itemsize >= 2
    complex_ = dtype.is_complex and call.name.rstrip("_") in (
        "rand", "randn", "normal", "uniform", "rand_like", "randn_like",
        "normal_functional")
    integer = not dtype.is_floating_point and not dtype.is_complex
    if not (floating or complex_ or integers and integer):
        raise HostRandomError(f"host_random: {call.name} of dtype {dtype}")


def _limits(dtype: torch.dtype) -> tuple[int, int]:
    """The least and the most integer up to which all are exact."""
    if dtype is torch.bool:
        return 0, 1
    if dtype.is_floating_point:
        most = round(2 / torch.finfo(dtype).eps)
        return -most, most
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def _integers(call: Call, target: torch.Tensor, low: int,
              high: int) -> torch.Tensor:
    least, most = _limits(target.dtype)
    if not least <= low < high <= most + 1:
        raise RuntimeError(
            f"host_random: {call.name} from {low} to {high} in "
            f"{target.dtype}, expected from < to within {least} to {most + 1}")
    draw = call.draw(target.device)
    return target.copy_(draw.integers(target.shape, low, high))


def _randint(call: Call, target: torch.Tensor) -> torch.Tensor:
    return _integers(call, target, int(call.values.get("low", 0)),
                     int(call.values["high"]))


def _random(call: Call, target: torch.Tensor) -> torch.Tensor:
    least, most = _limits(target.dtype)
    del least  # random_() gives none below 0
    low = call.values.get("from", 0)
    high = call.values.get("to")
    return _integers(call, target, low, most + 1 if high is None else high)


def _randperm(call: Call, target: torch.Tensor) -> torch.Tensor:
    n = call.values["n"]
    if n > _limits(target.dtype)[1] + 1:
        raise RuntimeError(f"host_random: randperm of {n} in {target.dtype}")
    return target.copy_(call.draw(target.device).permutation(n))


def _bernoulli(call: Call, target: torch.Tensor) -> torch.Tensor:
    p = call.values.get("p", call.values["self"])
    return target.copy_(call.draw(target.device).coins(p, target.shape))


_FILLS: dict[str, Callable[[Call, torch.Tensor], torch.Tensor]] = {
    "rand": _law("uniform", 0.0, 1.0),
    "randn": _law("normal", 0.0, 1.0),
    "uniform": _law("uniform", "from", "to"),
    "normal": _law("normal", "mean", "std"),
    "normal_functional": _law("normal", "mean", "std"),
    "exponential": _law("exponential", "lambd"),
    "cauchy": _law("cauchy", "median", "sigma"),
    "log_normal": _law("log_normal", "mean", "std"),
    "geometric": _law("geometric", "p"),
    "randint": _randint,
    "random": _random,
    "randperm": _randperm,
    "bernoulli": _bernoulli,
}


# Operators that are more than a filled tensor -------------------------------


def _normal_of_tensors(call: Call) -> torch.Tensor:
    mean, std = call.values["mean"], call.values["std"]
    like = mean if isinstance(mean, torch.Tensor) else std
    if like.is_complex():
        raise HostRandomError(f"host_random: normal of dtype {like.dtype}")
    shape = torch.broadcast_shapes(*(
        part.shape for part in (mean, std) if isinstance(part, torch.Tensor)))
    out = call.values.get("out")
    if out is None:
        out = torch.empty(shape, dtype=like.dtype, device=like.device)
    elif out.shape != shape:
        out.resize_(shape)
    if has_no_numbers(out):
        return out
    mean, std = (part.detach().to("cpu", torch.float64)
                 if isinstance(part, torch.Tensor) else part
                 for part in (mean, std))
    if (std < 0).any() if isinstance(std, torch.Tensor) else std < 0:
        raise RuntimeError("host_random: normal with std below 0")
    value = call.draw(out.device).reals(shape, "normal", 0.0, 1.0)
    value = value.mul_(std).add_(mean)
    # As every draw: to 16 bits by way of float32.
    return out.copy_(value if out.dtype is torch.float64 else value.float())


def _multinomial(call: Call) -> torch.Tensor:
    weights, samples = call.values["self"], call.values["num_samples"]
    if has_no_numbers(weights):
        return call.by_torch()
    rows = weights if weights.dim() == 2 else weights.unsqueeze(0)
    if rows.dim() != 2 or rows.shape[1] == 0 or samples <= 0:
        raise RuntimeError(
            f"host_random: multinomial of {samples} samples of weights of "
            f"shape {tuple(weights.shape)}, expected one or more of a vector "
            "or a matrix")
    chosen = call.draw(weights.device).choice(rows, samples,
                                              call.values["replacement"])
    chosen = chosen if weights.dim() == 2 else chosen.squeeze(0)
    out = call.values.get("out")
    if out is None:
        return chosen.to(weights.device)
    return out.resize_(chosen.shape).copy_(chosen)


def _native_dropout(call: Call) -> tuple[torch.Tensor, torch.Tensor]:
    x, p = call.values["input"], call.values["p"]
    if call.values["train"] is False or has_no_numbers(x) or x.numel() == 0:
        return call.by_torch()
    mask = torch.empty_like(x, dtype=torch.bool)
    mask.copy_(call.draw(x.device).coins(1 - p, x.shape))
    out = x.mul(mask).mul_(0 if p == 1 else 1 / (1 - p))
    if "out0" not in call.values:
        return out, mask
    outs = call.values["out0"], call.values["out1"]
    for kept, value in zip(outs, (out, mask)):
        kept.resize_(value.shape).copy_(value)
    return outs


def _rrelu(call: Call) -> torch.Tensor:
    values = call.values
    x = values["self"]
    if not values["training"] or has_no_numbers(x):
        return call.by_torch()
    slopes = call.draw(x.device).fill(
        torch.empty_like(x), "uniform", float(values["lower"]),
        float(values["upper"]))
    one = torch.ones((), dtype=x.dtype, device=x.device)
    noise = values["noise"].copy_(torch.where(x <= 0, slopes, one))
    if call.name.endswith("_"):
        return x.mul_(noise)
    if "out" in values:
        return torch.mul(x, noise, out=values["out"])
    return x * noise


_WHOLE: dict[str, Callable[[Call], Any]] = {
    "multinomial": _multinomial,
    "native_dropout": _native_dropout,
    "rrelu_with_noise": _rrelu,
    "rrelu_with_noise_": _rrelu,
}

"""The figures of one watched step, from its forward to its line."""

from __future__ import annotations

import time
from typing import Any

import torch

from assay.capture.modules import Models, named_modules
from assay.watch import fp8
from assay.watch.names import group_of
from assay.watch.reductions import Numbers, Reductions, joined


class StepFigures:
    """Filled while the step runs; after() is its end."""

    def __init__(self) -> None:
        self.user: dict[str, Any] = {}  # what the user logs
        self.waited = 0.0  # seconds, for the device
        self._reductions = Reductions()
        self._losses = 0
        self._outputs: list[str] = []
        self._parameters: Any = []
        self._before: list[torch.Tensor] = []

    def activation(self, name: str, output: Any) -> None:
        """The first call of a step counts: recomputation makes further."""
        tensor = _first_tensor(output)
        if tensor is None or name in self._outputs:
            return
        self._outputs.append(name)
        self._reductions.add(("output", name), tensor, whole=True)

    def loss(self, roots: list[torch.Tensor]) -> None:
        """The gradient is that of the sum of all scalars of the step."""
        for root in roots:
            if root.numel() == 1:
                self._reductions.scalar(("loss", self._losses),
                                        root.detach().clone())
                self._losses += 1

    def before(self, parameters: Any, updates: bool) -> None:
        """Right before the optimizer's step: gradients as it takes them."""
        self._parameters = parameters
        for name, parameter in parameters:
            gradient = parameter.grad
            if gradient is None:  # Megatron's, in fp32
                gradient = getattr(parameter, "main_grad", None)
            if gradient is not None:
                self._reductions.add(("gradient", name), gradient)
            self._reductions.add(("parameter", name), parameter)
            if updates:
                self._before.append(parameter.detach().clone())

    def after(self, model: Models, scale: float) -> dict[str, Any]:
        """Right behind it: every number, as members of the line."""
        for (name, parameter), old in zip(self._parameters, self._before):
            change = torch.sub(parameter.detach().float(), old.float())
            self._reductions.add(("update", name), change)
        self._before.clear()
        scales = self._scales(model)
        for name, value in self.user.items():
            self._reductions.scalar(("user", name), value)
        start = time.perf_counter()
        numbers = self._reductions.results()
        self.waited = time.perf_counter() - start
        return {**self._loss(numbers, scale), **self._norms(numbers),
                **self._nonfinite(numbers), **self._modules(numbers),
                **self._activations(numbers), **_fp8(scales, numbers),
                **{name: _plain(numbers["user", name].norm)
                   for name in self.user}}

    def _scales(self, model: Models) -> list[tuple[str, str]]:
        found = []
        for name, module in named_modules(model):
            for figure, value in fp8.figures(module):
                self._reductions.scalar(("fp8", name, figure), value)
                found.append((name, figure))
        return found

    def _loss(self, numbers: Any, scale: float) -> dict[str, Any]:
        if self._losses == 0:
            return {}
        total = sum(numbers["loss", i].norm for i in range(self._losses))
        found: dict[str, Any] = {"loss": total / scale}
        if self._losses > 1:
            found["backwards"] = self._losses
        return found

    def _of(self, numbers: Any, kind: str, names: Any) -> list[float]:
        return [numbers[kind, name].norm for name in names
                if (kind, name) in numbers]

    def _norms(self, numbers: Any, names: Any = None) -> dict[str, float]:
        if names is None:
            names = [name for name, _ in self._parameters]
        found = {}
        for kind, member in (("gradient", "grad_norm"),
                             ("parameter", "param_norm"),
                             ("update", "update_norm")):
            norms = self._of(numbers, kind, names)
            if norms:
                found[member] = joined(norms)
        if found.get("param_norm") and "update_norm" in found:
            found["update_ratio"] = found["update_norm"] / found["param_norm"]
        return found

    def _nonfinite(self, numbers: Any) -> dict[str, Any]:
        """Counts, and of each kind where it began: outputs and parameters in
        the model's order, gradients against it, as backward goes."""
        names = [name for name, _ in self._parameters]
        orders = {"output": self._outputs, "gradient": names[::-1],
                  "parameter": names}
        found: dict[str, Any] = {}
        for kind, order in orders.items():
            bad = [(name, numbers[kind, name].nonfinite) for name in order
                   if (kind, name) in numbers
                   and numbers[kind, name].nonfinite]
            if bad:
                found[kind + "s"] = sum(count for _, count in bad)
                found["first_" + kind] = bad[0][0]
        return {"nonfinite": found} if found else {}

    def _modules(self, numbers: Any) -> dict[str, Any]:
        groups: dict[str, list[str]] = {}
        for name, _ in self._parameters:
            groups.setdefault(group_of(name), []).append(name)
        return {"modules": {group: self._norms(numbers, names)
                            for group, names in groups.items()}}

    def _activations(self, numbers: Any) -> dict[str, Any]:
        if not self._outputs:
            return {}
        return {"activations": {name: _summary(numbers["output", name])
                                for name in self._outputs}}


def _summary(n: Numbers) -> dict[str, Any]:
    found: dict[str, Any] = {"norm": n.norm, "min": n.min, "max": n.max,
                             "mean": n.mean}
    if n.nonfinite:
        found.update(nan=n.nan, inf=n.inf)
    return found


def _fp8(scales: list[tuple[str, str]], numbers: Any) -> dict[str, Any]:
    found: dict[str, dict[str, float]] = {}
    for name, figure in scales:
        found.setdefault(name, {})[figure] = numbers["fp8", name, figure].norm
    return {"fp8": found} if found else {}


def _plain(value: float) -> Any:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _first_tensor(value: Any) -> torch.Tensor | None:
    """Of a tensor, or what tuples, lists and mappings hold of them."""
    if isinstance(value, torch.Tensor):
        return value if value.is_floating_point() else None
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return None
    for item in value:
        found = _first_tensor(item)
        if found is not None:
            return found
    return None

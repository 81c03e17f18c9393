"""What each mode runs again, and what it hands to the C++ judgement."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch

from assay import _core
from assay.capture.leaves import arguments, tensors_in
from assay.fuzz import values
from assay.fuzz.trial import Leaves, NotPossible, Trial, name_of
from assay.tensors import host_view

Tensor = torch.Tensor

# Relative noise in roundoffs of the input's dtype: enough that a right
# operator's output moves by several of its ulps.
NOISE = {torch.float16: 8.0, torch.bfloat16: 8.0, torch.float32: 64.0,
         torch.float64: 64.0}


class Judged:
    """Probes of one call's outputs, by their paths."""

    def __init__(self, rows: _core.Perturbations, op: str, trial: Trial,
                 leaves: Leaves) -> None:
        self.rows, self.op, self.trial, self.leaves = rows, op, trial, leaves
        self.probes: dict[str, Any] = {}

    def probe(self, path: str) -> Any:
        made = self.rows.probe(self.op, f"{self.op}.{path}",
                               name_of(self.trial.wide))
        self.probes[path] = made
        return made

    def pairs(self, others: Leaves) -> Any:
        """(probe, path, the training's output, the other run's)."""
        for path, tensor in self.leaves.items():
            probe = self.probe(path)
            other = others.get(path)
            if other is None:
                probe.incomplete("unmatched",
                                 "the other run gives no such output")
            else:
                yield probe, path, tensor, other


def host(tensor: Tensor) -> tuple:
    return host_view(tensor.detach())


def _as_double(tensor: Tensor) -> tuple:
    return host(tensor.detach().double().contiguous())


def _as_integers(tensor: Tensor) -> tuple:
    return host(tensor.detach().to(torch.int64).contiguous())


def repeat(judged: Judged) -> None:
    trial = judged.trial
    again = trial.run()
    if not trial.writes and _are_views(judged.leaves, again):
        raise NotPossible("a view: nothing is computed")
    for probe, _, tensor, other in judged.pairs(again):
        probe.repeated(host(tensor), host(other))


def _are_views(first: Leaves, second: Leaves) -> bool:
    """Both runs gave the same memory."""
    return bool(first) and first.keys() == second.keys() and all(
        a.data_ptr() == b.data_ptr() and a.shape == b.shape
        and a.stride() == b.stride() and a.numel() > 0
        for a, b in zip(first.values(), second.values()))


def improve_precision(judged: Judged) -> None:
    trial = judged.trial
    _refuse(trial)
    trial.demand_wider()
    base = trial.run_wide()
    spread = _Lazy(trial.spread)
    for probe, path, tensor, wide in judged.pairs(base):
        golden = _in_dtype_of(tensor, wide)
        if not probe.against(host(golden), host(tensor)):
            excuse(probe, path, golden, tensor, lambda: base, trial, spread)


def to_cpu(judged: Judged) -> None:
    trial = judged.trial
    if all(t.device.type == "cpu" for t in trial.tensors):
        repeat(judged)
        for probe in judged.probes.values():
            probe.note("to_cpu", "on the CPU already: the call again")
        return
    _refuse(trial)
    on_cpu = HostTrial(trial)
    wide = _Lazy(on_cpu.run_wide)
    spread = _Lazy(on_cpu.spread)
    for probe, path, tensor, other in judged.pairs(on_cpu.run()):
        if not probe.against(host(other), host(tensor)):
            excuse(probe, path, other, tensor.cpu(), wide, on_cpu, spread)


class HostTrial(Trial):
    """The same call on the host."""

    def __init__(self, trial: Trial) -> None:
        self.__dict__.update(trial.__dict__)
        self.args, self.kwargs = values.mapped_call(
            trial.args, trial.kwargs, to_host)
        self.inputs = [t for _, t in tensors_in(
            arguments(self.args, self.kwargs))]
        kinds = {t.device.type for t in trial.tensors} - {"cpu"}
        self.regions = type(trial.regions)()
        self.regions.on = {"cpu": dtype for kind, dtype
                           in trial.regions.on.items() if kind in kinds}


def on_host(trial: Trial, args: tuple, kwargs: dict) -> Any:
    """The call of the training's own tensors on the host, in its graph."""
    host_trial = HostTrial(trial)
    args, kwargs = values.mapped_call(args, kwargs, to_host)
    return host_trial.call(args, kwargs)


def to_host(leaf: Any) -> Any:
    """A tensor, or the name of a device, on the host."""
    if isinstance(leaf, Tensor):
        return leaf.to("cpu")
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf


def add_noise(judged: Judged, factor: Optional[float], seed: int) -> None:
    trial = judged.trial
    deltas = {dtype: values.ROUNDOFF[dtype] * (factor or NOISE[dtype])
              for dtype in values.FLOATS}

    def noise() -> values.Change:
        sources = values.Sources(seed)

        def change(tensor: Tensor) -> Tensor:
            if tensor.dtype not in deltas:
                return tensor
            return values.noisy(tensor.detach(), deltas[tensor.dtype],
                                sources.of(tensor.device))

        return change

    _moved(judged, noise, deltas)


def bit_noise(judged: Judged) -> None:
    def change(tensor: Tensor) -> Tensor:
        return (values.last_bit_flipped(tensor)
                if tensor.dtype in values.FLOATS else tensor)

    # A last bit is between one and two roundoffs of the value.
    _moved(judged, lambda: change,
           {dtype: 2 * unit for dtype, unit in values.ROUNDOFF.items()})


def _moved(judged: Judged, change: Callable[[], values.Change],
           deltas: dict[torch.dtype, float]) -> None:
    """change: makes the same perturbation each time that it is asked;
    deltas: how far it moves values of a dtype at most."""
    trial = judged.trial
    delta = max((deltas[t.dtype] for t in trial.tensors
                 if t.dtype in deltas and t.numel() > 0), default=0.0)
    if delta == 0:
        raise NotPossible("no floating-point input to perturb")
    _refuse(trial)
    perturbed = trial.run(change())
    base = _Lazy(trial.run_wide)
    wide = _Lazy(lambda: trial.run_wide(change()))
    spread = _Lazy(trial.spread)
    for probe, path, tensor, other in judged.pairs(perturbed):
        if probe.moved(host(tensor), host(other), delta):
            continue
        try:
            trial.demand_wider()
            _answer(trial, probe, path, tensor, other, base, wide()[path],
                    spread)
        except NotPossible as error:
            probe.incomplete("no_wide_run", "it moves otherwise than its "
                             f"inputs do, or not at all, and {error}")


def _answer(trial: Trial, probe: Any, path: str, tensor: Tensor,
            other: Tensor, base: "_Lazy", wide: Tensor,
            spread: "_Lazy") -> None:
    """A movement beside that of the wide call."""
    if not tensor.is_floating_point():
        expected = _in_dtype_of(other, wide)
        if not probe.against(host(expected), host(other)):
            excuse(probe, path, expected, other, base, trial, spread)
    elif not probe.answered(
            _as_double(tensor), _as_double(other), _as_double(base()[path]),
            _as_double(wide), host(other)):
        excuse(probe, path, wide, other, base, trial, spread)


def swap(judged: Judged) -> None:
    trial = judged.trial
    _refuse(trial)
    trial.wide = torch.float64
    trial.demand_wider()
    first = next((t for t in trial.inputs if t.is_floating_point()
                  and t.dim() > 0 and t.shape[0] > 1), None)
    if first is None:
        raise NotPossible("no floating-point input of two slices or more")
    base = trial.run_wide()
    for which in _choices(trial, first):
        change = _exchange_of(which)
        if all(torch.equal(t, change(t)) for t in trial.inputs
               if id(t) in which):
            raise NotPossible("its first and last slices are equal")
        wide = trial.run_wide(change)
        laws = _laws(judged, first.shape[0], base, wide)
        if laws is not None:
            _hold_to(judged, laws, change, lambda: base)
            return
    raise NotPossible("float64 does not obey the law of exchanged slices")


def _choices(trial: Trial, first: Tensor) -> list[set[int]]:
    """Which inputs are exchanged: the first, or all that have its slices."""
    alone = {id(first)}
    alike = {id(t) for t in trial.inputs
             if t.dim() > 0 and t.shape[0] == first.shape[0]}
    return [alone] if alike == alone else [alone, alike]


def _exchange_of(which: set[int]) -> values.Change:
    return lambda tensor: (values.exchanged(tensor) if id(tensor) in which
                           else tensor)


def _laws(judged: Judged, slices: int, base: Leaves,
          wide: Leaves) -> Optional[dict[str, Any]]:
    """The law of each output; None where one obeys none."""
    laws = {}
    for path in judged.leaves:
        if path not in base or path not in wide:
            return None
        one = base[path]
        has = one.dim() > 0 and one.shape[0] == slices
        law = judged.rows.law(
            judged.op, host(one), host(values.exchanged(one)) if has else None,
            host(wide[path]))
        if law == _core.Law.none:
            return None
        laws[path] = law
    return laws


def _hold_to(judged: Judged, laws: dict[str, Any], change: values.Change,
             base: Callable[[], Leaves]) -> None:
    spread = _Lazy(judged.trial.spread)
    for probe, path, tensor, found in judged.pairs(judged.trial.run(change)):
        expected = (tensor if laws[path] == _core.Law.stays
                    else values.exchanged(tensor))
        if not probe.exchanged(laws[path], host(expected), host(found)):
            excuse(probe, path, expected, found, base, judged.trial,
                   spread)


class _Lazy:
    """What is computed when it is first asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._made = make, None

    def __call__(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made


def excuse(probe: Any, path: str, golden: Tensor, target: Tensor,
           base: Callable[[], Leaves], trial: Trial,
           spread: Callable[[], list[Leaves]]) -> None:
    """A difference that the rounding of the inputs may explain."""
    if target.dtype is torch.bool and trial.moves:
        return  # a comparison of the very values that it is given
    try:
        wide = base()[path]
        runs = [run[path] for run in (
            spread() if target.is_floating_point() else trial.decisions())]
    except NotPossible as error:
        probe.note("conditioning", f"its conditioning is not known: {error}")
        return
    if target.is_floating_point():
        probe.explain(_as_double(wide), [_as_double(run) for run in runs])
    elif not target.is_complex():
        probe.decide(*map(_as_integers, (golden, target, wide)),
                     list(map(_as_integers, runs)))


def _in_dtype_of(tensor: Tensor, wide: Tensor) -> Tensor:
    """The wide output rounded to the dtype of the training's."""
    if wide.dtype == tensor.dtype or not (
            wide.is_floating_point() or wide.is_complex()):
        return wide
    return wide.to(tensor.dtype)


def _refuse(trial: Trial) -> None:
    """Another dtype or device draws other numbers, and noise in a
    probability decides otherwise."""
    trial.demand_apart()
    if trial.drew:
        raise NotPossible("it draws random numbers: mode 'repeat' checks it")

"""assay.Fuzz, from the user's side: start, step, stop, report."""

from __future__ import annotations

import collections
import contextlib
import fnmatch
import functools
import itertools
import os
import threading
import zlib
from typing import Any, Callable, Optional, Sequence, Union

import torch

from assay import _core
from assay.capture import guards, mode_stack
from assay.capture.gradients import input_edges
from assay.capture.guards import Guard
from assay.capture.leaves import arguments, tensors_in
from assay.capture.modules import Models
from assay.capture.passes import Passes
from assay.capture.ranks import rank
from assay.fuzz import modes, names, values
from assay.fuzz.backward import BackwardCall
from assay.fuzz.casts import Casts
from assay.fuzz.options import check_options
from assay.fuzz.trial import NotPossible, Trial, why_not_plain
from assay.fuzz.watcher import FuzzMode, ModulePath
from assay.results import Comparison, read

Tensor = torch.Tensor
Path = Union[str, "os.PathLike[str]"]

_TORCH = ("Functional", "Torch", "Tensor", "Aten", "NPU")
_transforms = getattr(torch._C, "_are_functorch_transforms_active",
                      lambda: False)


class Fuzz(contextlib.ContextDecorator):
    """Runs each call of torch again with a perturbation and judges how its
    outputs answer to it.

        check = assay.Fuzz(model, mode="repeat")
        for batch in loader:
            with check:
                ... forward, backward, optimizer ...
            check.step()
        print(check.report)

    The training computes the same bits as without it (but with `fix`), draws
    the same random numbers and builds the same graph.

    model: a module or a list of them, whose paths are told with the calls;
    without one the calls are seen all the same.
    mode: "repeat", "improve_precision", "add_noise", "bit_noise", "swap" or
    "to_cpu": docs/fuzz.md.
    stage: "forward", or "backward" with "repeat" or "improve_precision".
    only: globs over names of calls ("Functional.linear.*") and of modules
    ("*layers.3*").
    sample, every: which share of the calls is looked at, 0.1, or every=10; by
    their name, step and `seed`, so that each run looks at the same ones.
    fix: with "improve_precision" or "to_cpu", puts the other run's output in
    the place of one that is found unsteady; "all": of every one.
    wide: "float32" or "float64", for what is narrower; by default float64
    where float32 takes part, else float32.
    noise: of "add_noise", in roundoffs of the input's dtype.
    standard: the precision standard whose bounds count.
    """

    def __init__(self, model: Models = None, *,
                 mode: str = "improve_precision", stage: str = "forward",
                 only: Sequence[str] = (), sample: float = 1.0,
                 every: Optional[int] = None, seed: int = 0,
                 fix: Union[bool, str] = False, wide: Optional[str] = None,
                 noise: Optional[float] = None, standard: str = "assay",
                 first_step: int = 0, journal: str = "") -> None:
        check_options(mode, stage, sample, every, fix, wide, noise)
        self.mode, self.stage, self.fix = mode, stage, fix
        self._only = (only,) if isinstance(only, str) else tuple(only)
        self._share = 1.0 / every if every is not None else float(sample)
        self._seed, self._noise = seed, noise
        self._wide = None if wide is None else getattr(torch, wide)
        self._model = model
        self._rows = _core.Perturbations(mode, standard, rank(), journal)
        self._step = first_step
        self._rows.step(first_step)
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._writers: set[Any] = set()  # functions found to write
        self._moves: dict[str, bool] = {}
        self._faults = 0
        self._passes = Passes(self.guarded)
        self._casts = Casts()
        self._mode: Optional[FuzzMode] = None
        self._modules: Optional[ModulePath] = None
        self._told_of_unseen = False
        self._number()

    def _number(self) -> None:
        """Calls of one API are numbered from 0 in each step."""
        self._calls: dict[str, Any] = collections.defaultdict(itertools.count)

    # -- what the user calls

    def start(self) -> "Fuzz":
        """Begins to look at calls."""
        if self.running:
            raise RuntimeError("the check is running already")
        if self._model is not None:
            with torch._C.DisableTorchFunction():
                self._modules = ModulePath(self._model, self.guarded)
            self._tell_of(self._modules.hooks.unseen)
        self._mode = FuzzMode(self)
        mode_stack.enter(self._mode)
        return self

    def stop(self) -> None:
        """Stops to look at calls."""
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.on = False
            mode_stack.leave(mode)
        modules, self._modules = self._modules, None
        if modules is not None:
            modules.hooks.remove()

    def step(self) -> None:
        """Ends a step: calls are numbered anew."""
        self._step += 1
        self._number()
        with self._lock:
            self._rows.step(self._step)

    def close(self) -> None:
        """Stops for good."""
        self.stop()
        with self._lock:
            self._rows.step(self._step)  # the journal has all there is

    @property
    def running(self) -> bool:
        return self._mode is not None

    @property
    def steps(self) -> int:
        """The number of the step that is looked at now."""
        return self._step

    @property
    def report(self) -> Comparison:
        """A row for each output that was looked at, and one for each API and
        reason that calls were not; golden is what is expected of an output,
        target what it is."""
        with self._lock:
            return Comparison.of(read(self._rows.json()), self._rows.text())

    def save(self, *, html: Path = "", json: Path = "", csv: Path = "",
             xlsx: Path = "", junit: Path = "") -> None:
        """Writes the reports of `assay compare`."""
        with self._lock:
            self._rows.save(*(os.fspath(path) for path in
                              (html, json, csv, xlsx, junit)))

    def __enter__(self) -> "Fuzz":
        return self.start()

    def __exit__(self, *exception: Any) -> None:
        self.stop()

    def enter(self, name: str, module: torch.nn.Module, args: tuple,
              kwargs: dict, frame: Any) -> None:
        """As ModuleHooks.enter()."""
        if self._modules is not None:
            self._modules.hooks.enter(name, module, args, kwargs, frame)

    # -- what the function mode calls

    @property
    def alive(self) -> bool:
        return self.running and os.getpid() == self._owner

    def guarded(self, what: Any = None) -> Guard:
        """Training goes on whatever happens to its check."""
        return Guard(self._fault, what)

    def call(self, kind: tuple[str, str], func: Callable, args: tuple,
             kwargs: dict) -> Any:
        """Makes a call of the training, and looks at it."""
        prefix, api = kind
        stem = f"{prefix}.{api}.{next(self._calls[f'{prefix}.{api}'])}"
        trial: Optional[Trial] = None
        edges: dict = {}
        with self.guarded(stem):
            if self._looked_at(stem, prefix, api):
                trial = self._trial(func, f"{prefix}.{api}", args, kwargs)
            if trial is not None and self.stage == "backward":
                edges = input_edges(tensors_in(arguments(args, kwargs)))
        result = func(*args, **kwargs)
        if trial is None:
            return result
        answer = result
        with self.guarded(stem):
            trial.finish(result, args, self._wide)
            replaced = self._after(trial, stem, args, kwargs, edges)
            if replaced is not None:
                answer = values.mapped(
                    result, lambda leaf: replaced.get(id(leaf), leaf))
        return answer

    # -- which calls

    def _looked_at(self, stem: str, prefix: str, api: str) -> bool:
        if self._only and not any(
                fnmatch.fnmatchcase(name, glob) for glob in self._only
                for name in (stem, self._module())):
            return False
        if self._share < 1 and not _core.in_sample(
                stem, self._step, self._seed, self._share):
            with self._lock:
                self._rows.left_out()
            return False
        why = names.why_not(prefix, api)
        if why is not None:
            self._skip(f"{prefix}.{api}", NotPossible(why))
        return why is None

    def _module(self) -> str:
        return "" if self._modules is None else self._modules.here()

    def _trial(self, func: Callable, api: str, args: tuple,
               kwargs: dict) -> Optional[Trial]:
        """What the call needs to be made again; None where it is not."""
        for _, tensor in tensors_in(arguments(args, kwargs)):
            why = why_not_plain(tensor)
            if why is not None:
                self._skip(api, NotPossible(why, "incomplete"))
                return None
        if _transforms():
            self._skip(api, NotPossible("a transform of functions is active",
                                        "incomplete"))
            return None
        if _capturing():
            self._skip(api, NotPossible("a graph of a device is recorded",
                                        "incomplete"))
            return None
        if api not in self._moves:
            self._moves[api] = _core.moves_values(api)
        return Trial(
            func, args, kwargs, moves=self._moves[api], seed=self._seed_of(api),
            writes=(func in self._writers
                    or names.writes(func, api, args, kwargs)),
            foreign=api.partition(".")[0] not in _TORCH)

    def _seed_of(self, name: str) -> int:
        return zlib.crc32(f"{name}/{self._step}".encode(), self._seed % 2**32)

    # -- what is done with them

    def _after(self, trial: Trial, stem: str, args: tuple, kwargs: dict,
               edges: dict) -> Optional[dict[int, Any]]:
        """Outputs that take the place of others, by the identity of these."""
        api = stem.rpartition(".")[0]
        if trial.written_unannounced():
            self._writers.add(trial.func)
            self._skip(api, NotPossible(
                "it writes to an input, which its name does not tell: later "
                "calls are looked at", "incomplete"))
            return None
        if self.stage == "backward":
            self._await(trial, stem, edges)
            return None
        op = f"{stem}.forward"
        judged = modes.Judged(self._rows, op, trial,
                              trial.leaves_of(trial.result))
        if not judged.leaves:
            self._skip(api, NotPossible("it gives no tensor"))
            return None
        if not self._judge(judged, op, api, self._run, self._module()):
            return None
        replaced = self._fixed(judged, stem, args, kwargs)
        self._keep(judged, op, api, self._module())
        return replaced

    def _run(self, judged: modes.Judged) -> None:
        if self.mode == "add_noise":
            modes.add_noise(judged, self._noise, self._seed_of(judged.op))
        else:
            getattr(modes, self.mode)(judged)

    def _judge(self, judged: modes.Judged, op: str, api: str,
               run: Callable[[modes.Judged], None], module: str) -> bool:
        """Whether there are probes to keep."""
        try:
            with torch.no_grad():
                run(judged)
            return True
        except NotPossible as error:
            self._skip(api, error)
        except Exception as error:
            self._keep_fault(op, api, module, error)
        return False

    def _keep(self, judged: modes.Judged, op: str, api: str,
              module: str) -> None:
        with self._lock:
            for probe in judged.probes.values():
                self._rows.add(probe, op, api, module)

    def _skip(self, api: str, why: NotPossible) -> None:
        with self._lock:
            self._rows.skip(api, str(why), why.verdict)

    def _fixed(self, judged: modes.Judged, stem: str, args: tuple,
               kwargs: dict) -> Optional[dict[int, Any]]:
        trial = judged.trial
        chosen = {path: probe for path, probe in judged.probes.items()
                  if self.fix and judged.leaves[path].is_floating_point()
                  and (self.fix == "all" or probe.verdict == "mismatch")}
        if not chosen:
            return None
        if trial.writes:
            for probe in chosen.values():
                probe.note("fix", "not replaced: it is computed in place")
            return None
        try:
            better = (modes.on_host(trial, args, kwargs)
                      if self.mode == "to_cpu"
                      else trial.improved(args, kwargs))
        except NotPossible as error:
            for probe in chosen.values():
                probe.note("fix", f"not replaced: {error}")
            return None
        found = trial.leaves_of(better)
        replaced = {}
        for path, probe in chosen.items():
            old = judged.leaves[path]
            replaced[id(old)] = found[path].to(device=old.device,
                                               dtype=old.dtype)
            probe.note("fix", "replaced by what it is held to")
        return replaced

    def _await(self, trial: Trial, stem: str, edges: dict) -> None:
        """Looks at the call once its gradients have come."""
        module, api = self._module(), stem.rpartition(".")[0]
        op = f"{stem}.backward"

        def judge(call: BackwardCall) -> None:
            judged = modes.Judged(self._rows, op, trial, dict(call.leaves))
            if self._judge(judged, op, api, getattr(call, self.mode), module):
                self._keep(judged, op, api, module)

        if edges:
            BackwardCall(trial, judge).watch(
                op, functools.partial(self.guarded, op), edges, self._passes,
                self._casts)

    # -- what went wrong

    def _fault(self, error: Exception, what: Any) -> None:
        op = what if isinstance(what, str) else getattr(what, "stem", "a call")
        self._keep_fault(op, op.rpartition(".")[0] or op, "", error)

    def _keep_fault(self, op: str, api: str, module: str,
                    error: Exception) -> None:
        """A row that never matches stands for what was not looked at."""
        text = f"{type(error).__name__}: {error}".strip(": ")
        text = " ".join(text.split())[:300]
        with self._lock:
            self._faults += 1
            if self._faults > 100:
                self._rows.skip(api, "the check failed", "incomplete")
                return
            probe = self._rows.probe(op, f"{op}.output")
            probe.incomplete("fault", f"the check of it failed: {text}")
            self._rows.add(probe, op, api, module)

    def _tell_of(self, unseen: list[str]) -> None:
        if unseen and not self._told_of_unseen:
            self._told_of_unseen = True
            some = ", ".join(unseen[:3]) + (", ..." if unseen[3:] else "")
            self._rows.warn(f"torch.compile or TorchScript runs {some}: calls "
                            "in there are not seen")


def _capturing() -> bool:
    if not torch.cuda.is_available():
        return False
    return torch.cuda.is_current_stream_capturing()


def fuzz(model: Models = None, **options: Any) -> Fuzz:
    """A Fuzz for a with statement or a decorator; help(assay.Fuzz) lists its
    arguments."""
    return Fuzz(model, **options)


guards.never_compiled("assay.fuzz")

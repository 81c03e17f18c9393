"""A call of the training, and what is needed to make it again."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional

import torch

from assay.capture.leaves import arguments, results, tensors_in
from assay.fuzz import values
from assay.fuzz.generators import Generators, same
from assay.fuzz.regions import Regions

Tensor = torch.Tensor
Leaves = dict  # path: Tensor
Moved = Callable[[Tensor, Tensor], Tensor]

# Runs with inputs moved by one roundoff: of one alone chance decides.
SPREAD_RUNS = 3
# Neighbours change places in one run of four: 0.75^32 is 1e-4.
DECISION_RUNS = 32
_PLAIN = (Tensor, torch.nn.Parameter)


class NotPossible(Exception):
    """The call is not made in the way that the mode asks for; why.

    verdict: "empty" where there is nothing to look at, "incomplete" where it
    was asked for and cannot be had.
    """

    def __init__(self, why: str, verdict: str = "empty") -> None:
        super().__init__(why)
        self.verdict = verdict


def why_not_plain(tensor: Tensor) -> Optional[str]:
    """Why a call with such a tensor is not made again; None where it is."""
    if type(tensor) not in _PLAIN:
        return f"a {type(tensor).__name__} among its arguments"
    if tensor.layout is not torch.strided:
        return "a tensor that is not strided among its arguments"
    if tensor.is_nested or tensor.is_quantized or tensor.is_meta:
        return "a nested, quantised or meta tensor among its arguments"
    return None


class Trial:
    """Made before the call; `writes`: the call changes an argument, so what
    it is given is kept as copies."""

    def __init__(self, func: Callable, args: tuple, kwargs: dict, *,
                 writes: bool, moves: bool, foreign: bool,
                 seed: int) -> None:
        self.func, self.writes, self._seed = func, writes, seed
        self.moves = moves  # it moves values: dtypes it is told are results'
        found = list(arguments(args, kwargs))
        given = [t for _, t in tensors_in(iter(found))]
        self.tensors = given
        self.versions = [_version(t) for t in given]
        self.grad = torch.is_grad_enabled()
        self.regions = Regions()
        self.generators = Generators(given, (leaf for _, leaf in found),
                                     foreign)
        self.args, self.kwargs = args, kwargs
        self.entangled = writes and values.share_memory(given)
        if writes:
            self.args, self.kwargs = values.mapped_call(
                args, kwargs, values.changed_tensors(self._copier()))
        self.inputs = (given if not writes else [
            t for _, t in tensors_in(arguments(self.args, self.kwargs))])
        # Kernels of others may write to memory that no version counts.
        self._kept = [(t, values.copied(t)) for t in given] if (
            foreign and not writes) else []
        self.drew = False
        self.result: Any = None
        self._end: list[Any] = []
        self.narrow: Optional[torch.dtype] = None  # of an autocast region
        self.wide = torch.float64

    def _copier(self) -> values.Change:
        return values.StorageCopies() if self.entangled else values.copied

    def finish(self, result: Any, args: tuple, wide: Optional[torch.dtype],
               ) -> None:
        """The training's own call is over."""
        self._end = self.generators.now()
        self.drew = not same(self.generators.start, self._end)
        # x[0] = 1 and _foreach_add_ return nothing: they changed this.
        self.result = args[0] if result is None and args else result
        outputs = [t for t in self.leaves_of(self.result).values()]
        found = values.widest(iter([*self.tensors, *outputs]))
        if wide is None:
            wide = torch.float32 if found in values.HALVES else torch.float64
        self.wide, self.widest = wide, found
        for dtype in self.regions.on.values():
            if any(t.dtype is dtype for t in outputs):
                self.narrow = dtype

    def written_unannounced(self) -> bool:
        kept, self._kept = self._kept, []
        return not self.writes and (self.outdated() or not all(
            _same_bits(tensor, before) for tensor, before in kept))

    def leave_graph(self) -> None:
        """Keeps what it was given without the graph that it is of: a hook on
        a node of the graph that holds a tensor of it keeps both for ever."""
        self.result = None
        if self.writes:  # its gradients are not computed again
            self.tensors, self.versions = [], []
        self.args, self.kwargs = values.mapped_call(
            self.args, self.kwargs, values.changed_tensors(_leaf_of))
        if not self.writes:
            self.tensors = [t for _, t in tensors_in(
                arguments(self.args, self.kwargs))]
        self.inputs = self.tensors

    @staticmethod
    def leaves_of(result: Any) -> Leaves:
        return dict(tensors_in(results(result)))

    @contextlib.contextmanager
    def _as_then(self) -> Iterator[None]:
        """Generators are where they were before the call, and afterwards
        where they are now."""
        now = self.generators.now()
        self.generators.put(self.generators.start)
        try:
            yield
        finally:
            self.generators.put(now)

    def _called(self, args: tuple, kwargs: dict, grad: bool) -> Any:
        with self._as_then(), torch.set_grad_enabled(grad), \
                _saving_for_itself(grad):
            result = self.func(*args, **kwargs)
        return args[0] if result is None and args else result

    def run(self, change: values.Change = lambda t: t) -> Leaves:
        """The call again, in the dtypes it had. change: of `inputs`."""
        copied = self._copier()

        def changed(tensor: Tensor) -> Tensor:
            made = change(tensor).detach()
            if self.writes:
                return copied(made)
            return made.requires_grad_() if tensor.requires_grad else made

        args, kwargs = values.mapped_call(
            self.args, self.kwargs, values.changed_tensors(changed))
        with self.regions.again():
            return self.leaves_of(self._called(
                args, kwargs, self.grad and not self.writes))

    def call(self, args: tuple, kwargs: dict) -> Any:
        """The call of other tensors, with gradients where it has them."""
        with self.regions.outside(), self.regions.again():
            return self._called(args, kwargs, self.grad)

    # -- in a wider dtype

    def demand_wider(self) -> None:
        """Raises NotPossible where there is nothing wider to hold it to."""
        if self.widest is None:
            raise NotPossible("no floating-point tensor in it")
        if values.ROUNDOFF[self.widest] <= values.ROUNDOFF[self.wide]:
            raise NotPossible(f"nothing is wider than {name_of(self.widest)}",
                              "incomplete")

    def run_wide(self, change: values.Change = lambda t: t,
                 moved: Optional[Moved] = None) -> Leaves:
        """The call in the wide dtype, outside of autocast. change: of
        `inputs` as they are, moved: of one and what it was widened to."""
        def widened(tensor: Tensor) -> Tensor:
            made = self.widen(change(tensor).detach())
            if moved is not None:
                made = moved(tensor, made)
            return made.clone() if self.writes else made

        args, kwargs = values.mapped_call(self.args, self.kwargs,
                                          self._leaf_changer(widened))
        return self.leaves_of(self._wide_call(args, kwargs, False))

    def demand_apart(self) -> None:
        """Raises NotPossible where a changed copy of each argument would be
        another call: they share memory, and one is written to."""
        if self.entangled:
            raise NotPossible("it writes to memory that two of its arguments "
                              "share", "incomplete")

    def _leaf_changer(self, change: values.Change) -> Callable[[Any], Any]:
        def changed(leaf: Any) -> Any:
            if isinstance(leaf, Tensor):
                return change(leaf)
            if isinstance(leaf, torch.dtype) and not self.moves:
                return values.wide_of(leaf, self.wide)
            return leaf

        return changed

    def widen(self, tensor: Tensor) -> Tensor:
        """As an autocast region rounds it, where one did, then widened."""
        dtype = tensor.dtype
        if self.narrow is not None and dtype is torch.float32:
            tensor = tensor.to(self.narrow)
        return tensor.to(values.wide_of(dtype, self.wide))

    def unit(self, tensor: Tensor) -> float:
        """The roundoff that an input of the call came with."""
        if self.narrow is not None and tensor.dtype is torch.float32:
            return values.ROUNDOFF[self.narrow]
        return values.ROUNDOFF[tensor.dtype]

    def _wide_call(self, args: tuple, kwargs: dict, grad: bool) -> Any:
        with self.regions.outside():
            try:
                return self._called(args, kwargs, grad)
            except Exception as error:
                first = (str(error).splitlines() or [""])[0][:160]
                raise NotPossible(
                    f"it cannot be called in {name_of(self.wide)}: "
                    f"{type(error).__name__}: {first}",
                    "incomplete") from error

    def spread(self) -> list[Leaves]:
        """Wide calls of inputs moved by one roundoff of their dtype."""
        return [self.run_wide(moved=self.mover(run))
                for run in range(SPREAD_RUNS)]

    def decisions(self) -> list[Leaves]:
        """The same for indices: two roundoffs, so that neighbours in the
        dtype change places, in so many runs that each pair does in one."""
        return [self.run_wide(moved=self.mover(run, 2))
                for run in range(DECISION_RUNS)]

    def mover(self, run: int, units: int = 1) -> Moved:
        """Moves widened inputs by roundoffs, in each run otherwise."""
        sources = values.Sources(self._seed + 7919 * (run + 1))

        def moved(tensor: Tensor, wide: Tensor) -> Tensor:
            if tensor.dtype not in values.FLOATS:
                return wide
            return values.rounded_otherwise(wide, units * self.unit(tensor),
                                            sources.of(tensor.device))

        return moved

    # -- with gradients

    def improved(self, args: tuple, kwargs: dict) -> Any:
        """The wide call of the training's own tensors, in its graph."""
        args, kwargs = values.mapped_call(args, kwargs,
                                          self._leaf_changer(self.widen))
        return self._wide_call(args, kwargs, self.grad)

    def gradients(self, arrived: Leaves, wanted: dict[str, Tensor],
                  wide: bool, moved: Optional[Moved] = None) -> Leaves:
        """Gradients of the inputs `wanted`, by the paths that these have,
        where those of the outputs are `arrived`."""
        inputs: dict[int, Tensor] = {}

        def leaf(tensor: Tensor) -> Tensor:
            made = tensor.detach()
            if wide:
                made = self.widen(made)
                if moved is not None:
                    made = moved(tensor, made).detach()
            if tensor.requires_grad:
                # Not the training's own tensor, nor a view of it.
                made = inputs[id(tensor)] = made.detach().requires_grad_()
            return made

        change = (self._leaf_changer(leaf) if wide
                  else values.changed_tensors(leaf))
        args, kwargs = values.mapped_call(self.args, self.kwargs, change)
        with contextlib.ExitStack() as stack:
            if wide:
                outputs = self.leaves_of(self._wide_call(args, kwargs, True))
            else:
                stack.enter_context(self.regions.outside())
                stack.enter_context(self.regions.again())
                outputs = self.leaves_of(self._called(args, kwargs, True))
        given = []
        for path, gradient in arrived.items():
            made = gradient.detach().to(outputs[path].dtype)
            if moved is not None:
                made = moved(gradient, made)
            given.append(made)
        found = torch.autograd.grad(
            [outputs[path] for path in arrived],
            [inputs[id(tensor)] for tensor in wanted.values()], given,
            allow_unused=True)
        return {path: gradient for path, gradient in zip(wanted, found)
                if gradient is not None}

    def outdated(self) -> bool:
        """Whether an input was written to since the call."""
        return [_version(t) for t in self.tensors] != self.versions


@contextlib.contextmanager
def _saving_for_itself(grad: bool) -> Iterator[None]:
    """What a call saves for a backward pass is its own: checkpointing and
    offloading count what the training saves."""
    hooks = None
    if grad:
        hooks = torch.autograd.graph.saved_tensors_hooks(Tensor.detach,
                                                         Tensor.detach)
        try:
            hooks.__enter__()
        except RuntimeError:  # hooks are forbidden: so there are none
            hooks = None
    try:
        yield
    finally:
        if hooks is not None:
            hooks.__exit__()


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _leaf_of(tensor: Tensor) -> Tensor:
    """The same memory and version counter, of no graph."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _same_bits(a: Tensor, b: Tensor) -> bool:
    """As bytes where torch can see them so, else by values."""
    try:
        return torch.equal(a.detach().contiguous().view(torch.uint8),
                           b.contiguous().view(torch.uint8))
    except RuntimeError:  # no dimension, or of less than a byte
        a, b = a.detach(), b.detach()
        return bool(((a == b) | ((a != a) & (b != b))).all())


def _version(tensor: Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # inference tensors have none, nor are written to
        return 0


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).replace("torch.", "")

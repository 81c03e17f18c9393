"""The backward pass of a call, seen without changing the graph.

A hook that wraps a call's inputs and outputs (as full backward hooks do) puts
nodes of its own into the graph, breaks in-place operators, and may change the
order in which gradients are added. Here nodes that exist are watched: the
gradient of an output is what arrives at the node that made it, the gradient
of an input what the call's own nodes send along the edge to it. An input that
several of them use gets their sum, in the order in which autograd adds.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

import torch

from assay.capture.passes import Passes, current_pass

Tensor = torch.Tensor
Edge = tuple[Any, int]  # node, which of its inputs

# A call whose graph is larger than this is followed no further.
MAX_NODES = 200_000


def _edge_before_2_2(tensor: Tensor) -> Edge:
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    with torch.enable_grad():
        return tensor.view_as(tensor).grad_fn.next_functions[0][0], 0


def edge_of(tensor: Tensor) -> Edge:
    """Where a gradient of the tensor goes."""
    find = getattr(torch.autograd.graph, "get_gradient_edge", None)
    if find is None:
        return _edge_before_2_2(tensor)
    edge = find(tensor)
    return edge.node, edge.output_nr


def input_edges(found: Iterable[tuple[str, Tensor]]) -> dict[Edge, str]:
    """Edges of the tensors that want a gradient, by their paths.

    To be asked before the call: an in-place operator moves them.
    """
    edges: dict[Edge, str] = {}
    if not torch.is_grad_enabled():
        return edges
    for path, tensor in found:
        if tensor.requires_grad:
            try:
                edge = edge_of(tensor)
            except (AttributeError, RuntimeError):
                continue  # of an outer level of a transform of functions
            edges.setdefault(edge, path.replace("input", "output", 1))
    return edges


class CallGradients:
    """Collects one call's gradients and reports each once it is complete.

    report(role, path, gradient): role "input" for the gradient of an output,
    "output" for that of an input. begin() is called before the first report
    of a pass, end() after the last. guard: a context around all of it.
    """

    def __init__(self, guard: Callable[[], Any], begin: Callable[[], None],
                 report: Callable[[str, str, Tensor], None],
                 end: Callable[[], None], passes: Passes) -> None:
        self._guard = guard
        self._passes, self._pass = passes, -1
        self._begin, self._report, self._end = begin, report, end
        self._expected: dict[str, int] = {}
        self._reset()

    def _reset(self) -> None:
        self._begun = False
        self._arrived: dict[str, int] = {}
        self._sums: dict[str, Optional[Tensor]] = {}
        self._missing = len(self._expected)

    def watch(self, outputs: Iterable[tuple[str, Tensor]],
              edges: dict[Edge, str], oldest: int) -> bool:
        """Puts hooks on the nodes; False where there is nothing to watch.

        oldest: nodes with a smaller sequence number are not the call's own.
        """
        made: dict[Any, list[tuple[int, str]]] = {}
        for path, tensor in outputs:
            if tensor.grad_fn is not None:
                made.setdefault(tensor.grad_fn, []).append(
                    (tensor.output_nr, path.replace("output", "input", 1)))
        if not made:
            return False
        for node, wanted in made.items():
            through = [(number, edges[node, number]) for number, _ in wanted
                       if (node, number) in edges]
            for _, path in through:
                self._expect(path)
            node.register_prehook(self._on_outputs(wanted, through))
        try:
            for node, slots in _senders(list(made), edges, oldest):
                for _, path in slots:
                    self._expect(path)
                node.register_hook(self._on_inputs(slots))
        finally:  # also where the graph is too large to be followed
            self._missing = len(self._expected)
        return True

    def _expect(self, path: str) -> None:
        self._expected[path] = self._expected.get(path, 0) + 1

    def _on_outputs(self, wanted: list[tuple[int, str]],
                    through: list[tuple[int, str]]) -> Callable:
        def hook(gradients: tuple) -> None:
            with self._guard():
                self._start()
                for number, path in wanted:
                    if gradients[number] is not None:
                        self._report("input", path, gradients[number])
                for number, path in through:  # the call returned its input
                    self._arrive(path, gradients[number])
                self._finish()

        return hook

    def _on_inputs(self, slots: list[tuple[int, str]]) -> Callable:
        def hook(gradients: tuple, _: tuple) -> None:
            with self._guard():
                self._start()
                for slot, path in slots:
                    self._arrive(path, gradients[slot])
                self._finish()

        return hook

    def _start(self) -> None:
        if self._begun and self._pass != current_pass():
            self._reset()  # of a pass that failed
        if not self._begun:
            self._begun = True
            self._pass = self._passes.join(self)
            self._begin()

    def pass_is_over(self) -> None:
        """Reports sums to which no more will come in this pass: of an input
        that several nodes use, some of which the pass did not reach."""
        for path, total in self._sums.items():
            if total is not None:
                self._report("output", path, total)
        self._end()
        self._reset()

    def _arrive(self, path: str, gradient: Optional[Tensor]) -> None:
        before = self._sums.get(path)
        if gradient is not None:
            with torch.no_grad():
                self._sums[path] = (gradient if before is None
                                    else before + gradient)
        self._arrived[path] = self._arrived.get(path, 0) + 1
        if self._arrived[path] < self._expected[path]:
            return
        self._missing -= 1
        total = self._sums.pop(path, None)
        if total is not None:
            self._report("output", path, total)

    def _finish(self) -> None:
        """A second backward through a retained graph starts anew."""
        if self._missing == 0 and self._expected:
            self._passes.leave(self._pass, self)
            self._end()
            self._reset()


def _senders(nodes: list[Any], edges: dict[Edge, str],
             oldest: int) -> Iterable[tuple[Any, list[tuple[int, str]]]]:
    """The call's nodes that send along one of the edges, and their slots.

    Raises RuntimeError where there are too many nodes to look at."""
    if not edges:
        return
    targets = {node for node, _ in edges}
    seen = set(nodes)
    waiting = [n for n in nodes if (n, 0) not in edges or n not in targets]
    while waiting and len(seen) < MAX_NODES:
        node = waiting.pop()
        slots = []
        for slot, edge in enumerate(node.next_functions):
            path = edges.get(edge)
            if path is not None:
                slots.append((slot, path))
            following = edge[0]
            if (following is None or following in seen
                    or following in targets
                    or sequence_number(following) < oldest):
                continue
            seen.add(following)
            waiting.append(following)
        if slots:
            yield node, slots
    if waiting:
        raise RuntimeError(
            f"the call's graph has more than {MAX_NODES} nodes: gradients of "
            "its inputs may be missing or incomplete")


def sequence_number(node: Any) -> int:
    """When the node was made; leaves are never old."""
    number = getattr(node, "_sequence_nr", None)
    return number() if number is not None else _LEAF


_LEAF = 1 << 62  # leaves have the greatest number there is


def newest_of(edges: Iterable[Edge]) -> int:
    """A call's nodes are newer than what made its inputs."""
    numbers = [sequence_number(node) for node, _ in edges]
    return max((n for n in numbers if n < _LEAF), default=0)

"""ep_all_to_all: tokens to the ranks that have their experts and back, and the
collectives that carry tensors and codes."""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result
from assay.worker.torch_provider import quantize
from assay.worker.torch_provider.collectives import (check_ranks, everyones,
                                                     exchanged, gathered, part,
                                                     summed)
from assay.worker.torch_provider.formats import E4M3
from assay.worker.torch_provider.quantize import Quantized

ADAPTER = 1


def run(call: Call) -> Result:
    check_ranks(call)
    result = Result()
    if call.op not in RUNS:
        raise Refused(f"op: {call.op}")
    RUNS[call.op](call, result.outputs)
    return result


class Routing:
    """Copies of this rank's tokens, by expert of all ranks and then token;
    and where they go."""

    def __init__(self, call: Call):
        if call.experts % call.ranks:
            raise Refused(f"experts: {call.experts}, expected a multiple of "
                          f"{call.ranks} ranks")
        self.call, self.local = call, call.experts // call.ranks
        chosen = part(call.inputs["routing_map"], 0, call) != 0
        self.expert, self.token = chosen.T.nonzero(as_tuple=True)
        everyone = call.inputs["routing_map"] != 0
        # [rank, expert]: every rank can count what it will receive.
        self.counts = torch.stack([
            c.sum(0) for c in everyone.chunk(call.ranks)]) if len(
                everyone) else everyone.new_zeros(
                    call.ranks, call.experts, dtype=torch.int64)
        first = call.rank * self.local
        self.send = self.counts[call.rank].reshape(call.ranks, -1).sum(
            1).tolist()
        mine = self.counts[:, first:first + self.local]
        self.receive = mine.sum(1).tolist()
        self.chunks = mine.flatten().tolist()  # by rank, then expert
        self.tokens_per_expert = mine.sum(0)

    def to_experts(self, rows: torch.Tensor) -> torch.Tensor:
        """Copies in the sender's order to rows by expert, then rank."""
        arrived = exchanged(rows, self.send, self.receive, self.call)
        chunks = arrived.split(self.chunks)
        return torch.cat([chunks[rank * self.local + expert]
                          for expert in range(self.local)
                          for rank in range(self.call.ranks)])

    def from_experts(self, rows: torch.Tensor) -> torch.Tensor:
        sizes = torch.tensor(self.chunks).reshape(
            self.call.ranks, self.local).T.flatten().tolist()
        chunks = rows.split(sizes)
        ordered = torch.cat([chunks[expert * self.call.ranks + rank]
                             for rank in range(self.call.ranks)
                             for expert in range(self.local)])
        return exchanged(ordered, self.receive, self.send, self.call)

    def pad(self, rows: torch.Tensor) -> torch.Tensor:
        """Each expert's rows up to a multiple of the alignment, with zeros."""
        if self.call.alignment == 0:
            return rows
        parts = []
        for each in rows.split(self.tokens_per_expert.tolist()):
            missing = -len(each) % self.call.alignment
            parts += [each, each.new_zeros(missing, *each.shape[1:])]
        return torch.cat(parts)


def run_ep(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    routing = Routing(call)
    x, probs, d_out = (part(call.inputs[name], 0, call)
                       for name in ("x", "probs", "d_out"))
    rows = routing.to_experts(x[routing.token])
    back = routing.from_experts(rows).float()
    weight = probs[routing.token, routing.expert]
    outputs["tokens_per_expert"] = routing.tokens_per_expert
    outputs["rows"] = routing.pad(rows)
    outputs["combined"] = added(back * weight[:, None], routing, x)
    d_copies = d_out.float()[routing.token]
    d_rows = (d_copies * weight[:, None]).to(x.dtype)
    outputs["grad.rows"] = routing.pad(routing.to_experts(d_rows))
    d_probs = torch.zeros_like(probs)
    d_probs[routing.token, routing.expert] = (d_copies * back).sum(1)
    outputs["grad.probs"] = d_probs
    outputs["grad.x"] = added(
        routing.from_experts(routing.to_experts(d_rows)).float(), routing, x)


def added(copies: torch.Tensor, routing: Routing,
          like: torch.Tensor) -> torch.Tensor:
    """The sum over a token's copies, in fp32."""
    total = torch.zeros(like.shape, device=like.device)
    return total.index_add(0, routing.token, copies).to(like.dtype)


def codes_of(call: Call, x: torch.Tensor, amax: torch.Tensor | None = None,
             ) -> Quantized:
    """Row-wise e4m3; current scaling by a given amax, or its own."""
    if call.quantizer == "mxfp8":
        return quantize.mxfp8(x, E4M3)
    if call.quantizer == "block":
        return quantize.block128(x, E4M3, 1)
    if call.quantizer == "current":
        return quantize.current(x, E4M3, amax=amax)
    raise Refused(f"quantizer: {call.quantizer}")


def shared_codes(call: Call) -> Quantized:
    """Of this rank's rows, one scale of the tensor being that of all."""
    return codes_of(call, part(call.inputs["x"], 0, call),
                    quantize.formats.amax(call.inputs["x"]))


def run_ep_codes(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    routing, q = Routing(call), shared_codes(call)
    outputs["tokens_per_expert"] = routing.tokens_per_expert
    outputs["rows.codes"] = routing.to_experts(q.codes[routing.token])
    outputs["rows.scale_inv"] = (
        q.scale_inv if q.mode == "tensor"
        else routing.to_experts(q.scale_inv[routing.token]))


def run_all_gather(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    outputs["gathered"] = gathered(part(call.inputs["x"], 0, call), 0, call)


def run_all_gather_codes(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    q = shared_codes(call)
    outputs["gathered.codes"] = gathered(q.codes, 0, call)
    outputs["gathered.scale_inv"] = (
        q.scale_inv if q.mode == "tensor" else gathered(q.scale_inv, 0, call))


def run_all_reduce(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    outputs["reduced"] = summed(call.inputs["parts"][call.rank], call)


def run_reduce_scatter(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    outputs["scattered"] = part(
        summed(call.inputs["parts"][call.rank], call), 0, call)


def run_reduce_scatter_codes(call: Call,
                             outputs: dict[str, torch.Tensor]) -> None:
    own = codes_of(call, call.inputs["parts"][call.rank])
    total = None
    for values in everyones(own.values(), call):
        total = values if total is None else total + values
    outputs["scattered"] = part(total.to(call.torch_dtype), 0, call)


def run_all_to_all(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    rows = part(call.inputs["x"], 0, call)
    each, left = divmod(len(rows), call.ranks)
    counts = [each + int((call.rank + other) % call.ranks < left)
              for other in range(call.ranks)]
    outputs["received"] = exchanged(rows, counts, counts, call)


RUNS = {"ep": run_ep, "ep_codes": run_ep_codes, "all_gather": run_all_gather,
        "all_gather_codes": run_all_gather_codes,
        "all_reduce": run_all_reduce, "reduce_scatter": run_reduce_scatter,
        "reduce_scatter_codes": run_reduce_scatter_codes,
        "all_to_all": run_all_to_all}

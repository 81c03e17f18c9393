"""Tensors of several ranks, over torch.distributed. A sum widens every rank's
part to fp32, adds them from rank 0 upwards and rounds once, so that it does
not depend on the backend's order."""

from __future__ import annotations

import torch
import torch.distributed as dist

from assay.worker.call import Call, Refused


def check_ranks(call: Call) -> None:
    if call.parameters["ranks"] != call.ranks:
        raise Refused(f"ranks: {call.parameters['ranks']}, expected "
                      f"{call.ranks}, the worker's")


def part(x: torch.Tensor, dim: int | None, call: Call) -> torch.Tensor:
    """This rank's slice; the whole where `dim` is None."""
    if dim is None:
        return x
    if x.shape[dim] % call.ranks:
        raise Refused(f"{list(x.shape)}: dimension {dim} is no multiple of "
                      f"{call.ranks} ranks")
    return x.chunk(call.ranks, dim)[call.rank].contiguous()


def everyones(x: torch.Tensor, call: Call) -> list[torch.Tensor]:
    """The tensors of all ranks, which have one shape."""
    if call.ranks == 1:
        return [x]
    x = x.contiguous()
    parts = [torch.empty_like(x) for _ in range(call.ranks)]
    dist.all_gather(parts, x)
    return parts


def gathered(x: torch.Tensor, dim: int | None, call: Call) -> torch.Tensor:
    return x if dim is None else torch.cat(everyones(x, call), dim)


def summed(x: torch.Tensor, call: Call) -> torch.Tensor:
    total = None
    for each in everyones(x, call):
        total = each.float() if total is None else total + each.float()
    return total.to(x.dtype)


def greatest(x: torch.Tensor, call: Call) -> torch.Tensor:
    """The maximum over ranks, NaN skipped."""
    if call.ranks == 1:
        return x
    result = torch.where(torch.isnan(x), torch.zeros_like(x), x)
    dist.all_reduce(result, dist.ReduceOp.MAX)
    return result


def exchanged(rows: torch.Tensor, send: list[int], receive: list[int],
              call: Call) -> torch.Tensor:
    """send[r] rows to rank r, in order; receive[r] from it. By point-to-point
    messages: not every backend has an all-to-all."""
    parts = list(rows.contiguous().split(send))
    result = [rows.new_empty((count, *rows.shape[1:])) for count in receive]
    result[call.rank].copy_(parts[call.rank])
    requests = []
    for other in range(call.ranks):
        if other == call.rank:
            continue
        if send[other]:
            requests.append(dist.P2POp(dist.isend, parts[other].contiguous(),
                                       other))
        if receive[other]:
            requests.append(dist.P2POp(dist.irecv, result[other], other))
    if requests:
        for request in dist.batch_isend_irecv(requests):
            request.wait()
    return torch.cat(result)

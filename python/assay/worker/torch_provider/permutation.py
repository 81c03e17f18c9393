"""permutation: rows gathered by expert and merged again, chunks of rows in
another order. Sums over the copies of a token are in float32.

Rows of a mask map: expert by expert, the tokens of each in order; of an index
map: a stable sort of the flattened choices. A row whose probability is 0 is
zeros in the forward, and none of that is in its gradient.
"""

from __future__ import annotations

import dataclasses

import torch

from assay.worker.call import Call, Refused, Result

ADAPTER = 1


@dataclasses.dataclass
class Map:
    """Of every row that is no padding: its place, token and column."""

    rows: int
    place: torch.Tensor
    token: torch.Tensor
    column: torch.Tensor
    padded: torch.Tensor | None = None  # rows of each expert

    def gather(self, x: torch.Tensor) -> torch.Tensor:
        out = x.new_zeros(self.rows, *x.shape[1:])
        out[self.place] = x[self.token]
        return out

    def sum_of(self, rows: torch.Tensor, tokens: int) -> torch.Tensor:
        """float32 [tokens, ...]: of the copies, one after the other."""
        out = torch.zeros(tokens, *rows.shape[1:], device=rows.device)
        return out.index_add(0, self.token, rows.float())

    def back(self, values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """[T, W]: a value a row, put where its token and column are."""
        out = torch.zeros_like(like).contiguous()
        out[self.token, self.column] = values.to(out.dtype)
        return out


def of_mask(routed: torch.Tensor, align: int) -> Map:
    column, token = torch.nonzero(routed.T, as_tuple=True)
    counts = routed.ne(0).sum(0)
    padded = ((counts + align - 1) // align * align) if align else counts
    room = (padded - counts).cumsum(0) - (padded - counts)
    place = torch.arange(len(token), device=token.device) + room[column]
    return Map(int(padded.sum()), place, token, column, padded)


def of_indices(experts: torch.Tensor, rows: int) -> Map:
    order = torch.argsort(experts.flatten(), stable=True)
    if rows >= 0:
        order = order[:rows]
    width = experts.shape[1]
    return Map(len(order), torch.arange(len(order), device=order.device),
               order // width, order % width)


def map_of(call: Call) -> Map:
    if call.map_type == "index":
        return of_indices(call.inputs["expert_order"][:, :call.topk],
                          call.num_out_tokens)
    if call.map_type != "mask":
        raise Refused(f"map_type {call.map_type}")
    align = call.align_size if call.op == "permute_and_pad" else 0
    return of_mask(call.inputs["routing_map"], align)


def run(call: Call) -> Result:
    result = Result()
    if call.op == "sort_chunks":
        sort_chunks(call, result.outputs)
        return result
    rows = map_of(call)
    permute(call, rows, result.outputs)
    merge(call, rows, result.outputs)
    return result


def permute(call: Call, rows: Map, out: dict[str, torch.Tensor]) -> None:
    x = call.inputs["x"]
    permuted = rows.gather(x)
    if call.op != "permute":
        probs = call.inputs["probs"]
        of_row = probs[rows.token, rows.column]
        permuted_probs = probs.new_zeros(rows.rows)
        permuted_probs[rows.place] = of_row
        permuted[rows.place[of_row == 0]] = 0
        out["permuted_probs"] = permuted_probs
        out["grad.probs"] = rows.back(
            call.inputs["d_permuted_probs"][rows.place], probs)
    out["permuted"] = permuted
    d = call.inputs["d_permuted"][rows.place]
    out["grad.x"] = rows.sum_of(d, x.shape[0]).to(x.dtype)
    if call.op == "permute_and_pad":
        out["target_tokens_per_expert"] = rows.padded


def merge(call: Call, rows: Map, out: dict[str, torch.Tensor]) -> None:
    given = call.inputs["rows"][rows.place].float()
    d = call.inputs["d_merged"][rows.token].float()
    weighted, d_rows = given, d
    if call.merging:
        probs = call.inputs["merging_probs"]
        weight = probs[rows.token, rows.column].float()[:, None]
        weighted, d_rows = given * weight, d * weight
        out["grad.merging_probs"] = rows.back((d * given).sum(1), probs)
    dtype = call.torch_dtype
    out["merged"] = rows.sum_of(weighted, call.tokens).to(dtype)
    grad = torch.zeros(rows.rows, d.shape[1], dtype=dtype, device=d.device)
    grad[rows.place] = d_rows.to(dtype)
    out["grad.rows"] = grad


def sort_chunks(call: Call, out: dict[str, torch.Tensor]) -> None:
    sizes = call.inputs["split_sizes"].tolist()
    order = call.inputs["sorted_index"].tolist()
    chunks = torch.arange(sum(sizes), device=call.device).split(sizes)
    source = torch.cat([chunks[i] for i in order])
    out["sorted"] = call.inputs["x"][source]
    out["grad.x"] = back(call.inputs["d_merged"], source)
    if call.merging:
        out["sorted_probs"] = call.inputs["chunk_probs"][source]
        out["grad.chunk_probs"] = back(call.inputs["d_chunk_probs"], source)


def back(rows: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(rows).contiguous()
    out[source] = rows
    return out

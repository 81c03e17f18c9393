"""permutation: moe_permute and its kin, moe_unpermute, chunks sorted."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Result
from assay.worker.te_provider.api import call_named, require

ADAPTER = 1
NAMES = ("moe_permute", "moe_permute_with_probs",
         "moe_permute_and_pad_with_probs", "moe_unpermute",
         "moe_sort_chunks_by_index", "moe_sort_chunks_by_index_with_probs")
PATHS = ("transformer_engine.pytorch.",
         "transformer_engine.pytorch.permutation.")
API = [path + name for path in PATHS for name in NAMES]


def function(name: str) -> typing.Any:
    return require(*(path + name for path in PATHS))


def leaf(call: Call, name: str, rows: int | None = None) -> torch.Tensor:
    """An input, the first rows of it: the map decides how many there are."""
    return call.inputs[name][:rows].detach().requires_grad_()


def run(call: Call) -> Result:
    result = Result()
    if call.op == "sort_chunks":
        sort_chunks(call, result.outputs)
        return result
    merge(call, result.outputs, permute(call, result.outputs))
    return result


class Permuted:
    """What moe_unpermute wants of the way there."""

    def __init__(self, rows: int, row_id_map: torch.Tensor,
                 pad_offsets: torch.Tensor | None = None):
        self.rows, self.row_id_map = rows, row_id_map
        self.pad_offsets = pad_offsets


def permute(call: Call, out: dict[str, torch.Tensor]) -> Permuted:
    x = leaf(call, "x")
    if call.op == "permute":
        rows, row_id_map = plain(call, x)
        rows.backward(call.inputs["d_permuted"][:rows.shape[0]])
        out["permuted"], out["grad.x"] = rows, x.grad
        return Permuted(rows.shape[0], row_id_map)
    probs = leaf(call, "probs")
    if call.op == "permute_with_probs":
        rows, row_probs, row_id_map = call_named(
            function("moe_permute_with_probs"), {
                "inp": x, "probs": probs,
                "routing_map": call.inputs["routing_map"],
                "num_out_tokens": count(call)})
        permuted = Permuted(rows.shape[0], row_id_map)
    else:
        rows, row_probs, row_id_map, offsets, padded = call_named(
            function("moe_permute_and_pad_with_probs"), {
                "inp": x, "probs": probs,
                "routing_map": call.inputs["routing_map"],
                "tokens_per_expert": call.inputs["routing_map"].ne(0).sum(0),
                "align_size": call.align_size})
        out["target_tokens_per_expert"] = torch.as_tensor(padded).long()
        permuted = Permuted(rows.shape[0], row_id_map, offsets)
    n = rows.shape[0]
    torch.autograd.backward([rows, row_probs],
                            [call.inputs["d_permuted"][:n],
                             call.inputs["d_permuted_probs"][:n]])
    out.update({"permuted": rows, "permuted_probs": row_probs,
                "grad.x": x.grad, "grad.probs": probs.grad})
    return permuted


def count(call: Call) -> int:
    return int(call.inputs["routing_map"].ne(0).sum())


def plain(call: Call, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if call.map_type == "index":
        chosen = call.inputs["expert_order"][:, :call.topk].contiguous()
        rows = call.num_out_tokens
    else:
        chosen = call.inputs.get("routing_map")
        rows = count(call) if chosen is not None else -1
    return call_named(function("moe_permute"), {
        "inp": x, "routing_map": chosen, "num_out_tokens": rows,
        "map_type": call.map_type})


def merge(call: Call, out: dict[str, torch.Tensor],
          permuted: Permuted) -> None:
    rows = leaf(call, "rows", permuted.rows)
    arguments: dict[str, typing.Any] = {"inp": rows,
                                        "row_id_map": permuted.row_id_map}
    if call.merging:
        arguments["merging_probs"] = leaf(call, "merging_probs")
    arguments["restore_shape"] = torch.Size((call.tokens, call.hidden))
    arguments["map_type"] = call.map_type
    if permuted.pad_offsets is not None:
        arguments["pad_offsets"] = permuted.pad_offsets
    merged = call_named(function("moe_unpermute"), arguments)
    merged.backward(call.inputs["d_merged"])
    out["merged"], out["grad.rows"] = merged, rows.grad
    if call.merging:
        out["grad.merging_probs"] = arguments["merging_probs"].grad


def sort_chunks(call: Call, out: dict[str, torch.Tensor]) -> None:
    x = leaf(call, "x")
    where = {"split_sizes": call.inputs["split_sizes"],
             "sorted_index": call.inputs["sorted_index"]}
    if not call.merging:
        rows = call_named(function("moe_sort_chunks_by_index"),
                          {"inp": x, **where})
        rows.backward(call.inputs["d_merged"])
        out.update({"sorted": rows, "grad.x": x.grad})
        return
    probs = leaf(call, "chunk_probs")
    rows, row_probs = call_named(
        function("moe_sort_chunks_by_index_with_probs"),
        {"inp": x, "probs": probs, **where})
    torch.autograd.backward([rows, row_probs],
                            [call.inputs["d_merged"],
                             call.inputs["d_chunk_probs"]])
    out.update({"sorted": rows, "sorted_probs": row_probs, "grad.x": x.grad,
                "grad.chunk_probs": probs.grad})

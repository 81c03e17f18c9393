"""ep_all_to_all: the package's collectives, of tensors and of codes.

Dispatch and combine of te.ep leave the order of the rows that arrive to the
transport, and it has no all-to-all of its own: those cases are unsupported.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from assay.worker.call import Call, Refused, Result, Unsupported
from assay.worker.te_provider import quantizers
from assay.worker.te_provider.api import call_named, require
from assay.worker.te_provider.quantizers import Codes
from assay.worker.torch_provider.collectives import check_ranks, part

ADAPTER = 1
_PATH = "transformer_engine.pytorch."
_DISTRIBUTED = _PATH + "distributed."
API = [_PATH + "ep.ep_prepare", _PATH + "ep.ep_dispatch",
       _PATH + "ep.ep_combine", _DISTRIBUTED + "gather_along_first_dim",
       _DISTRIBUTED + "reduce_scatter_along_first_dim",
       _DISTRIBUTED + "allreduce"]
KINDS = {"mxfp8": "MXFP8Quantizer", "block": "Float8BlockQuantizer",
         "current": "Float8CurrentScalingQuantizer"}
UNORDERED = ("ep", "ep_codes", "all_to_all", "reduce_scatter_codes")


def run(call: Call) -> Result:
    check_ranks(call)
    if call.op in UNORDERED:
        raise Unsupported(f"no {call.op} with an order of its rows")
    if call.op not in RUNS:
        raise Refused(f"op: {call.op}")
    result = Result()
    RUNS[call.op](call, result.outputs)
    return result


def first(answer: object) -> torch.Tensor:
    """Collectives give (tensor, handle)."""
    return answer[0] if isinstance(answer, tuple) else answer


def all_gather(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    outputs["gathered"] = first(call_named(require(API[3]), {
        "inp": part(call.inputs["x"], 0, call),
        "process_group": dist.group.WORLD}))


def all_gather_codes(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    """One scale of the tensor being that of all."""
    arguments: dict[str, object] = {"fp8_dtype": quantizers.te_format("E4M3")}
    if call.quantizer == "current":
        arguments.update(device=call.device, with_amax_reduction=True,
                         amax_reduction_group=dist.group.WORLD)
    if call.quantizer == "block":
        arguments["block_scaling_dim"] = 1
    kind = KINDS[call.quantizer]
    x = part(call.inputs["x"], 0, call)
    gathered = first(call_named(require(API[3]), {
        "inp": x, "process_group": dist.group.WORLD,
        "quantizer": quantizers.make(kind, arguments, columnwise=False)}))
    codes = Codes(gathered, kind, False, *call.inputs["x"].shape)
    outputs["gathered.codes"] = codes.data()
    outputs["gathered.scale_inv"] = codes.scale_inv()


def all_reduce(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    outputs["reduced"] = first(call_named(require(API[5]), {
        "inp": call.inputs["parts"][call.rank].clone(),
        "tp_group": dist.group.WORLD}))


def reduce_scatter(call: Call, outputs: dict[str, torch.Tensor]) -> None:
    outputs["scattered"] = first(call_named(require(API[4]), {
        "inp": call.inputs["parts"][call.rank].clone(),
        "tp_group": dist.group.WORLD}))


RUNS = {"all_gather": all_gather, "all_gather_codes": all_gather_codes,
        "all_reduce": all_reduce, "reduce_scatter": reduce_scatter}

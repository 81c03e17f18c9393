"""router: the three fused functions of the router, forward and backward.

The numbers of the score functions are not to be seen from Python: no `enums`.
"""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Result
from assay.worker.te_provider.api import call_named, require
from assay.worker.torch_provider.router import BINS, LOWER, UPPER

ADAPTER = 1
_PATH = "transformer_engine.pytorch.router."
API = [_PATH + "fused_topk_with_score_function",
       _PATH + "fused_compute_score_for_moe_aux_loss",
       _PATH + "fused_moe_aux_loss", _PATH + "RoutingMapFormat"]


def run(call: Call) -> Result:
    result = Result()
    choose(call, result.outputs)
    balance(call, result.outputs)
    return result


def logits_of(call: Call) -> torch.Tensor:
    """The spec's logits, exact in every dtype."""
    given = call.inputs["logits"]
    if call.values == "spaced":
        given = (given.float() / -16).to(given.dtype)
    return given.detach().requires_grad_()


def map_format(call: Call) -> dict[str, typing.Any]:
    """Older releases know bytes alone, and no name for them."""
    if call.routing_map_format == "BYTEMAP":
        return {}
    return {"routing_map_format": getattr(require(API[3]),
                                          call.routing_map_format)}


def histogram_arguments(call: Call) -> dict[str, typing.Any]:
    if not call.quantile:
        return {}
    return {"qb_histogram": torch.zeros(call.experts, BINS, dtype=torch.int32,
                                        device=call.device),
            "qb_bin_bounds": torch.tensor([LOWER, UPPER], device=call.device),
            "qb_histogram_mode": "two_kernel"}


def choose(call: Call, out: dict[str, torch.Tensor]) -> None:
    logits = logits_of(call)
    histogram = histogram_arguments(call)
    answer = call_named(require(API[0]), {
        "logits": logits, "topk": call.topk,
        "use_pre_softmax": call.use_pre_softmax,
        "num_groups": call.num_groups or None,
        "group_topk": call.group_topk or None,
        "scaling_factor": call.scaling_factor,
        "score_function": call.score_function,
        "expert_bias": call.inputs.get("expert_bias"),
        **map_format(call), **histogram})
    probs, routing_map = answer[:2]
    probs.backward(call.inputs["d_probs"])
    out.update({"probs": probs, "routing_map": routing_map,
                "grad.logits": logits.grad})
    if histogram:
        out["qb_histogram"] = histogram["qb_histogram"]


def balance(call: Call, out: dict[str, torch.Tensor]) -> None:
    logits = logits_of(call)
    routing_map, scores = call_named(require(API[1]), {
        "logits": logits, "topk": call.topk,
        "score_function": call.score_function, **map_format(call)})
    scores.backward(call.inputs["d_scores"])
    probs = call.inputs["aux_probs"].detach().requires_grad_()
    loss = call_named(require(API[2]), {
        "probs": probs, "tokens_per_expert": call.inputs["tokens_per_expert"],
        "total_num_tokens": max(1, call.tokens), "num_experts": call.experts,
        "topk": call.topk, "coeff": call.coeff})
    loss.backward(call.inputs["d_loss"].reshape(loss.shape))
    out.update({"aux_scores": scores, "aux_routing_map": routing_map,
                "grad.aux_logits": logits.grad, "aux_loss": loss.reshape(1),
                "grad.aux_probs": probs.grad})

"""router: scores, the best experts of a token, their weights; the scores of
the balancing loss; the loss. In float32, each result rounded once.

    weights of softmax: over all experts before the choice, or over the chosen;
    of sigmoid and sqrtsoftplus: s / (sum of the chosen s + 1e-20) for topk > 1
    loss = E coeff / (topk T^2) sum_e tokens_e sum_t probs[t, e]
"""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result

ADAPTER = 1
BINS, LOWER, UPPER = 16, -1.0, 1.0

ENUMS = {"score_function": {"sigmoid": 0, "softmax": 1, "sqrtsoftplus": 2}}


def scores(x: torch.Tensor, function: str) -> torch.Tensor:
    if function == "softmax":
        return torch.softmax(x, -1)
    if function == "sigmoid":
        return torch.sigmoid(x)
    if function != "sqrtsoftplus":
        raise Refused(f"score_function {function}")
    return torch.nn.functional.softplus(x, threshold=1e9).sqrt()


def best(x: torch.Tensor, k: int) -> torch.Tensor:
    """Indices of the k largest, of equal ones the first."""
    return torch.sort(x, dim=-1, descending=True, stable=True)[1][..., :k]


def map_of(indices: torch.Tensor, experts: int) -> torch.Tensor:
    chosen = torch.zeros(indices.shape[0], experts, dtype=torch.bool,
                         device=indices.device)
    return chosen.scatter_(1, indices, True)


def within_groups(call: Call, ranking: torch.Tensor) -> torch.Tensor:
    """-inf for the experts of groups that are not among the best."""
    if call.num_groups == 0:
        return ranking
    grouped = ranking.unflatten(1, (call.num_groups, -1))
    members = torch.sort(grouped, -1, descending=True)[0]
    group = members[..., :call.topk // call.group_topk].sum(-1)
    allowed = map_of(best(group, call.group_topk), call.num_groups)
    return torch.where(allowed[..., None], grouped,
                       -torch.inf).flatten(1)


def weights(call: Call, x: torch.Tensor,
            chosen: torch.Tensor) -> torch.Tensor:
    """[T, E], zero where not chosen; differentiable in x."""
    if call.score_function == "softmax" and not call.use_pre_softmax:
        w = torch.softmax(torch.where(chosen, x, -torch.inf), -1)
    else:
        w = torch.where(chosen, scores(x, call.score_function), 0.0)
        if call.score_function != "softmax" and call.topk > 1:
            w = w / (w.sum(-1, keepdim=True) + 1e-20)
    return torch.where(chosen, w, 0.0) * call.scaling_factor


def choose(call: Call, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    ranking = scores(x, call.score_function)
    if call.score_function == "softmax" and not call.use_pre_softmax:
        ranking = x
    if "expert_bias" in call.inputs:
        ranking = ranking + call.inputs["expert_bias"].float()
    indices = best(within_groups(call, ranking), call.topk)
    return map_of(indices, x.shape[1]), ranking


def histogram(ranking: torch.Tensor, unbiased: torch.Tensor,
              topk: int) -> torch.Tensor:
    """Of every expert the bias that would just have routed each token to it:
    the best ranking that was not chosen less the expert's score."""
    cutoff = torch.sort(ranking, -1, descending=True)[0][:, topk:topk + 1]
    bins = ((cutoff - unbiased - LOWER) * (BINS / (UPPER - LOWER))).floor()
    bins = bins.clamp(0, BINS - 1).long()
    counts = torch.zeros(ranking.shape[1], BINS, dtype=torch.int32,
                         device=ranking.device)
    ones = torch.ones_like(bins, dtype=torch.int32)
    return counts.scatter_add_(1, bins.T, ones.T)


def in_format(call: Call, chosen: torch.Tensor) -> torch.Tensor:
    """The map, or a bit an expert: expert 8 b + i in bit i of byte b."""
    if call.routing_map_format == "BYTEMAP":
        return chosen
    padded = torch.nn.functional.pad(chosen.to(torch.uint8),
                                     (0, -chosen.shape[1] % 8))
    bits = padded.unflatten(1, (-1, 8)) << torch.arange(
        8, dtype=torch.uint8, device=chosen.device)
    return bits.sum(-1, dtype=torch.uint8)


def gradient(y: torch.Tensor, x: torch.Tensor, dy: torch.Tensor,
             dtype: torch.dtype) -> torch.Tensor:
    return torch.autograd.grad(y, x, dy.float())[0].to(dtype)


def run(call: Call) -> Result:
    if call.topk > call.experts:
        raise Refused("topk: more than experts")
    if call.score_function == "softmax" and "expert_bias" in call.inputs:
        raise Refused("expert_bias: given with softmax scores")
    dtype = call.torch_dtype
    given = call.inputs["logits"].float()
    x = (given / -16 if call.values == "spaced" else given).detach()
    x.requires_grad_()
    result = Result(contract={"enums": ENUMS})
    out = result.outputs
    chosen, ranking = choose(call, x)
    probs = weights(call, x, chosen)
    out["probs"] = probs.to(dtype)
    out["routing_map"] = in_format(call, chosen)
    out["grad.logits"] = gradient(probs, x, call.inputs["d_probs"], dtype)
    if call.quantile:
        out["qb_histogram"] = histogram(
            ranking.detach(), torch.sigmoid(x.detach()), call.topk)
    balance(call, x, out)
    return result


def balance(call: Call, x: torch.Tensor, out: dict[str, torch.Tensor]) -> None:
    s = scores(x, call.score_function)
    if call.score_function != "softmax":
        s = s / (s.sum(-1, keepdim=True) + 1e-20)
    out["aux_scores"] = s
    out["aux_routing_map"] = in_format(
        call, map_of(best(s, call.topk), call.experts))
    out["grad.aux_logits"] = gradient(s, x, call.inputs["d_scores"],
                                      call.torch_dtype)
    probs, counts = call.inputs["aux_probs"], call.inputs["tokens_per_expert"]
    total = max(1, call.tokens)
    factor = call.experts * call.coeff / (call.topk * total**2)
    loss = factor * (counts.float() * probs.float().sum(0)).sum()
    out["aux_loss"] = loss.to(probs.dtype).reshape(1)
    row = factor * call.inputs["d_loss"].float() * counts.float()
    out["grad.aux_probs"] = row.to(probs.dtype).expand(
        call.tokens, call.experts).contiguous()

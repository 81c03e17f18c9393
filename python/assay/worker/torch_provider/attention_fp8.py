"""FP8 attention (fp8_dpa) as NVTE's unfused path emulates it: tensors between
the products are quantised and decoded (QDQ), everything else is in the dtype
of the inputs.

    forward   q, k, v = QDQ(q, k, v); p = softmax(scale q k^T)
              s = QDQ(p); out = QDQ(s v)
    backward  g = QDQ(d_out); dv = s^T g; dp = g v^T
              dx = QDQ(p (dp - sum p dp)); dq = scale dx k; dk = scale dx^T q
              dq, dk, dv = QDQ(dq, dk, dv)

QDQ has no gradient of its own. Tensors that it takes together have one scale.
Logits, p, dp, dx and the products are rounded to the dtype. MXFP8 quantises q,
k, v and d_out alone, each along its channels.
"""

from __future__ import annotations

import dataclasses

import torch

from assay.worker.call import Call, Refused
from assay.worker.torch_provider import attention, quantize
from assay.worker.torch_provider.attention_problem import (Problem,
                                                           heads_first, put,
                                                           shaped)
from assay.worker.torch_provider.delayed import DelayedState
from assay.worker.torch_provider.formats import E4M3, E5M2
from assay.worker.torch_provider.recipes import HISTORY

Tensors = list[torch.Tensor]
# Slots of the histories, three for each of NVTE's three products of attention.
FORWARD = {"qkv": 2, "out": 3, "s": 8}
BACKWARD = {"d_qkv": 0, "d_out": 3, "dx": 5}


class Quantizers:
    """Of one module, over the steps of a case."""

    def __init__(self, call: Call):
        if call.recipe not in ("delayed", "current", "mxfp8"):
            raise Refused(f"fp8_dpa: {call.recipe}, expected delayed, current "
                          "or mxfp8")
        self.recipe, self.dtype = call.recipe, call.torch_dtype
        self.forward = DelayedState(HISTORY, 9, E4M3.largest,
                                    device=call.device)
        self.backward = DelayedState(HISTORY, 6, E5M2.largest,
                                     device=call.device)

    def qdq(self, role: str, tensors: Tensors) -> Tensors:
        """fp32 values of the dtype, in the shapes that they came in."""
        if self.recipe == "mxfp8":
            if role not in ("qkv", "d_out"):
                return tensors
            return [self._rounded(quantize.mxfp8(t, E4M3).matrix(), t)
                    for t in tensors]
        flat = torch.cat([t.reshape(-1) for t in tensors])[None]
        parts = self._decoded(role, flat).flatten().split(
            [t.numel() for t in tensors])
        return [self._rounded(part, t) for part, t in zip(parts, tensors)]

    def _decoded(self, role: str, flat: torch.Tensor) -> torch.Tensor:
        ahead = role in FORWARD
        target = E4M3 if ahead else E5M2
        if self.recipe == "current":
            return quantize.current(flat, target).matrix()
        state = self.forward if ahead else self.backward
        slot = FORWARD[role] if ahead else BACKWARD[role]
        return state.quantize(flat, slot, target).matrix()

    def _rounded(self, values: torch.Tensor,
                 like: torch.Tensor) -> torch.Tensor:
        return values.to(self.dtype).float().reshape(like.shape)

    def histories(self) -> dict[str, torch.Tensor]:
        """Under the names of the state dict."""
        if self.recipe != "delayed":
            return {}
        return {f"_extra_state.{kind}_{name}": tensor
                for name, state in (("fwd", self.forward),
                                    ("bwd", self.backward))
                for kind, tensor in (("scale", state.scale),
                                     ("amax_history", state.history))}


@dataclasses.dataclass
class Sequence:
    """One of the batch; all float32 of the dtype's values, heads first."""

    q: torch.Tensor
    k: torch.Tensor  # spread over the heads that share it
    v: torch.Tensor
    p: torch.Tensor
    p_sink: torch.Tensor


class Attention:
    """The problem over quantisers: one forward, one backward."""

    def __init__(self, call: Call, quantizers: Quantizers):
        self.problem, self.quantizers = Problem(call), quantizers
        self.dtype = call.torch_dtype
        self.count = len(call.q_lengths)

    def rounded(self, t: torch.Tensor) -> torch.Tensor:
        return t.to(self.dtype).float()

    def sequence(self, b: int, q: torch.Tensor, k: torch.Tensor,
                 v: torch.Tensor) -> Sequence:
        problem = self.problem
        q = heads_first(problem.q_rows.of(q, b))
        k, v = (attention.spread(heads_first(problem.kv_rows.of(t, b)),
                                 problem.heads) for t in (k, v))
        size = q.shape[1], k.shape[1]
        logits = self.rounded(problem.scale * (q @ k.transpose(1, 2)))
        bias, seen = problem.bias(b, *size), problem.seen(b, *size)
        if bias is not None:
            logits = self.rounded(logits + bias)
        logits = torch.where(seen, logits, -torch.inf)
        p, p_sink = attention.softmax(logits, seen, problem.sink())
        return Sequence(q, k, v, self.rounded(p), p_sink)

    def forward(self, q: torch.Tensor, k: torch.Tensor,
                v: torch.Tensor) -> torch.Tensor:
        qkv = self.quantizers.qdq("qkv", [t.float() for t in (q, k, v)])
        self.sequences = [self.sequence(b, *qkv) for b in range(self.count)]
        self.s = self.quantizers.qdq("s", [one.p for one in self.sequences])
        out = q.new_zeros(*q.shape[:-1], v.shape[-1])
        for b, (one, s) in enumerate(zip(self.sequences, self.s)):
            put(self.problem.q_rows.of(out, b), s @ one.v)
        (out,) = self.quantizers.qdq("out", [out.float()])
        return out.to(self.dtype)

    def logit_gradient(self, one: Sequence, g: torch.Tensor,
                       ) -> tuple[torch.Tensor, torch.Tensor]:
        """dx before QDQ, and what the sink gets of this sequence."""
        dp = self.rounded(g @ one.v.transpose(1, 2))
        delta = (dp * one.p).sum(-1, keepdim=True)
        return (self.rounded(one.p * (dp - delta)),
                -(one.p_sink * delta).sum((1, 2)))

    def backward(self, d_out: torch.Tensor, like: Tensors,
                 ) -> tuple[Tensors, torch.Tensor]:
        """dq, dk and dv in the shapes of `like`; dsink in fp32."""
        problem = self.problem
        (g,) = self.quantizers.qdq("d_out", [d_out.float()])
        gs = [heads_first(problem.q_rows.of(g, b)) for b in range(self.count)]
        pairs = [self.logit_gradient(one, g)
                 for one, g in zip(self.sequences, gs)]
        dxs = self.quantizers.qdq("dx", [dx for dx, _ in pairs])
        grads = [t.new_zeros(t.shape) for t in like]
        for b, (one, s, dx, g) in enumerate(zip(self.sequences, self.s, dxs,
                                                gs)):
            groups = problem.groups
            put(problem.q_rows.of(grads[0], b), problem.scale * (dx @ one.k))
            put(problem.kv_rows.of(grads[1], b), attention.of_group(
                problem.scale * (dx.transpose(1, 2) @ one.q), groups))
            put(problem.kv_rows.of(grads[2], b), attention.of_group(
                s.transpose(1, 2) @ g, groups))
        grads = self.quantizers.qdq("d_qkv", [t.float() for t in grads])
        return ([t.to(self.dtype) for t in grads],
                sum(sink for _, sink in pairs))


def compute(call: Call, quantizers: Quantizers) -> dict[str, torch.Tensor]:
    """One step under a recipe."""
    if "bias" in call.inputs:
        raise Refused("bias: given, expected none beside fp8_dpa")
    q, k, v = (shaped(call, call.inputs[name], lengths)
               for name, lengths in (("q", call.q_lengths),
                                     ("k", call.kv_lengths),
                                     ("v", call.kv_lengths)))
    step = Attention(call, quantizers)
    out = step.forward(q, k, v)
    quantizers.forward.update()
    (dq, dk, dv), sink = step.backward(call.inputs["d_out"].view(out.shape),
                                       [q, k, v])
    quantizers.backward.update()
    outputs = {"out": out.flatten(-2), "grad.q": dq, "grad.k": dk,
               "grad.v": dv}
    if call.softmax_type == "learnable":
        outputs["grad.softmax_offset"] = sink
    return outputs

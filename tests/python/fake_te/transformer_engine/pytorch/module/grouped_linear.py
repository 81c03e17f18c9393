"""GroupedLinear with NVTE's signature."""

from __future__ import annotations

import torch

from transformer_engine.pytorch.gemm import (Apply, GemmModule, bias_gradient,
                                             pair, parameter)
from transformer_engine.pytorch.quantization import Regions


class GroupedLinear(GemmModule):

    def __init__(self, num_gemms, in_features, out_features,
                 sequence_parallel=False, fuse_wgrad_accumulation=False,
                 tp_group=None, tp_size=1, get_rng_state_tracker=None,
                 rng_tracker_name=None, init_method=None, bias=True,
                 return_bias=False, params_dtype=None, parallel_mode=None,
                 device="cuda", ub_overlap_rs=False, ub_overlap_ag=False,
                 ub_name=None, delay_wgrad_compute=False,
                 save_original_input=False, single_grouped_weight=False,
                 single_grouped_bias=False, name=None,
                 use_grouped_tensor=None):
        super().__init__(num_gemms, fuse_wgrad_accumulation,
                         delay_wgrad_compute)
        self.return_bias = return_bias
        self.save_original_input = save_original_input
        self._make("weight", (out_features, in_features),
                   single_grouped_weight, params_dtype, device)
        if bias:
            self._make("bias", (out_features,), single_grouped_bias,
                       params_dtype, device)

    def _make(self, kind, shape, single, dtype, device):
        if single:
            self.register_parameter(kind, parameter((self.gemms, *shape),
                                                    dtype, device))
            return
        for i in range(self.gemms):
            self.register_parameter(f"{kind}{i}", parameter(shape, dtype,
                                                            device))

    def _found(self, kind):
        if kind in self._parameters:
            return [self._parameters[kind]]
        return [self._parameters[f"{kind}{i}"] for i in range(self.gemms)
                if f"{kind}{i}" in self._parameters]

    def _split(self, kind):
        found = self._found(kind)
        return list(found[0]) if kind in self._parameters else found

    def forward(self, inp, m_splits, is_first_microbatch=None, out=None,
                dgrad_out=None):
        if len(m_splits) != self.gemms or sum(m_splits) != inp.shape[0]:
            raise ValueError(f"m_splits {m_splits}")
        recipe = Regions.recipe()
        if self.save_original_input and recipe and recipe.name == "delayed":
            raise ValueError("save_original_input with DelayedScaling")
        self.prepare(inp.dtype, inp.device, is_first_microbatch)
        weights = [w.detach() for w in self._split("weight")]
        biases = [b.detach() for b in self._split("bias")]
        saved = []

        def forward(x):
            ys = []
            for i, rows in enumerate(x.split(m_splits)):
                added = biases[i] if biases and not self.return_bias else None
                y, kept = self.products[i].fprop(rows, weights[i], added)
                ys.append(y)
                saved.append(kept)
            return torch.cat(ys)

        def backward(dy):
            dys = dy.split(m_splits)
            pairs = [p.backward(d, kept) for p, d, kept in
                     zip(self.products, dys, saved)]
            self.end_backward()
            parts = [dw for _, dw in pairs]
            if "weight" in self._parameters:
                parts = [torch.stack(parts)]
            grads = [self.weight_gradient(w, dw) for w, dw in
                     zip(self._found("weight"), parts)]
            db = [None if self.return_bias else bias_gradient(d, b)
                  for d, b in zip(dys, biases)]
            if "bias" in self._parameters and not self.return_bias:
                db = [torch.stack(db)]
            return torch.cat([dx for dx, _ in pairs]), (
                grads + db[:len(self._found("bias"))])

        y = Apply.apply(pair(forward, backward), inp, *self._found("weight"),
                        *self._found("bias"))
        return (y, self._split("bias")) if self.return_bias else y

"""Linear with NVTE's signature."""

from __future__ import annotations

import torch

from transformer_engine import variant
from transformer_engine.pytorch.gemm import (Apply, GemmModule, bias_gradient,
                                             pair, parameter)
from transformer_engine.pytorch.quantization import Regions


class Linear(GemmModule):

    def __init__(self, in_features, out_features, sequence_parallel=False,
                 fuse_wgrad_accumulation=False, tp_group=None, tp_size=1,
                 get_rng_state_tracker=None, rng_tracker_name=None,
                 init_method=None, bias=True, return_bias=False,
                 params_dtype=None, parallel_mode=None, parameters_split=None,
                 device="cuda", ub_overlap_ag=False, ub_overlap_rs=False,
                 ub_overlap_rs_dgrad=False, ub_bulk_dgrad=False,
                 ub_bulk_wgrad=False, ub_name=None, delay_wgrad_compute=False,
                 symmetric_ar_type=None, save_original_input=False, name=None):
        super().__init__(1, fuse_wgrad_accumulation, delay_wgrad_compute)
        self.return_bias = return_bias
        self.save_original_input = save_original_input
        split = parameters_split or {"": out_features}
        self.parts = [f"{part.rstrip('_')}_" if part else "" for part in split]
        self.rows = list(split.values())
        for part, rows in zip(self.parts, self.rows):
            self.register_parameter(f"{part}weight", parameter(
                (rows, in_features), params_dtype, device))
        for part, rows in zip(self.parts, self.rows):
            if bias:
                self.register_parameter(f"{part}bias", parameter(
                    (rows,), params_dtype, device))

    def _found(self, kind):
        return [self.get_parameter(part + kind) for part in self.parts
                if part + kind in self._parameters]

    def forward(self, inp, is_first_microbatch=None, fp8_output=False,
                fp8_grad=False):
        recipe = Regions.recipe()
        if self.save_original_input and recipe and recipe.name == "delayed":
            raise ValueError("save_original_input with DelayedScaling")
        self.prepare(inp.dtype, inp.device, is_first_microbatch)
        weights, biases = self._found("weight"), self._found("bias")
        weight = torch.cat([w.detach() for w in weights])
        bias = torch.cat([b.detach() for b in biases]) if biases else None
        saved = []

        def forward(x):
            y, kept = self.products[0].fprop(
                x, weight, None if self.return_bias else bias)
            saved.append(kept)
            return y

        def backward(dy):
            dx, dw = self.products[0].backward(dy, saved[0])
            self.end_backward()
            grads = [self.weight_gradient(w, part) for w, part in
                     zip(weights, dw.split(self.rows))]
            if bias is not None:
                grads += ([None] * len(biases) if self.return_bias else
                          bias_gradient(dy, bias).split(self.rows))
            return dx, grads

        y = Apply.apply(pair(forward, backward), inp, *weights, *biases)
        return (y, torch.cat(biases)) if self.return_bias else y


if variant.OLD:  # before save_original_input

    class OldLinear(Linear):

        def __init__(self, in_features, out_features,
                     fuse_wgrad_accumulation=False, bias=True,
                     return_bias=False, params_dtype=None,
                     parameters_split=None, device="cuda",
                     delay_wgrad_compute=False):
            super().__init__(in_features, out_features,
                             fuse_wgrad_accumulation=fuse_wgrad_accumulation,
                             bias=bias, return_bias=return_bias,
                             params_dtype=params_dtype,
                             parameters_split=parameters_split, device=device,
                             delay_wgrad_compute=delay_wgrad_compute)

    Linear = OldLinear

"""LayerNormLinear with NVTE's signature."""

from __future__ import annotations

from assay.worker.torch_provider import layernorm_linear
from assay.worker.torch_provider.norms import Norm
from transformer_engine.pytorch.gemm import (Apply, GemmModule, bias_gradient,
                                             pair, parameter)


class LayerNormLinear(GemmModule):

    def __init__(self, in_features, out_features, eps=1e-05,
                 sequence_parallel=False, fuse_wgrad_accumulation=False,
                 tp_group=None, tp_size=1, get_rng_state_tracker=None,
                 init_method=None, bias=True, normalization="LayerNorm",
                 return_bias=False, params_dtype=None, parallel_mode=None,
                 return_layernorm_output=False,
                 return_layernorm_output_gathered=False, parameters_split=None,
                 zero_centered_gamma=False, device="cuda", ub_overlap_ag=False,
                 ub_overlap_rs=False, ub_overlap_rs_dgrad=False,
                 ub_bulk_wgrad=False, ub_bulk_dgrad=False, ub_name=None,
                 delay_wgrad_compute=False, symmetric_ar_type=None, name=None):
        super().__init__(1, fuse_wgrad_accumulation, delay_wgrad_compute)
        self.norm = Norm(normalization, eps, zero_centered_gamma)
        self.return_bias = return_bias
        self.return_layernorm_output = return_layernorm_output
        names = {"layer_norm_weight": (in_features,),
                 "layer_norm_bias": (in_features,),
                 "weight": (out_features, in_features),
                 "bias": (out_features,)}
        absent = {"layer_norm_bias"} if normalization == "RMSNorm" else set()
        absent |= set() if bias else {"bias"}
        for key, shape in names.items():
            self.register_parameter(key, None if key in absent else parameter(
                shape, params_dtype, device))

    def forward(self, inp, is_first_microbatch=None, fp8_output=False,
                fp8_grad=False):
        self.prepare(inp.dtype, inp.device, is_first_microbatch)
        layer = layernorm_linear.NormLinear(
            self.norm, self.products[0], self.weight, self.bias,
            self.layer_norm_weight, self.layer_norm_bias,
            self.return_layernorm_output)
        named = list(self.named_parameters())

        def backward(dy, dz):
            dx, dw = layer.backward(dy, dz, inp.dtype)
            self.end_backward()
            grads = {"layer_norm_weight": layer.dgamma,
                     "layer_norm_bias": layer.dbeta,
                     "weight": self.weight_gradient(self.weight, dw)}
            if self.bias is not None and not self.return_bias:
                grads["bias"] = bias_gradient(dy, self.bias)
            return dx, [grads.get(name) for name, _ in named]

        y, z = Apply.apply(pair(
            lambda x: layer.forward(x, not self.return_bias), backward), inp,
            *(p for _, p in named))
        answer = [y]
        if self.return_bias:
            answer.append(self.bias)
        if self.return_layernorm_output:
            answer.append(z)
        return tuple(answer) if len(answer) > 1 else y

"""LayerNormMLP with NVTE's signature."""

from __future__ import annotations

from assay.worker.torch_provider import activations
from assay.worker.torch_provider.layernorm_linear import NormLinear
from assay.worker.torch_provider.layernorm_mlp import Mlp
from assay.worker.torch_provider.norms import Norm
from transformer_engine.pytorch.gemm import (Apply, GemmModule, bias_gradient,
                                             pair, parameter)


class LayerNormMLP(GemmModule):

    def __init__(self, hidden_size, ffn_hidden_size, eps=1e-05,
                 sequence_parallel=False, return_bias=False,
                 get_rng_state_tracker=None, tp_group=None, tp_size=1,
                 init_method=None, bias=True, normalization="LayerNorm",
                 activation="gelu", activation_params=None,
                 output_layer_init_method=None, fuse_wgrad_accumulation=False,
                 params_dtype=None, return_layernorm_output=False,
                 return_layernorm_output_gathered=False, seq_length=None,
                 micro_batch_size=None, set_parallel_mode=False,
                 zero_centered_gamma=False, device="cuda", ub_overlap_ag=False,
                 name=None, ub_overlap_rs=False, ub_overlap_rs_dgrad=False,
                 ub_bulk_dgrad=False, ub_bulk_wgrad=False,
                 delay_wgrad_compute=False, symmetric_ar_type=None,
                 checkpoint=False):
        super().__init__(2, fuse_wgrad_accumulation, delay_wgrad_compute)
        self.norm = Norm(normalization, eps, zero_centered_gamma)
        self.activation = activation
        self.return_bias = return_bias
        self.return_layernorm_output = return_layernorm_output
        rows = ffn_hidden_size * (2 if activations.is_gated(activation) else 1)
        names = {"layer_norm_weight": (hidden_size,),
                 "layer_norm_bias": (hidden_size,),
                 "fc1_weight": (rows, hidden_size), "fc1_bias": (rows,),
                 "fc2_weight": (hidden_size, ffn_hidden_size),
                 "fc2_bias": (hidden_size,)}
        absent = {"layer_norm_bias"} if normalization == "RMSNorm" else set()
        absent |= set() if bias else {"fc1_bias", "fc2_bias"}
        for key, shape in names.items():
            self.register_parameter(key, None if key in absent else parameter(
                shape, params_dtype, device))

    def forward(self, inp, is_first_microbatch=None):
        self.prepare(inp.dtype, inp.device, is_first_microbatch)
        fc1 = NormLinear(self.norm, self.products[0], self.fc1_weight,
                         self.fc1_bias, self.layer_norm_weight,
                         self.layer_norm_bias, self.return_layernorm_output)
        mlp = Mlp(fc1, self.activation, self.products[1], self.fc2_weight,
                  self.fc2_bias)
        named = list(self.named_parameters())

        def backward(dy, dz):
            dx = mlp.backward(dy, dz, inp.dtype)
            self.end_backward()
            grads = {"layer_norm_weight": fc1.dgamma,
                     "layer_norm_bias": fc1.dbeta, "fc1_bias": mlp.db1,
                     "fc1_weight": self.weight_gradient(self.fc1_weight,
                                                        mlp.dw1),
                     "fc2_weight": self.weight_gradient(self.fc2_weight,
                                                        mlp.dw2)}
            if self.fc2_bias is not None and not self.return_bias:
                grads["fc2_bias"] = bias_gradient(dy, self.fc2_bias)
            return dx, [grads.get(name) for name, _ in named]

        y, z = Apply.apply(pair(
            lambda x: mlp.forward(x, not self.return_bias), backward), inp,
            *(p for _, p in named))
        answer = [y]
        if self.return_bias:
            answer.append(self.fc2_bias)
        if self.return_layernorm_output:
            answer.append(z)
        return tuple(answer) if len(answer) > 1 else y

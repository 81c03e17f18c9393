"""Tables that callers read."""

import torch

from transformer_engine_torch import DType

TE_DType = {torch.float32: DType.kFloat32, torch.float16: DType.kFloat16,
            torch.bfloat16: DType.kBFloat16}
AttnMaskTypes = ("no_mask", "padding", "causal", "padding_causal",
                 "causal_bottom_right", "padding_causal_bottom_right",
                 "arbitrary")
AttnBiasTypes = ("pre_scale_bias", "post_scale_bias", "no_bias", "alibi")

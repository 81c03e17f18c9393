"""RMSNorm with NVTE's signature."""

from __future__ import annotations

from assay.worker.torch_provider import rmsnorm
from transformer_engine.pytorch.module.norm import Norm


class RMSNorm(Norm):
    run = staticmethod(rmsnorm.run)

    def __init__(self, normalized_shape=None, eps=1e-05,
                 sequence_parallel=None, params_dtype=None,
                 zero_centered_gamma=False, hidden_size=None, **kwargs):
        super().__init__(normalized_shape, eps, params_dtype,
                         zero_centered_gamma, ("weight",), **kwargs)

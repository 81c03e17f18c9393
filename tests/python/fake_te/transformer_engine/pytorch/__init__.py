"""What NVTE exports, as far as the fake goes."""

from transformer_engine import variant
from transformer_engine.pytorch import (attention, constants, module, ops,
                                        optimizers, permutation)
from transformer_engine.pytorch.attention import (DotProductAttention,
                                                  MultiheadAttention,
                                                  RotaryPositionEmbedding)
from transformer_engine.pytorch.cross_entropy import parallel_cross_entropy
from transformer_engine.pytorch.distributed import checkpoint
from transformer_engine.pytorch.fp8 import fp8_autocast
from transformer_engine.pytorch.module import (GroupedLinear, LayerNorm,
                                               LayerNormLinear, LayerNormMLP,
                                               Linear, RMSNorm)
from transformer_engine.pytorch.permutation import (
    moe_permute, moe_permute_and_pad_with_probs, moe_permute_with_probs,
    moe_sort_chunks_by_index, moe_sort_chunks_by_index_with_probs,
    moe_unpermute)
from transformer_engine.pytorch.quantization import autocast
from transformer_engine.pytorch.transformer import TransformerLayer

if variant.LEGACY:
    del autocast
if variant.MISSING:
    del RMSNorm

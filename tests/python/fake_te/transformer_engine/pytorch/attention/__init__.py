from transformer_engine.pytorch.attention.dot_product_attention import (
    DotProductAttention)
from transformer_engine.pytorch.attention.multi_head_attention import (
    MultiheadAttention)
from transformer_engine.pytorch.attention.rope import (
    RotaryPositionEmbedding, apply_rotary_pos_emb)

__all__ = ["DotProductAttention", "MultiheadAttention",
           "RotaryPositionEmbedding", "apply_rotary_pos_emb"]

from transformer_engine.pytorch.attention.dot_product_attention import (
    DotProductAttention)
from transformer_engine.pytorch.attention.rope import (
    RotaryPositionEmbedding, apply_rotary_pos_emb)

__all__ = ["DotProductAttention", "RotaryPositionEmbedding",
           "apply_rotary_pos_emb"]

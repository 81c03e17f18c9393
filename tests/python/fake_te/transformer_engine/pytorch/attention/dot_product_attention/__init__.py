from transformer_engine.pytorch.attention.dot_product_attention.dot_product_attention import (  # noqa: E501
    DotProductAttention)

__all__ = ["DotProductAttention"]

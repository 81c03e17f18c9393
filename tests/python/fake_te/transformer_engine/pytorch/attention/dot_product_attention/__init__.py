from transformer_engine.pytorch.attention.dot_product_attention import (
    dot_product_attention as _module)

DotProductAttention = _module.DotProductAttention
flat, lengths = _module.flat, _module.lengths

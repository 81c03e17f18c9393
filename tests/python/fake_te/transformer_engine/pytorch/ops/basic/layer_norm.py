from transformer_engine.pytorch.module.layernorm import LayerNorm

__all__ = ["LayerNorm"]

from transformer_engine.pytorch.cpp_extensions import fused_attn

__all__ = ["fused_attn"]

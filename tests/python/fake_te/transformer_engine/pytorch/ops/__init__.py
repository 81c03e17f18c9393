from transformer_engine.pytorch.ops.basic import LayerNorm
from transformer_engine.pytorch.ops.basic import RMSNorm

__all__ = ["LayerNorm", "RMSNorm"]

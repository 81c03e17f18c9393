from transformer_engine.pytorch.ops.basic.layer_norm import LayerNorm
from transformer_engine.pytorch.ops.basic.rmsnorm import RMSNorm

__all__ = ["LayerNorm", "RMSNorm"]

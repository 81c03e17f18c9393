from transformer_engine.pytorch.module.rmsnorm import RMSNorm

__all__ = ["RMSNorm"]

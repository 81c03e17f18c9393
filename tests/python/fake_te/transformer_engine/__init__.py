"""A TransformerEngine for tests: NVTE's layout and signatures of a handful of
modules, computed by the composites of assay.worker.torch_provider.

FAKE_TE makes it another release: legacy, positional, old, missing (variant.py).
"""

from transformer_engine import common, pytorch

__version__ = "2.20.0+fake"
__all__ = ["common", "pytorch"]

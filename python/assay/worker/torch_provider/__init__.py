"""The modules as composites of plain PyTorch, written from their formulas.

One file a module, with `ADAPTER` (its version) and `run(call)`. Nothing
of the engine is used: an independent second opinion on any torch device.
"""

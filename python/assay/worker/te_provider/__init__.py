"""The modules as the transformer_engine that can be imported computes them.

Any of them: NVIDIA's on cuda, a port on npu or musa, a drop-in on the CPU. One
file a module, with `ADAPTER`, `API` and `run(call)`. Nothing of
transformer_engine is imported before the provider starts; what a release lacks
is answered as unsupported.
"""

"""A code base that uses TransformerEngine, in a few of the ways there are."""

import transformer_engine.pytorch as te
from transformer_engine.common.recipe import DelayedScaling, Format

from layers import TERowLinear, permute

HAS_NORM = hasattr(te, "RMSNorm")


def build(hidden: int, group) -> te.Linear:
    recipe = DelayedScaling(fp8_format=Format.HYBRID, amax_history_len=16)
    with te.autocast(enabled=True, recipe=recipe, amax_reduction_group=group):
        first = te.Linear(hidden, hidden, bias=False)
        second = TERowLinear(hidden)
    assert isinstance(first, te.Linear)
    return second(permute(first))

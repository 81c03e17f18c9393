"""The deprecated spelling."""

from __future__ import annotations

import typing

from transformer_engine.pytorch.quantization import autocast


def fp8_autocast(enabled: bool = True, calibrating: bool = False,
                 fp8_recipe: typing.Any = None, fp8_group: typing.Any = None,
                 _graph: bool = False) -> autocast:
    return autocast(enabled, calibrating, fp8_recipe, fp8_group, _graph)

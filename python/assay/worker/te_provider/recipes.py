"""Recipes by the names of the specs, and the region they hold in."""

from __future__ import annotations

import contextlib
import typing

from assay.worker.call import Call
from assay.worker.te_provider.api import call_named, require, resolve

RECIPES = "transformer_engine.common.recipe."


def recipe(name: str) -> typing.Any | None:
    """None for "none". The settings are those of the engine's adapters: a
    history of 4; no stochastic rounding, whose draws nobody else can make."""
    if name == "none":
        return None
    if name == "delayed":
        return require(RECIPES + "DelayedScaling")(amax_history_len=4)
    if name == "nvfp4":
        return require(RECIPES + "NVFP4BlockScaling")(
            disable_stochastic_rounding=True)
    return require(RECIPES + {
        "current": "Float8CurrentScaling",
        "block": "Float8BlockScaling",
        "mxfp8": "MXFP8BlockScaling",
    }[name])()


def region(call: Call) -> typing.ContextManager[typing.Any]:
    """autocast, or fp8_autocast where the release is older than that."""
    wanted = recipe(call.parameters["recipe"])
    if wanted is None:
        return contextlib.nullcontext()
    autocast = resolve("transformer_engine.pytorch.autocast")
    if autocast is not None:
        return call_named(autocast, {"enabled": True, "recipe": wanted})
    legacy = require("transformer_engine.pytorch.fp8_autocast",
                     "transformer_engine.pytorch.fp8.fp8_autocast")
    return call_named(legacy, {"enabled": True, "fp8_recipe": wanted})

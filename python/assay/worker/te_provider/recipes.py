"""Recipes by the names of the specs, and the region they hold in."""

from __future__ import annotations

import contextlib
import typing

from assay.worker.call import Call
from assay.worker.te_provider.api import call_named, require, resolve

RECIPES = "transformer_engine.common.recipe."


# The settings of the engine's adapters: a history of 4; no stochastic
# rounding, whose draws nobody else can make.
NAMES = {"delayed": ("DelayedScaling", {"amax_history_len": 4}),
         "current": ("Float8CurrentScaling", {}),
         "block": ("Float8BlockScaling", {}),
         "mxfp8": ("MXFP8BlockScaling", {}),
         "nvfp4": ("NVFP4BlockScaling",
                   {"disable_stochastic_rounding": True})}


def recipe(name: str, **options: typing.Any) -> typing.Any | None:
    """None for "none". `options`: more arguments of the class."""
    if name == "none":
        return None
    found, settings = NAMES[name]
    return call_named(require(RECIPES + found), {**settings, **options})


def region(call: Call, group: typing.Any = None,
           **options: typing.Any) -> typing.ContextManager[typing.Any]:
    """autocast, or fp8_autocast where the release is older than that; amax is
    reduced over `group`."""
    override = call.parameters.get("backward_override", "none")
    if override != "none":
        options["backward_override"] = override
    wanted = recipe(call.parameters["recipe"], **options)
    if wanted is None:
        return contextlib.nullcontext()
    autocast = resolve("transformer_engine.pytorch.autocast")
    if autocast is not None:
        return call_named(autocast, {
            "enabled": True, "recipe": wanted,
            **({} if group is None else {"amax_reduction_group": group})})
    legacy = require("transformer_engine.pytorch.fp8_autocast",
                     "transformer_engine.pytorch.fp8.fp8_autocast")
    return call_named(legacy, {
        "enabled": True, "fp8_recipe": wanted,
        **({} if group is None else {"fp8_group": group})})

"""Regions of a recipe."""

from __future__ import annotations

import typing

from transformer_engine.common.recipe import DelayedScaling, Recipe


class Regions:
    """The innermost first; what its modules leave is rolled at the end."""

    open: typing.ClassVar[list[autocast]] = []

    @classmethod
    def recipe(cls) -> Recipe | None:
        return cls.open[-1].recipe if cls.open else None

    @classmethod
    def use(cls, products: list) -> None:
        if cls.open:
            cls.open[-1].used += products


class autocast:

    def __init__(self, enabled: bool = True, calibrating: bool = False,
                 recipe: Recipe | None = None,
                 amax_reduction_group: typing.Any = None,
                 _graph: bool = False):
        del calibrating, amax_reduction_group, _graph
        self.recipe = (recipe or DelayedScaling()) if enabled else None
        self.used: list = []

    def __enter__(self) -> autocast:
        Regions.open.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        Regions.open.remove(self)
        for products in self.used:
            products.update_forward()
        self.used = []

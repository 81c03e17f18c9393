"""Operations of te.ops by name, made with the settings of a case."""

from __future__ import annotations

import typing

from assay.worker.te_provider.api import call_named, require

PATH = "transformer_engine.pytorch.ops."


def operation(name: str, arguments: dict[str, typing.Any] | None = None,
              neutral: dict[str, typing.Any] | None = None) -> typing.Any:
    return call_named(require(PATH + name), arguments or {}, neutral)

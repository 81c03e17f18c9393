"""Assay: proves that a transformer computes the same on a new accelerator.

`import assay` is cheap: torch, numpy and the C++ library (assay._core) are
imported by the names that need them, at their first use. Modules of this
package take the library by `from assay import _core`, which says how to build
it where it is not there.
"""

from __future__ import annotations

import importlib
import sys
import types

# What `assay.NAME` is, and where it is defined.
_EXPORTS = {
    "Capture": "assay.capture.session",
    "Error": "assay._core",
    "Fuzz": "assay.fuzz",
    "OverflowStop": "assay.capture.overflow",
    "capture": "assay.capture.session",
    "check_determinism": "assay.determinism.check",
    "compare": "assay.pairs",
    "compare_devices": "assay.precheck",
    "error_stats": "assay.pairs",
    "fuzz": "assay.fuzz",
    "host_random": "assay.random.host",
    "precheck": "assay.precheck",
    "record_init": "assay.env.init",
    "save": "assay.capture.session",
    "seed_all": "assay.random.seeds",
    "watch": "assay.watch",
}

# Modules that are there without an import of their own.
_MODULES = ("env",)

__all__ = ["__version__", *_EXPORTS, *_MODULES]


def _library() -> types.ModuleType:
    try:
        return importlib.import_module("assay._core")
    except ModuleNotFoundError as error:
        if error.name != "assay._core":
            raise
    raise ImportError(
        f"the C++ library (assay._core) is not beside {__file__}: "
        "`pip install .` in the source tree builds it", name="assay._core")


def _found(home: str, name: str):
    if home == "assay._core":
        return getattr(_library(), name)
    try:
        return getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
    raise ModuleNotFoundError(
        f"assay.{name} needs torch, which {sys.executable} does not have",
        name="torch")


def __getattr__(name: str):
    if name == "_core":
        return _library()
    if name == "__version__":
        return _library().__version__
    if name in _MODULES:
        return importlib.import_module(f"assay.{name}")
    home = _EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    value = _found(home, name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(types.ModuleType):
    """`assay.capture` is the function, whoever imported its module when.

    The import system would put the module there once it is imported; without
    it, __getattr__ above finds the function.
    """

    def __setattr__(self, name: str, value) -> None:
        if name not in _EXPORTS or not isinstance(value, types.ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

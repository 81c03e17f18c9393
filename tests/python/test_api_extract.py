"""`assay.api.extract`: manifests of small packages, by hand."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from paths import ROOT

from assay.api import extract

PACKAGE = {
    "__init__.py": """
        from .module import Linear, Sub as Renamed
        from . import recipe
        from .recipe import *
        from .same import same
        from eng_torch import gemm
        __version__ = "2.3"
    """,
    "module.py": """
        import os, enum
        import torch
        from torch.nn import Parameter
        from .base import Base

        def scale(x, /, y, *rest, eps=1e-05, dtype=torch.float32, **more):
            pass

        if True:
            def nested(a=("x", 1), b=os.getenv("ENG_B", "0") == "1"):
                pass

        class Linear(Base):
            def __init__(self, size, bias=True, device='cuda'):
                self.weight = Parameter(size)
                self.register_parameter("bias", None)
                for i in range(3):
                    self.register_buffer(f"scale{i}", None)
            @property
            def shape(self): pass
            @classmethod
            def make(cls, n=0): pass
            @staticmethod
            def check(n): pass
            def _private(self): pass

        class Sub(Linear):
            def forward(self, x, *, first=None): pass

        _hidden = 1
    """,
    "same.py": """
        import eng_torch as tex
        def same(): pass
        Layout = tex.Layout
    """,
    "base.py": """
        class Base:
            def forward(self, x): pass
            def get_extra_state(self): pass
            def set_extra_state(self, state): pass
    """,
    "recipe.py": """
        import os
        from dataclasses import dataclass, field
        from enum import Enum, IntEnum, auto
        from typing import ClassVar, NamedTuple

        class Pair(NamedTuple):
            forward: float
            backward: float

        class Format(Enum):
            E4M3 = Pair(448, 448)
            E5M2 = Pair(57344, backward=57344)
            HYBRID = Pair(forward=E4M3.forward, backward=E5M2.backward)
            ODD = compute()

        class Mode(IntEnum):
            A = auto()
            B = 5
            C = auto()

        @dataclass(frozen=True)
        class Params:
            split: bool = True

        @dataclass
        class Recipe:
            name: ClassVar[str] = "r"
            margin: int = 0
            format: Format = Format.HYBRID

        @dataclass
        class Block(Recipe):
            params: Params = field(default_factory=lambda: Params(split=False))
            margin: int = 3
            mode: str = os.getenv("ENG_MODE", "mae").upper()
            required: int = field(kw_only=True)
    """,
}


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "eng"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / name).write_text(textwrap.dedent(text))
    return folder


@pytest.fixture
def symbols(package):
    document = extract.extract(str(package))
    assert document["problems"] == []
    return document["symbols"]


def names(parameters):
    return [(p["name"], p.get("default")) for p in parameters]


def test_header(package):
    document = extract.extract(str(package))
    assert (document["package"], document["version"], document["how"]) == (
        "eng", "2.3", "sources")
    assert document["assay_api_manifest"] == 1


def test_import_paths(symbols):
    assert symbols["eng.module.Linear"]["paths"] == [
        "eng.Linear", "eng.module.Linear"]
    assert symbols["eng.module.Sub"]["paths"] == [
        "eng.Renamed", "eng.module.Sub"]
    assert "eng.Format" in symbols["eng.recipe.Format"]["paths"]
    assert symbols["eng.recipe"] == {"kind": "module", "paths": ["eng.recipe"]}
    assert "eng.module._hidden" not in symbols


def test_names_of_the_compiled_companion(symbols):
    assert symbols["eng_torch.gemm"] == {"kind": "external",
                                         "paths": ["eng.gemm"]}
    assert symbols["eng.same.Layout"]["kind"] == "external"


def test_a_function_of_the_name_of_its_module(symbols):
    """`eng.same` is the module, and after `from .same import same` it."""
    kinds = {s["kind"] for s in symbols.values() if "eng.same" in s["paths"]}
    assert kinds == {"module", "function"}


def test_function(symbols):
    found = symbols["eng.module.scale"]
    assert found["kind"] == "function"
    assert found["parameters"] == [
        {"name": "x", "kind": "positional-only"},
        {"name": "y", "kind": "positional"},
        {"name": "rest", "kind": "var-positional"},
        {"name": "eps", "kind": "keyword", "default": "1e-05"},
        {"name": "dtype", "kind": "keyword", "default": "float32"},
        {"name": "more", "kind": "var-keyword"},
    ]


def test_defaults_without_and_with_the_environment(symbols):
    a, b = symbols["eng.module.nested"]["parameters"]
    assert a["default"] == "('x', 1)"
    assert (b["default"], b["env"]) == ("False", "ENG_B")


def test_class(symbols):
    found = symbols["eng.module.Linear"]
    methods = found["methods"]
    assert names(methods["__init__"]["parameters"]) == [
        ("size", None), ("bias", "True"), ("device", "'cuda'")]
    assert methods["shape"] == {"kind": "property"}
    assert methods["make"]["kind"] == "classmethod"
    assert names(methods["make"]["parameters"]) == [("n", "0")]
    assert names(methods["check"]["parameters"]) == [("n", None)]
    assert "_private" not in methods
    assert found["state_dict"] == ["bias", "scale{}", "weight"]
    assert found["extra_state"] is True
    assert "state_dict_is_open" not in found


def test_names_of_state_that_are_computed_leave_the_list_open(package):
    (package / "open.py").write_text(
        "class A:\n    def __init__(self, names):\n"
        "        for name in names: self.register_parameter(name, None)\n")
    symbols = extract.extract(str(package))["symbols"]
    assert symbols["eng.open.A"]["state_dict_is_open"] is True
    assert "state_dict" not in symbols["eng.open.A"]


def test_inherited_methods_of_the_package(symbols):
    methods = symbols["eng.module.Sub"]["methods"]
    assert names(methods["forward"]["parameters"]) == [
        ("x", None), ("first", "None")]
    assert names(methods["__init__"]["parameters"])[0] == ("size", None)
    assert symbols["eng.module.Sub"]["state_dict"] == [
        "bias", "scale{}", "weight"]


def test_enums(symbols):
    assert symbols["eng.recipe.Format"] == {
        "kind": "enum", "values": {
            "E4M3": "(448, 448)", "E5M2": "(57344, 57344)",
            "HYBRID": "(448, 57344)", "ODD": "<compute()>"},
        "paths": ["eng.Format", "eng.recipe.Format"]}
    assert symbols["eng.recipe.Mode"]["values"] == {
        "A": "1", "B": "5", "C": "6"}


def test_dataclasses_with_inherited_fields(symbols):
    found = symbols["eng.recipe.Block"]
    assert found["kind"] == "dataclass"
    assert names(found["fields"]) == [
        ("margin", "3"), ("format", "Format.HYBRID"),
        ("params", "Params(split=False)"), ("mode", "'MAE'"),
        ("required", None)]
    assert found["fields"][3]["env"] == "ENG_MODE"


def test_nothing_is_executed(package, tmp_path):
    flag = tmp_path / "ran"
    (package / "evil.py").write_text(f"open({str(flag)!r}, 'w')\n")
    extract.extract(str(package))
    assert not flag.exists()


def test_unreadable_modules_are_named(package):
    (package / "broken.py").write_text("def f(:\n")
    (package / "deep.py").write_text("x = " + "a + " * 20000 + "a\n")
    document = extract.extract(str(package))
    named = {p["file"].split("/")[-1] for p in document["problems"]}
    # Some releases of Python do parse the sum.
    assert "broken.py" in named
    assert ("deep.py" in named) != ("eng.deep.x" in document["symbols"])
    assert "eng.module.Linear" in document["symbols"]


def test_bases_in_a_circle_end(package):
    (package / "circle.py").write_text(
        "class A(B): pass\nclass B(A):\n    def f(self): pass\n")
    symbols = extract.extract(str(package))["symbols"]
    assert "f" in symbols["eng.circle.A"]["methods"]


def test_bases_that_fan_out_take_no_exponential_time(package):
    lines = ["class A0:\n    def f(self): pass", "class B0: pass"]
    for i in range(1, 60):
        lines += [f"class {x}{i}(A{i - 1}, B{i - 1}): pass" for x in "AB"]
    (package / "fan.py").write_text("\n".join(lines))
    symbols = extract.extract(str(package))["symbols"]
    assert "f" in symbols["eng.fan.A59"]["methods"]


def test_a_chain_of_imports_beyond_reason_ends(package):
    for i in range(600):
        (package / f"m{i}.py").write_text(f"from .m{i + 1} import f\n")
    (package / "m600.py").write_text("def f(): pass\n")
    paths = extract.extract(str(package))["symbols"]["eng.m600.f"]["paths"]
    assert "eng.m599.f" in paths and "eng.m0.f" not in paths


def test_sets_do_not_depend_on_the_run(package):
    (package / "sets.py").write_text(
        "A = {'x': {'c', 'a', 'b'}, 'y': ('z',), 'n': [1e-05, None]}\n")
    found = {}
    for seed in ("1", "2", "3"):
        result = subprocess.run(
            [sys.executable, "-m", "assay.api", "extract", str(package)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH":
                 str(ROOT / "python")}, capture_output=True, check=True)
        found[result.stdout] = seed
    (document,) = found
    symbols = json.loads(document)["symbols"]
    assert symbols["eng.sets.A"]["value"] == (
        "{'x': {'a', 'b', 'c'}, 'y': ('z',), 'n': [1e-05, None]}")


def test_no_such_package():
    with pytest.raises(OSError):
        extract.extract("no_such_package_at_all")
    with pytest.raises(OSError):
        extract.extract("../etc")


def test_the_same_package_gives_the_same_document(package):
    assert extract.extract(str(package)) == extract.extract(str(package))


LIVE = {
    "__init__.py": """
        import enum, dataclasses
        print("noise")
        from .part import Linear as Other
        __version__ = "9"
        class Format(enum.Enum):
            E4M3 = (448, 448)
        @dataclasses.dataclass
        class Recipe:
            format: Format = Format.E4M3
            history: list = dataclasses.field(default_factory=list)
        def f(x, *, y=Format.E4M3, z=object()): pass
    """,
    "part.py": """
        class Linear:
            def __init__(self, size, bias=True): pass
            @classmethod
            def make(cls, n): pass
    """,
    "bad.py": "raise RuntimeError('no\\ndevice')\n",
    "__main__.py": "raise SystemExit('a program was run')\n",
}


@pytest.fixture
def live(tmp_path, monkeypatch):
    folder = tmp_path / "eng_live"
    folder.mkdir()
    for name, text in LIVE.items():
        (folder / name).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield extract.extract("eng_live", imported=True)
    for name in [n for n in sys.modules if n.split(".")[0] == "eng_live"]:
        del sys.modules[name]


def test_imported_package(live):
    symbols = live["symbols"]
    assert (live["how"], live["version"]) == ("import", "9")
    assert symbols["eng_live.Format"]["values"] == {"E4M3": "(448, 448)"}
    assert names(symbols["eng_live.Recipe"]["fields"]) == [
        ("format", "Format.E4M3"), ("history", "[]")]
    assert symbols["eng_live.part.Linear"]["paths"] == [
        "eng_live.Other", "eng_live.part.Linear"]
    methods = symbols["eng_live.part.Linear"]["methods"]
    assert names(methods["__init__"]["parameters"]) == [
        ("size", None), ("bias", "True")]
    assert names(methods["make"]["parameters"]) == [("n", None)]


def test_values_that_have_no_text_are_said_to_have_none(live):
    parameters = live["symbols"]["eng_live.f"]["parameters"]
    assert names(parameters) == [("x", None), ("y", "Format.E4M3"),
                                 ("z", "<value>")]


def test_modules_that_fail_to_import_are_named(live):
    (problem,) = live["problems"]
    assert problem["file"] == "eng_live.bad"
    assert "RuntimeError: no device" in problem["reason"]

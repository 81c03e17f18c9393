"""`assay.api.scan`: each kind of use, on small sources, counted by hand."""

import os
import textwrap

import pytest

from assay.api import scan

ROOTS = scan.default_roots("eng")


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def scanned(folder, files, without=()):
    return scan.scan([str(write(folder, files))], ROOTS, without)


@pytest.fixture
def uses(tmp_path):
    """(api, member, kind) of each use in a file, by line."""

    def run(text, **files):
        document = scanned(tmp_path, {"user.py": text, **files})
        assert not document["problems"]
        sites = [(site["line"], api["name"], site.get("member", ""),
                  site["kind"]) for api in document["apis"]
                 for site in api["sites"]
                 if site["file"].endswith("user.py")]
        return [site[1:] for site in sorted(sites)]

    return run


def api_of(document, name):
    return next(api for api in document["apis"] if api["name"] == name)


def test_import_forms(uses):
    assert uses("""
        import eng
        import eng.torch as te
        import eng.torch.module.linear
        from eng.torch import Linear as L
        import eng_torch as tex
        import english, engine.torch
    """) == [
        ("eng", "", "import"),
        ("eng.torch", "", "import"),
        ("eng.torch.module.linear", "", "import"),
        ("eng.torch.Linear", "", "from-import"),
        ("eng_torch", "", "import"),
    ]


def test_aliases_are_reported(tmp_path):
    document = scanned(tmp_path, {"a.py": "from eng import Linear as L\n"})
    assert api_of(document, "eng.Linear")["sites"][0]["alias"] == "L"


def test_call_with_its_arguments(tmp_path):
    document = scanned(tmp_path, {"a.py": """
        import eng.torch as te
        te.Linear(4, 8, *more, bias=True, **rest)
        te.Linear(4, 8, 16)
    """})
    api = api_of(document, "eng.torch.Linear")
    assert (api["positionals"], api["keywords"]) == (3, ["*", "**", "bias"])
    assert [s["positionals"] for s in api["sites"]] == [2, 3]


def test_a_chain_is_one_use(uses):
    assert uses("""
        import eng
        f = eng.common.recipe.Format.HYBRID.value
        eng.torch.make(1)(2).x
    """) == [
        ("eng", "", "import"),
        ("eng.common.recipe.Format", "HYBRID.value", "load"),
        ("eng.torch.make", "", "call"),
    ]


def test_subclass_and_super(uses):
    assert uses("""
        from eng import Linear
        class Mine(Linear, Other):
            def __init__(self):
                super().__init__(1, bias=False)
            def forward(self, x):
                def inner():
                    return super(Mine, self).forward(x)
                return inner()
        class Further(Mine):
            def forward(self, x):
                return super().forward(x)
    """) == [
        ("eng.Linear", "", "from-import"),
        ("eng.Linear", "", "subclass"),
        ("eng.Linear", "__init__", "super-call"),
        ("eng.Linear", "forward", "super-call"),
    ]


def test_isinstance_of_one_several_and_unions(uses):
    found = uses("""
        import eng
        isinstance(x, eng.A)
        isinstance(x, (eng.B, eng.C, int))
        issubclass(t, eng.D | eng.E)
    """)
    assert [(n[-1], kind) for n, _, kind in found[1:]] == [
        (letter, "isinstance") for letter in "ABCDE"]


def test_attributes_probed_loaded_and_stored(uses):
    assert uses("""
        import eng
        eng.gemm = eng.torch.gemm
        hasattr(eng.torch, "RMSNorm")
        getattr(eng, "gemm", None)
        setattr(eng, "gemm", 1)
        del eng.gemm
        hasattr(eng, name)
    """) == [
        ("eng", "", "import"),
        ("eng.gemm", "", "store"),
        ("eng.torch.gemm", "", "load"),
        ("eng.torch", "", "load"),
        ("eng.torch.RMSNorm", "", "hasattr"),
        ("eng", "", "load"),
        ("eng.gemm", "", "getattr"),
        ("eng", "", "load"),
        ("eng.gemm", "", "store"),
        ("eng.gemm", "", "store"),
        ("eng", "", "load"),
    ]


def test_annotations_quoted_as_well(uses):
    found = uses("""
        import eng
        from typing import Optional
        a: eng.A = 0
        def f(x: Optional[eng.B], y: "eng.C", *z: "Optional[eng.D]") -> eng.E:
            pass
    """)
    assert [(n, kind) for n, _, kind in found[1:]] == [
        (f"eng.{letter}", "annotation") for letter in "ABCDE"]


def test_names_in_strings(uses):
    assert uses('''
        """Talks of eng.torch.Linear."""
        SAFE = {("eng.recipe", "Delayed"), ("eng", "local"), ("eng.x", "a b")}
        patch("eng.torch.Linear.forward")
        mode = "eng"
        text = "see eng.torch for more"
    ''') == [
        ("eng.recipe.Delayed", "", "string-name"),
        ("eng.x", "", "string-name"),
        ("eng.torch.Linear", "forward", "string-name"),
    ]


def test_dynamic_imports(uses):
    assert uses("""
        import importlib
        importlib.import_module("eng.torch")
        importlib.util.find_spec("eng")
        safe_import_from("eng.torch", "Linear")
        __import__("eng")
        important("else")
    """) == [
        ("eng.torch", "", "dyn-import"),
        ("eng", "", "dyn-import"),
        ("eng.torch.Linear", "", "dyn-import"),
        ("eng", "", "dyn-import"),
    ]


EXTENSIONS = """
    try:
        from eng.attention import _Split
        from eng.ops import gemm as general_gemm
        Split = _Split
    except ImportError:
        Split = None
    class Wrapped(general_gemm): pass
    def own(): pass
"""


def test_reexports_are_followed(uses):
    assert uses("""
        from pkg.ext import Split, general_gemm, Wrapped, own
        from pkg import again
        Split.apply(1)
        again(2)
        Wrapped(); own()
    """, **{"pkg/__init__.py": "from .ext import general_gemm as again",
            "pkg/ext.py": EXTENSIONS}) == [
        ("eng.attention._Split", "", "reexport-import"),
        ("eng.ops.gemm", "", "reexport-import"),
        ("eng.ops.gemm", "", "reexport-import"),
        ("eng.attention._Split", "apply", "call"),
        ("eng.ops.gemm", "", "call"),
    ]


def test_relative_and_star_reexports(tmp_path):
    document = scanned(tmp_path, {
        "pkg/__init__.py": "",
        "pkg/ext.py": "from eng import A",
        "pkg/star.py": "from .ext import *",
        "pkg/sub/__init__.py": "",
        "pkg/sub/user.py": "from ..star import A\nA()",
    })
    assert api_of(document, "eng.A")["kinds"] == {
        "from-import": 1, "reexport-import": 1, "call": 1}


def test_import_cycles_end(tmp_path):
    document = scanned(tmp_path, {
        "a.py": "from b import X\nX()", "b.py": "from a import X",
        "c.py": "from c import Y\nY = Y\nY()"})
    assert document["totals"]["uses"] == 0


def test_a_module_of_the_same_name_deeper_down_is_another(tmp_path):
    """`from typing import Any` is not `pkg/typing.py`."""
    document = scanned(tmp_path, {
        "pkg/__init__.py": "", "pkg/typing.py": "from eng import Any",
        "user.py": "from typing import Any\nAny()"})
    assert document["totals"]["uses"] == 1


def test_a_name_with_two_meanings_counts_for_both(uses):
    assert uses("""
        try:
            from eng import A as Tensor
        except ImportError:
            from eng.old import B as Tensor
            Tensor = None
        isinstance(x, Tensor)
    """) == [
        ("eng.A", "", "from-import"),
        ("eng.old.B", "", "from-import"),
        ("eng.A", "", "isinstance"),
        ("eng.old.B", "", "isinstance"),
    ]


def test_scopes_hide_and_end(uses):
    assert uses("""
        import eng
        def parameter(eng): eng.a()
        def local():
            eng = 1
            eng.b()
        def inner():
            from eng import c
            c()
        c()
        [eng.d for eng in range(3)]
        lambda eng: eng.e
        def reads(): return [eng.f for x in y]
        class Holder:
            from eng import g
            h = g()
            def method(self): g()
    """) == [
        ("eng", "", "import"),
        ("eng.c", "", "from-import"),
        ("eng.c", "", "call"),
        ("eng.f", "", "load"),
        ("eng.g", "", "from-import"),
        ("eng.g", "", "call"),
    ]


def test_a_global_import_in_a_function(uses):
    assert uses("""
        gemm = None
        def load():
            global gemm
            from eng import gemm
        def use():
            return gemm(1)
    """) == [("eng.gemm", "", "from-import"), ("eng.gemm", "", "call")]


def test_copies_in_variables_are_not_followed(uses):
    assert uses("""
        from eng import A
        kind = A
        kind(1)
    """) == [("eng.A", "", "from-import"), ("eng.A", "", "load")]


def test_folding(tmp_path):
    document = scanned(tmp_path, {"a.py": """
        import eng
        eng.fp8.State.reset()
        eng.fp8.State.table.x
        eng.offload.Enabled = True
        eng.fast._Split.apply
        eng.gemm.__name__
        eng.__version__
    """})
    members = {api["name"]: api["members"] for api in document["apis"]}
    assert members == {
        "eng": [], "eng.fp8.State": ["reset", "table.x"],
        "eng.offload": ["Enabled"], "eng.fast._Split": ["apply"],
        "eng.gemm": ["__name__"], "eng.__version__": []}
    assert document["totals"]["apis"] == 6
    assert document["totals"]["apis_with_members"] == 7


def test_totals_files_and_left_out_kinds(tmp_path):
    files = {"a.py": "from eng import A\nA.x = 1\n",
             "b.py": 'from eng import A\nN = "eng.b"\n', "c.py": "import os\n"}
    document = scanned(tmp_path, files)
    assert document["totals"] == {
        "uses": 4, "apis": 2, "apis_with_members": 3, "files": 2,
        "kinds": {"from-import": 2, "store": 1, "string-name": 1}}
    assert document["files_read"] == 3
    assert list(api_of(document, "eng.A")["files"].values()) == [2, 1]
    fewer = scanned(tmp_path, {}, without=["store", "string-name"])
    assert fewer["totals"]["uses"] == 2 and fewer["totals"]["apis"] == 1


def problems(document):
    return {os.path.basename(p["file"]): p["reason"]
            for p in document["problems"]}


def test_what_cannot_be_read_is_named_and_the_rest_goes_on(tmp_path):
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'\n")
    (tmp_path / "nul.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "big.py").write_bytes(b"#" * ((8 << 20) + 1))
    (tmp_path / "deep.py").write_text("(" * 5000 + ")" * 5000)
    (tmp_path / "sum.py").write_text("x = " + "a + " * 20000 + "a\n")
    document = scanned(tmp_path, {"broken.py": "def f(:\n",
                                  "good.py": "import eng\n"})
    found = problems(document)
    assert sorted(found) == ["big.py", "broken.py", "deep.py", "latin.py",
                             "nul.py", "sum.py"]
    assert "syntax error" in found["broken.py"]
    assert "MiB" in found["big.py"]
    assert document["totals"]["uses"] == 1


def test_a_declared_encoding_is_read(tmp_path):
    (tmp_path / "a.py").write_bytes(
        b"# -*- coding: latin-1 -*-\nimport eng\nx = '\xe9'\n")
    document = scanned(tmp_path, {})
    assert document["problems"] == [] and document["totals"]["uses"] == 1


def test_links_out_of_the_tree_are_not_followed(tmp_path):
    write(tmp_path / "outside", {"secret.py": "import eng", "d/x.py": ""})
    inside = write(tmp_path / "tree", {"a.py": "import eng\n"})
    (inside / "link.py").symlink_to(tmp_path / "outside/secret.py")
    (inside / "folder").symlink_to(tmp_path / "outside/d")
    (inside / "loop").symlink_to(inside)
    os.mkfifo(inside / "pipe.py")
    document = scan.scan([str(inside)], ROOTS)
    assert sorted(problems(document)) == ["folder", "link.py", "pipe.py"]
    assert document["totals"]["uses"] == 1


def test_star_imports_of_the_api_are_named_as_not_followed(tmp_path):
    document = scanned(tmp_path, {"a.py": "from eng.torch import *\nA()\n"})
    assert "not followed" in problems(document)["a.py"]
    assert api_of(document, "eng.torch")["kinds"] == {"from-import": 1}


def test_the_same_tree_gives_the_same_document(tmp_path):
    files = {"b/x.py": "import eng\neng.A()", "a/y.py": "from eng import A"}
    assert scanned(tmp_path, files) == scanned(tmp_path, {})


def test_one_file_and_overlapping_sources_count_once(tmp_path):
    write(tmp_path, {"a.py": "import eng\n"})
    file = str(tmp_path / "a.py")
    assert scan.scan([file], ROOTS)["totals"]["uses"] == 1
    assert scan.scan([str(tmp_path), file], ROOTS)["totals"]["uses"] == 1


def test_a_source_that_is_not_there(tmp_path):
    with pytest.raises(OSError):
        scan.scan([str(tmp_path / "no")], ROOTS)

"""The examples of docs/determinism.md print what they say."""

import doctest
import re

import pytest
import torch

from assay.random import switches
from paths import ROOT

TEXT = (ROOT / "docs/determinism.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)


def test_the_examples_run(monkeypatch):
    """In one session, top to bottom: later ones use names of earlier ones."""
    monkeypatch.setenv("PYTHONHASHSEED", "")  # put back after the test
    names = {}
    assert len(EXAMPLES) >= 5
    for i, text in enumerate(EXAMPLES):
        test = doctest.DocTestParser().get_doctest(
            text, names, f"determinism.md example {i}", None, 0)
        test.globs = names
        assert test.examples
        output = []
        result = doctest.DocTestRunner(verbose=False).run(
            test, out=output.append, clear_globs=False)
        assert result.failed == 0, "".join(output)


@pytest.mark.parametrize("name", switches.ENVIRONMENT)
def test_every_variable_is_in_the_document(name):
    row = next(line for line in TEXT.splitlines()
               if line.startswith("|") and f"`{name}`" in line)
    assert f"`{switches.ENVIRONMENT[name][0]}`" in row


def test_the_document_names_what_torch_refuses():
    for name in ("poisson", "binomial", "_standard_gamma",
                 "_sample_dirichlet"):
        assert f"`{name}`" in TEXT and hasattr(torch.ops.aten, name)

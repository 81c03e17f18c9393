#!/usr/bin/env python3
"""Tests of layers.py itself, on trees of a few files."""

import pathlib
import tempfile
import unittest

from layers import violations

EXCEPTIONS = {"te/modules/checkpoint.cpp": {"formats"}}
FORMATS = '#include "assay/formats/safetensors.h"\n'


def found(files, exceptions=None):
    """The violations of a tree that holds `files`, name -> text."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            path = root / "assay" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return list(violations(root, exceptions))


class Rules(unittest.TestCase):
    def test_directions(self):
        self.assertEqual(found({"te/ops/a.cpp":
                                '#include "assay/kernels/norm.h"\n'}, {}), [])
        (line,) = found({"core/a.cpp": '\n#include "assay/te/check.h"\n'}, {})
        self.assertIn("assay/core/a.cpp:2: core includes te", line)
        (line,) = found({"te/ops/a.cpp": FORMATS}, {})
        self.assertIn("te includes formats", line)

    def test_an_exception_is_of_one_file_and_one_folder(self):
        excepted = {"te/modules/checkpoint.cpp": FORMATS}
        self.assertEqual(found(excepted, EXCEPTIONS), [])
        for other in ("te/modules/checkpoint.h", "te/ops/checkpoint.cpp"):
            (line,) = found({**excepted, other: FORMATS}, EXCEPTIONS)
            self.assertIn(f"assay/{other}:1: te includes formats", line)
        (line,) = found({"te/modules/checkpoint.cpp":
                         FORMATS + '#include "assay/trace/trace.h"\n'},
                        EXCEPTIONS)
        self.assertIn("checkpoint.cpp:2: te includes trace", line)

    def test_an_exception_that_nothing_uses_is_a_violation(self):
        (line,) = found({"te/modules/checkpoint.cpp": "\n"}, EXCEPTIONS)
        self.assertIn("does not include formats", line)

    def test_headers_of_libraries_stay_out_of_ours(self):
        (line,) = found({"base/a.h": "#include <fmt/format.h>\n"}, {})
        self.assertIn("third-party header", line)
        self.assertEqual(found({"base/a.cpp": "#include <fmt/format.h>\n",
                                "base/a-inl.h": "#include <hwy/highway.h>\n"},
                               {}), [])


if __name__ == "__main__":
    unittest.main()

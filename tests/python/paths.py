"""Where the sources, the program and the Python package are."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSAY = ROOT / "build/release/bin/assay"
# The package as built: links to python/assay, and assay._core.
PACKAGE = ROOT / "build/release/python"
# What takes minutes is cut short, but in `make test-long`.
LONG = os.environ.get("ASSAY_LONG") == "1"

"""Where the sources and the program are."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSAY = ROOT / "build/release/bin/assay"
# What takes minutes is cut short, but in `make test-long`.
LONG = os.environ.get("ASSAY_LONG") == "1"

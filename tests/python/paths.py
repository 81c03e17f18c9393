"""Where the sources and the program are."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSAY = ROOT / "build/release/bin/assay"

"""Which release the fake is."""

import os

NAME = os.environ.get("FAKE_TE", "")
LEGACY = NAME == "legacy"  # fp8_autocast, import paths of 1.x
POSITIONAL = NAME == "positional"  # a binding that knows no names
OLD = NAME == "old"  # no NVFP4, no block scaling, fewer arguments
MISSING = NAME == "missing"  # pytorch.RMSNorm is not there

"""`python -m assay.determinism`."""

from __future__ import annotations

import sys

from assay.determinism.script import main

sys.exit(main())

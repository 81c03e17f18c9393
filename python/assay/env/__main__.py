"""`python -m assay.env`: libraries, switches and devices of this interpreter
as one line of JSON, for `assay env snapshot`. Needs nothing but Python."""

from __future__ import annotations

import json
import os
import sys

from assay.env.collect import collected


def main() -> None:
    # What torch or a driver prints while it starts goes to stderr.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    text = json.dumps(collected(import_torch=True), ensure_ascii=True)
    out.write(text + "\n")
    out.flush()
    sys.stderr.flush()
    os._exit(0)  # not by way of torch's end, which may take its time


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A "device" with one wrong kernel: the CPU, whose GELU is the tanh form
whatever the call asks for.

    assay precheck run examples/precheck/trace \
        --worker 'python3 examples/precheck/worker.py'
"""
import pathlib
import sys

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from assay.worker import __main__ as worker  # noqa: E402
from assay.worker.api_call import replay  # noqa: E402

healthy = replay.resolve


def tanh_form(x, approximate="none"):
    return torch.nn.functional.gelu(x, approximate="tanh")


replay.resolve = lambda api: (
    tanh_form if api == "Functional.gelu" else healthy(api))
worker.main()

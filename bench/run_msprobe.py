"""Runs msprobe's own comparison as a library (its command line wants CANN)
and prints the seconds it took, imports not counted."""

import argparse
import time

from msprobe.core.compare.auto_compare import compare_auto_mode
from msprobe.core.compare.utils import _compare_parser

parser = argparse.ArgumentParser()
_compare_parser(parser)
arguments = parser.parse_args()
start = time.time()
compare_auto_mode(arguments)
print("ELAPSED", time.time() - start)

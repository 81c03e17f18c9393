"""`python -m assay.api scan|extract`: a line of JSON on standard output.

Exit codes as those of the program: 0, 2 usage, 3 unreadable. What a document
says of files that could not be read is for the caller to judge.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Optional, Sequence

from assay.api import extract, scan
from assay.api.uses import KINDS


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m assay.api")
    verbs = top.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("scan", help="list every use of an API")
    one.add_argument("sources", nargs="+", metavar="SRC")
    one.add_argument("--root", action="append", metavar="NAME", default=[])
    one.add_argument("--without", action="append", choices=KINDS, default=[])
    two = verbs.add_parser("extract", help="the contract of a package")
    two.add_argument("package", metavar="PACKAGE")
    two.add_argument("--import", dest="imported", action="store_true",
                     help="import the package; this runs its code")
    return top


def run(arguments: argparse.Namespace) -> dict:
    if arguments.verb == "extract":
        return extract.extract(arguments.package, arguments.imported)
    roots = arguments.root or scan.default_roots("transformer_engine")
    return scan.scan(arguments.sources, roots, arguments.without)


def main(argv: Optional[Sequence[str]] = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        document = run(arguments)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{where}{error.strerror or error}", file=sys.stderr)
        return 3
    try:
        json.dump(document, sys.stdout, ensure_ascii=True)
        sys.stdout.write("\n")
        sys.stdout.flush()
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())

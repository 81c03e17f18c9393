#!/usr/bin/env python3
"""Checks that every #include under assay/ follows the allowed direction.

Run by ctest as `layers`. An edge that is not in ALLOWED fails with the file,
the line and what the folder may include. The same order stands in
assay/CMakeLists.txt; here it is enforced.
"""

import pathlib
import re
import sys

# folder -> folders it may include besides itself
ALLOWED = {
    "base": set(),
    "core": {"base"},
    "numerics": {"base", "core"},
    "kernels": {"base", "core", "numerics"},
    "formats": {"base", "core", "numerics"},
    "metrics": {"base", "core", "numerics", "kernels"},
    "trace": {"base", "core", "numerics", "formats", "metrics"},
    "compare": {"base", "core", "numerics", "formats", "metrics", "trace"},
    "report": {"base", "core", "numerics", "formats", "metrics", "trace",
               "compare"},
    "env": {"base", "core", "numerics", "kernels", "formats", "metrics",
            "trace", "compare", "report"},
    "te": {"base", "core", "numerics", "kernels"},
    "conform": {"base", "core", "numerics", "kernels", "formats", "metrics",
                "trace", "compare", "report", "te"},
    "precheck": {"base", "core", "numerics", "kernels", "formats", "metrics",
                 "trace", "compare", "report", "conform"},
    "cli": {"base", "core", "numerics", "kernels", "formats", "metrics",
            "trace", "compare", "report", "env", "te", "conform",
            "precheck"},
}
# file -> folders that it alone may include besides
EXCEPTIONS = {
    "te/modules/checkpoint.cpp": {"formats"},
}
# Third-party headers must stay out of ours.
FORBIDDEN_IN_HEADERS = re.compile(
    r"^\s*#include\s+<(fmt|CLI|rapidjson|nlohmann|yaml-cpp|tbb|xlsxwriter|xxhash|"
    r"zlib|libdeflate|hwy|dnnl|gtest|mpi|sqlite3)")
OURS = re.compile(r'^\s*#include\s+"assay/([a-z]+)/')


def violations(root, exceptions=None):
    exceptions = EXCEPTIONS if exceptions is None else exceptions
    unused = {(name, folder) for name in exceptions
              for folder in exceptions[name]}
    for path in sorted((root / "assay").rglob("*")):
        if path.suffix not in (".h", ".cpp") or "html" in path.parts:
            continue
        name = path.relative_to(root / "assay").as_posix()
        folder = name.split("/")[0]
        allowed = ALLOWED.get(folder)
        if allowed is None:
            yield f"{path}: folder {folder} is not in the table"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = OURS.search(line)
            if found and found[1] in exceptions.get(name, ()):
                unused.discard((name, found[1]))
            elif found and found[1] != folder and found[1] not in allowed:
                yield (f"{path.relative_to(root)}:{number}: {folder} includes "
                       f"{found[1]}, may include {sorted(allowed)}")
            # *-inl.h files are kernels' bodies, included by one .cpp each.
            if (path.suffix == ".h" and not path.stem.endswith("-inl")
                    and FORBIDDEN_IN_HEADERS.search(line)):
                yield (f"{path.relative_to(root)}:{number}: third-party header "
                       "in a header of ours")
    for name, folder in sorted(unused):
        yield f"layers.py: {name} does not include {folder}: no exception"


def main():
    root = pathlib.Path(sys.argv[1])
    found = list(violations(root))
    for line in found:
        print(line)
    print(f"layers: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

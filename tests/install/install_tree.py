"""The installed tree, used by a project that knows nothing of this one.

Installs the build, moves the tree away from where it was installed, and
configures, builds and runs tests/install/consumer with it. Builds nothing of
ours.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def run(*command, cwd=None, expect=0):
    done = subprocess.run([str(part) for part in command], cwd=cwd, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != expect:
        sys.exit(f"install_tree: {' '.join(map(str, command))}: exit code "
                 f"{done.returncode}, expected {expect}\n{done.stdout}")
    return done.stdout


def check(ok, message):
    if not ok:
        sys.exit(f"install_tree: {message}")


def check_files(tree, options):
    """What a distribution expects to be there, and nothing of this machine."""
    for pattern in ("bin/assay", "include/assay/te/ops/gemm.h",
                    "lib*/**/libassay_te.a", "share/assay/standards/assay.yaml",
                    "share/assay/python/assay/api/scan.py",
                    "share/assay/specs/api/nvte-2.20.json",
                    "share/doc/assay/LICENSE",
                    "lib*/**/cmake/assay/assayConfigVersion.cmake"):
        check(list(tree.glob(pattern)), f"no {pattern} in {tree}")
    for pattern in ("*.cpp", "*-inl.h"):
        check(not list(tree.rglob(pattern)), f"{pattern} was installed")
    machine = [str(path).encode() for path in
               (options.source, options.build, tree, pathlib.Path.home())]
    for path in tree.rglob("*"):
        if not path.is_file() or path.suffix not in (".cmake", ".h", ".yaml"):
            continue
        text = path.read_bytes()
        for name in machine:
            check(name not in text, f"{path} holds the path {name.decode()}")


def configure(options, prefix, work, *more, expect=0):
    return run(options.cmake, "-S", HERE / "consumer", "-B", work, "-G",
               "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
               f"-DCMAKE_CXX_COMPILER={options.compiler}", *more,
               expect=expect)


def check_whole_package(options, prefix, work):
    configure(options, prefix, work)
    run(options.cmake, "--build", work)
    product = run(work / "multiply")
    # 64 products of 1.5 and -2, all exact in MXFP8.
    check(product == "[32, 32] -192\n", f"multiply printed {product!r}")
    verdict = run(work / "judge", cwd=work)
    check(verdict == "w mismatch\n", f"judge printed {verdict!r}")
    check((work / "report.json").stat().st_size > 0, "no report")


def check_components(options, prefix, work):
    """Only what a component needs is looked for; what is not there is said."""
    without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON"
               for package in ("yaml-cpp",)]
    configure(options, prefix, work / "te", "-DCONSUMER_COMPONENTS=te",
              *without)
    said = configure(options, prefix, work / "compare",
                     "-DCONSUMER_COMPONENTS=compare", *without, expect=1)
    check("yaml-cpp" in said, f"yaml-cpp is not named:\n{said}")
    said = configure(options, prefix, work / "unknown",
                     "-DCONSUMER_COMPONENTS=te;tee", expect=1)
    check("no component tee" in " ".join(said.split()),
          f"the component is not named:\n{said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    options = parser.parse_args()

    work = options.build / "install_test"
    shutil.rmtree(work, ignore_errors=True)
    first, prefix = work / "first", work / "moved" / "prefix"
    os.environ.pop("DESTDIR", None)
    run(options.cmake, "--install", options.build, "--prefix", first)
    check_files(first, options)
    prefix.parent.mkdir()
    first.rename(prefix)
    said = run(prefix / "bin" / "assay", "--version")
    check(options.version in said, f"assay --version printed {said!r}")
    used = run(prefix / "bin" / "assay", "api", "scan",
               options.source / "examples/api/user")
    check("18 uses of 7 APIs" in used, f"assay api scan printed {used!r}")
    check_whole_package(options, prefix, work / "whole")
    check_components(options, prefix, work / "components")
    shutil.rmtree(work)
    print("install_tree: 1 passed, 0 failed")


if __name__ == "__main__":
    main()

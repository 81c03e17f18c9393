"""Times `assay compare` end to end, beside `msprobe compare` on the same dumps
in the same run, and appends lines to the table given.

    bench_compare.py ASSAY TABLE.tsv WORKDIR [--quick]

Columns: name, ours, peer, ratio, goal, ok|short. Wall seconds are medians of
REPEATS runs of ours with a warm page cache; the peer, which takes minutes,
runs once. Its time leaves its imports out, ours is the whole process.
"""

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
REPEATS = 5


class Table:
    def __init__(self, path):
        self.path = path

    def add(self, name, ours, peer, ratio, goal, at_least=True):
        good = ratio >= goal if at_least else ratio <= goal
        line = "\t".join([name, ours, peer, f"{ratio:.3g}",
                          f"{'>=' if at_least else '<='} {goal:g}",
                          "ok" if good else "short"])
        with open(self.path, "a") as out:
            out.write(line + "\n")
        print(line.replace("\t", "  "), flush=True)


def make_dump(work, name, *arguments):
    out = work / name
    subprocess.run([sys.executable, HERE / "make_dumps.py", out,
                    *map(str, arguments)], check=True)
    return out


def run_assay(assay, dump, *extra):
    """Median wall seconds and peak resident bytes of the process."""
    times, peak = [], 0
    for _ in range(REPEATS):
        start = time.perf_counter()
        with tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                [assay, "compare", dump / "gpu", dump / "npu", "--quiet",
                 *map(str, extra)], stdout=subprocess.DEVNULL, stderr=err)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status >> 8
            times.append(time.perf_counter() - start)
            if process.returncode not in (0, 1):
                err.seek(0)
                raise SystemExit(f"assay exit {process.returncode}: "
                                 f"{err.read().decode()}")
        peak = max(peak, usage.ru_maxrss * 1024)
    return statistics.median(times), peak


def run_msprobe(dump, *extra):
    out = pathlib.Path(tempfile.mkdtemp())
    result = subprocess.run(
        [sys.executable, HERE / "run_msprobe.py",
         "-tp", dump / "npu/step0/rank0/dump.json",
         "-gp", dump / "gpu/step0/rank0/dump.json", "-o", out, *extra],
        capture_output=True, text=True)
    shutil.rmtree(out, ignore_errors=True)
    found = re.search(r"ELAPSED ([0-9.]+)", result.stdout)
    if not found:
        raise SystemExit("msprobe failed:\n" + result.stdout[-2000:] +
                         result.stderr[-2000:])
    return float(found[1])


def numpy_figures(table):
    """The fused pass, as bench_stats has just put it into the table, against
    numpy on the same bytes."""
    ours = None
    for line in pathlib.Path(table.path).read_text().splitlines():
        cells = line.split("\t")
        if cells[0].startswith("fused pass f32") and "all" in cells[0]:
            ours = float(cells[1].split()[0])
    result = subprocess.run([sys.executable, HERE / "numpy_peer.py"],
                            capture_output=True, text=True, check=True)
    peer = float(result.stdout.split("\t")[2])
    table.add("fused pass f32, all cores, against numpy", f"{ours:.2f} GB/s",
              f"{peer:.2f} GB/s", ours / peer, 20)


def tensor_dump(table, assay, work, apis):
    dump = make_dump(work, f"tensor-{apis}", "tensor", apis, 4 << 20)
    total = apis * 4 * (16 << 20)
    ours, peak = run_assay(assay, dump, "--csv", work / "out.csv")
    peer = run_msprobe(dump)
    table.add(f"compare, {total / 1e9:.1f} GB tensor dump, against msprobe",
              f"{ours:.2f} s", f"{peer:.1f} s", peer / ours, 50)
    table.add(f"peak memory, {total / 1e9:.1f} GB tensor dump",
              f"{peak / 2**30:.2f} GiB", "-", peak / 2**30, 1,
              at_least=False)


def statistics_dump(table, assay, work):
    dump = make_dump(work, "statistics-50k", "statistics", 25_000)
    ours, _ = run_assay(assay, dump, "--csv", work / "out.csv")
    peer = run_msprobe(dump)
    table.add("compare, 50,000 statistics rows, against msprobe",
              f"{ours:.3f} s", f"{peer:.1f} s", peer / ours, 20)


def tiny_tensors(table, assay, work, apis):
    dump = make_dump(work, f"tiny-{apis}", "tensor", apis, 4096)
    ours, _ = run_assay(assay, dump)
    rate = 2 * apis / ours
    table.add(f"{2 * apis:,} pairs of 16 KB .pt", f"{ours:.2f} s",
              "-", rate, 20_000)


def statistics_rate(table, assay, work):
    dump = make_dump(work, "statistics-200k", "statistics", 100_000)
    ours, _ = run_assay(assay, dump, "--csv", work / "out.csv", "--json",
                        work / "out.json")
    table.add("200,000 statistics rows with CSV and JSON, rows/s",
              f"{ours:.3f} s", "-", 200_000 / ours, 500_000)


def fuzzy(table, assay, work):
    dump = make_dump(work, "fuzzy-200k", "fuzzy", 100_000)
    ours, _ = run_assay(assay, dump, "--fuzzy")
    table.add("--fuzzy, 200,000 rows, seconds", f"{ours:.3f} s", "-", ours, 3,
              at_least=False)


def main():
    assay, table, work = sys.argv[1], Table(sys.argv[2]), sys.argv[3]
    work = pathlib.Path(work)
    quick = "--quick" in sys.argv
    numpy_figures(table)
    statistics_rate(table, assay, work)
    fuzzy(table, assay, work)
    statistics_dump(table, assay, work)
    tiny_tensors(table, assay, work, 2_500 if quick else 25_000)
    tensor_dump(table, assay, work, 6 if quick else 60)


if __name__ == "__main__":
    main()

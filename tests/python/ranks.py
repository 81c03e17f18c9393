"""Runs a function in several processes that train together over gloo.

    results = run(function, folder)          # function(rank, folder) -> value

One interpreter imports torch once and forks, so that a test takes seconds.
`function` lives in a file that can be imported by its name.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
from multiprocessing import connection

from paths import PACKAGE

HERE = pathlib.Path(__file__).parent


def run(function, folder: pathlib.Path, world_size: int = 2) -> list:
    """What each rank returned (as JSON has it), by rank."""
    folder.mkdir(exist_ok=True)
    module = pathlib.Path(function.__code__.co_filename).stem
    result = subprocess.run(
        [sys.executable, __file__, module, function.__name__, str(folder),
         str(world_size)], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(
            [str(HERE), str(PACKAGE)])})
    assert result.returncode == 0, result.stderr + result.stdout
    return [json.loads((folder / f"result{rank}").read_text())
            for rank in range(world_size)]


def _rank(function, rank: int, world_size: int, folder: pathlib.Path) -> None:
    import faulthandler
    import torch
    faulthandler.dump_traceback_later(240, exit=True)  # it hangs
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank,
        world_size=world_size)
    value = function(rank, folder)
    (folder / f"result{rank}").write_text(json.dumps(value))
    torch.distributed.destroy_process_group()


def _main(module: str, name: str, folder: str, world_size: str) -> int:
    function = getattr(__import__(module), name)
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=_rank, args=(
        function, rank, int(world_size), pathlib.Path(folder)))
        for rank in range(int(world_size))]
    for process in ranks:
        process.start()
    while any(process.is_alive() for process in ranks):
        connection.wait([p.sentinel for p in ranks if p.is_alive()])
        if any(process.exitcode for process in ranks):
            for process in ranks:  # the others would wait for it
                process.terminate()
    return max(abs(process.exitcode) for process in ranks)


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))

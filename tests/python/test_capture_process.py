"""assay.capture when the disk is full or the process ends: what was written
can be read, and children write nothing."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings
import weakref

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import assay
from capturing import lines, rows, unchanged
from paths import ASSAY, PACKAGE
from test_capture import loss_of, model


def child(code: str, *arguments, **options) -> subprocess.CompletedProcess:
    """Runs Python that has `torch`, `assay` and a small model `net`."""
    beginning = """
        import os, signal, sys, time, warnings
        import torch, assay
        torch.set_num_threads(1)
        torch.manual_seed(0)
        path = sys.argv[1]
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
        def train():
            loss = net(torch.ones(2, 8)).square().sum()
            loss.backward()
            return loss
        """
    text = textwrap.dedent(beginning) + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)}, **options)


def inspected(path) -> subprocess.CompletedProcess:
    return subprocess.run([ASSAY, "inspect", "--all", path],
                          capture_output=True, text=True)


def test_a_full_disk(tmp_path):
    """The limit on a file's size stands for it: write() fails."""
    done = child("""
        import resource
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        capture = assay.Capture(path, net, mode="tensor")
        capture.start()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(40):
                train()
                time.sleep(0.01)
        print(len(said), *(w.message for w in said))
        for end in (capture.step, capture.close):
            try:
                end()
                print("fine")
            except assay.Error as error:
                print("Error", error)
        """, tmp_path)
    first, end, second = done.stdout.splitlines()
    assert first.startswith("1 assay.capture: ")
    assert "File too large" in first and "training goes on" in first
    assert end.startswith("Error") and "File too large" in end
    assert second == "fine"  # it was told of, and nothing is open
    assert done.returncode == 0, done.stderr
    left = inspected(tmp_path)
    assert "was stopped" in left.stderr + left.stdout


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    capture = assay.Capture(tmp_path / "file" / "run", level="api")
    with pytest.raises(assay.Error, match="file/run.*Not a directory"):
        capture.start()
    assert not torch.overrides._get_current_function_mode_stack()
    torch.ones(2).neg()
    assert not capture.running


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_a_folder_that_is_removed(tmp_path, mode):
    net, x = model(1), torch.ones(2, 4, 8)
    expected = loss_of(net, x)
    capture = assay.Capture(tmp_path / "run", net, mode=mode)
    capture.start()
    shutil.rmtree(tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it comes is a race
        loss = loss_of(net, x)
        loss.backward()
    assert torch.equal(loss, expected)
    with pytest.raises(assay.Error, match="removed|No such file"):
        capture.step()
    with capture:  # the next step has a folder again
        loss_of(net, x)
    assert rows(tmp_path / "run/step1")


def test_killed_in_a_step(tmp_path):
    done = child("""
        with assay.capture(path, net, mode="tensor"):
            train()
            time.sleep(0.3)  # the queue is written meanwhile
            net(torch.ones(2, 8))
            os.kill(os.getpid(), signal.SIGKILL)
        """, tmp_path)
    assert done.returncode == -signal.SIGKILL
    left = inspected(tmp_path)
    assert left.returncode in (0, 4), left.stderr
    assert "the run was stopped" in left.stderr + left.stdout
    assert "Module.0.Linear.forward.0.output.0" in left.stdout
    assert "Module.0.Linear.parameters_grad.0.weight" in left.stdout


def test_interrupted_in_a_step(tmp_path):
    done = child("""
        with assay.capture(path, net):
            train()
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        """, tmp_path)
    assert "KeyboardInterrupt" in done.stderr
    assert "leaked" not in done.stderr
    assert lines(tmp_path / "step0/rank0")[-1]["end"] is True
    assert "stopped" not in inspected(tmp_path).stderr


def test_a_loop_that_forgets_to_close(tmp_path):
    done = child("""
        capture = assay.Capture(path, net).start()
        train()
        """, tmp_path)
    assert done.returncode == 0
    assert lines(tmp_path / "step0/rank0")[-1]["end"] is True


def test_forked_children_write_nothing_and_end(tmp_path):
    done = child("""
        capture = assay.Capture(path, net, mode="tensor")
        capture.start()
        train()
        for way in ("_exit", "exit", "drop", "step"):
            child = os.fork()
            if child == 0:
                train()
                assay.save(torch.ones(2), "child")
                if way == "_exit":
                    os._exit(0)
                if way == "drop":
                    capture._recorder = None
                if way == "step":
                    capture.step()
                    train()
                sys.exit(0)
            end = time.time() + 120
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                if time.time() > end:
                    os.kill(child, signal.SIGKILL)
                    sys.exit(f"the child hangs: {way}")
                time.sleep(0.01)
        train()
        capture.close()
        """, tmp_path)
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step0"]
    assert not any(name.startswith("child") for name in found)
    assert "Module.Sequential.forward.1.output.0" in found
    assert not any("forward.2" in name for name in found
                   if name.startswith("Module.Sequential"))
    assert inspected(tmp_path).returncode == 0


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return torch.full((8,), float(i)).neg()


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_workers_of_a_data_loader(tmp_path, way):
    net = torch.nn.Linear(8, 2)
    loader = DataLoader(Numbers(), batch_size=3, num_workers=2,
                        multiprocessing_context=way)

    def run():
        return [net(batch) for batch in loader]

    found = unchanged(tmp_path, run, net)
    assert "Module.Linear.forward.1.output.0" in found
    assert "Tensor.neg.0.forward.output.0" not in found  # the workers'


def test_a_captured_step_is_let_go_of(tmp_path):
    """Of checkpointing too, which leaves the second run by an exception."""
    net = torch.nn.Linear(4, 4)

    def block(x):
        return torch.nn.functional.layer_norm(net(x).tanh() * 2, (4,))

    with assay.capture(tmp_path, net) as capture:
        x = torch.ones(2, 4, requires_grad=True)
        checkpoint(block, x, use_reentrant=False).sum().backward()
        recorder = weakref.ref(capture._recorder)
    del capture, x
    gc.collect()
    assert recorder() is None


def test_nothing_is_said_at_the_end_of_a_program(tmp_path):
    """Though the graph of `loss`, and the hooks in it, are alive there."""
    done = child("""
        with assay.capture(path, net):
            loss = train()
        """, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

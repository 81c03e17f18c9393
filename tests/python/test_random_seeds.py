"""seed_all: what it seeds and switches, and that it can be put back."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

import assay

VARIABLES = ("PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "NCCL_ALGO",
             "HCCL_DETERMINISTIC", "LCCL_DETERMINISTIC",
             "CLOSE_MATMUL_K_SHIFT", "NVTE_ALLOW_NONDETERMINISTIC_ALGO")


@pytest.fixture(autouse=True)
def untouched(monkeypatch):
    """Whatever a test sets is as it was after it."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that monkeypatch remembers
        monkeypatch.delenv(name)
    yield
    assert not torch.are_deterministic_algorithms_enabled()


def drawn():
    return (random.random(), np.random.rand(), torch.rand(3).tolist(),
            np.random.randint(1000), torch.randperm(7).tolist())


def test_the_same_seed_gives_the_same_numbers():
    assay.seed_all(7)
    first = drawn()
    assert drawn() != first
    assay.seed_all(7)
    assert drawn() == first
    assay.seed_all(8)
    assert drawn() != first


def test_the_seeds_are_those_of_the_libraries():
    assay.seed_all(1234)
    found = drawn()[:3]
    random.seed(1234), np.random.seed(1234), torch.manual_seed(1234)
    assert drawn()[:3] == found
    # CPython's documented generator: MT19937 of this seed, for good.
    assay.seed_all()
    assert random.random() == 0.9664535356921388


def test_the_report_lists_what_was_done():
    report = assay.seed_all(5)
    assert "random.seed(5)" in report.done
    assert "numpy.random.seed(5)" in report.done
    assert "torch.manual_seed(5)" in report.done
    assert any("this process" in line for line in report.not_done)
    assert any("matmul precision" in line for line in report.noted)
    assert not any("deterministic" in line for line in report.done)
    assert "not done: " in str(report) and "left as it is: " in str(report)


def test_new_processes_inherit_the_hash_seed():
    def child_hash():
        return subprocess.run([sys.executable, "-c", "print(hash('assay'))"],
                              capture_output=True, check=True, text=True).stdout

    with assay.seed_all(77):
        first = child_hash()
        assert child_hash() == first
    assert "PYTHONHASHSEED" not in os.environ
    assert child_hash() != first


@pytest.mark.parametrize("seed", ["0", "4294967295"])
def test_a_process_begun_with_the_seed_has_its_hashes(seed):
    code = (f"import sys; sys.path.insert(0, {str(assay.__path__[0])!r} + "
            "'/..')\nimport assay\n"
            f"report = assay.seed_all({seed}); assay.seed_all({seed})\n"
            "print([line for line in report.not_done if 'hashes' in line])")
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
    assert result.stdout.strip() == "[]"


def test_deterministic_switches_and_restores(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with assay.seed_all(3, deterministic=True) as report:
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        assert os.environ["HCCL_DETERMINISTIC"] == "true"
        assert os.environ["NVTE_ALLOW_NONDETERMINISTIC_ALGO"] == "0"
        with pytest.raises(RuntimeError, match="deterministic"):
            torch.empty(4).put_(torch.tensor([1, 1]), torch.rand(2))
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.benchmark
    assert not torch.backends.cudnn.deterministic
    assert not set(VARIABLES) & set(os.environ)
    report.restore()  # once more does nothing
    assert torch.backends.cudnn.benchmark


def test_a_setting_of_the_user_is_kept_and_said(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    monkeypatch.setenv("HCCL_DETERMINISTIC", "True")
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    with assay.seed_all(3, deterministic=True) as report:
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":0:0"
        assert [line for line in report.not_done if "CUBLAS" in line] == [
            "CUBLAS_WORKSPACE_CONFIG is ':0:0' and was kept, expected "
            ":4096:8 or :16:8"]
        assert "HCCL_DETERMINISTIC=True, as it was" in report.done
        assert "NCCL_ALGO=Tree, as it was" in report.done
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":0:0"


class Backend:
    """A backend of torch as a plug-in adds it."""

    def __init__(self, started=False, **functions):
        self.started = started
        self.seeds = []
        for name in functions:
            setattr(self, name, self.seeds.append)

    def is_available(self):
        return True

    def is_initialized(self):
        return self.started


def test_every_backend_present_is_seeded(monkeypatch):
    npu = Backend(started=True, manual_seed_all=1, manual_seed=1)
    musa, broken = Backend(manual_seed=1), Backend()
    broken.is_available = lambda: 1 / 0
    monkeypatch.setattr(torch, "npu", npu, raising=False)
    monkeypatch.setattr(torch, "musa", musa, raising=False)
    monkeypatch.setattr(torch, "mlu", Backend(), raising=False)
    monkeypatch.setattr(torch, "hpu", broken, raising=False)
    with assay.seed_all(9, deterministic=True) as report:
        assert (npu.seeds, musa.seeds) == ([9], [9])
        assert "torch.npu.manual_seed_all(9)" in report.done
        assert "torch.mlu has no manual_seed()" in report.not_done
        assert not any("hpu" in line for line in report.done)
        assert any(line.startswith("HCCL_DETERMINISTIC came after torch.npu")
                   for line in report.not_done)


@pytest.mark.parametrize("seed, kind", [
    (-1, ValueError), (2**32, ValueError), (True, TypeError), ("7", TypeError),
    (1.0, TypeError), (None, TypeError)])
def test_bad_seeds_are_named_in_one_line(seed, kind):
    before = random.getstate()
    with pytest.raises(kind) as error:
        assay.seed_all(seed)
    assert repr(seed) in str(error.value) and "\n" not in str(error.value)
    assert "expected" in str(error.value)
    assert random.getstate() == before  # nothing was set
    if seed is not None:
        with pytest.raises(kind, match="host_random: seed"):
            assay.host_random(seed)


def test_numpy_integers_are_seeds():
    assay.seed_all(np.uint32(2**32 - 1))
    assay.seed_all(np.int64(0))


def test_without_torch_the_rest_is_seeded():
    code = (f"import sys; sys.path.insert(0, {str(assay.__path__[0])!r} + "
            "'/..')\nimport importlib.util, random\n"
            "find = importlib.util.find_spec\n"
            "importlib.util.find_spec = lambda name, *rest: "
            "None if name == 'torch' else find(name, *rest)\n"
            "import assay\nreport = assay.seed_all(1234, deterministic=True)\n"
            "assert 'torch is not installed' in report.not_done\n"
            "print('torch' in sys.modules, random.random())")
    result = subprocess.run([sys.executable, "-c", code], check=True,
                            capture_output=True, text=True)
    assert result.stdout.split() == ["False", "0.9664535356921388"]

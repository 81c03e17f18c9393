"""assay determinism and assay.check_determinism: faults that were planted in
training scripts, and what is said of them.

A process that has imported torch is forked for each run of a script: only the
tests of the command itself start interpreters.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import textwrap

import numpy
import pytest
import torch

import assay
from assay import _core
from paths import ASSAY, PACKAGE

FORKS = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import numpy, torch, torch._dynamo  # which optimizers import
from assay.determinism import script, watch
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, name in ((1, "said"), (2, "log")):
            os.dup2(os.open(request[name], os.O_CREAT | os.O_WRONLY), number)
        os.environ.update(request["environment"])
        os._exit(script.main(request["arguments"]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

TRAINING = """
import numpy, os, random, sys
import torch
from torch import nn
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 4)
        self.drop = nn.Dropout(0.5)
    def forward(self, x, *, mask=None):
        h = self.drop(torch.relu(self.up(x)))
        {in_forward}
        return self.down(h)

net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
{before}
for step in range(10):
    x = torch.arange(32.).view(4, 8) / 32 + step
    {in_step}
    net(x, mask=x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

# Adds in an order of its own each time, as atomic additions do.
ATOMIC = """
@torch.library.custom_op("mine::row_sum", mutates_args=())
def row_sum(x: torch.Tensor) -> torch.Tensor:
    rows = []
    for row in x:
        parts = [float(row.sum()) + 1 / i for i in range(1, 500)]
        random.SystemRandom().shuffle(parts)
        rows.append([float(numpy.array(parts, "f4").cumsum()[-1])])
    return torch.tensor(rows)
"""


@pytest.fixture(scope="module")
def forks():
    process = subprocess.Popen([sys.executable, "-c", FORKS, str(PACKAGE)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    yield process
    process.stdin.close()
    process.wait(timeout=20)


@pytest.fixture
def run(forks, tmp_path):
    """Runs a script; what it left, its messages and what it printed."""

    def once(script, *arguments, out="run1", environment=None, flags=()):
        folder = tmp_path / out
        folder.mkdir()
        forks.stdin.write(json.dumps({
            "said": str(folder / "said"), "log": str(folder / "log"),
            "environment": environment or {},
            "arguments": ["--out", str(folder), *flags, "--", str(script),
                          *arguments]}) + "\n")
        forks.stdin.flush()
        code = int(forks.stdout.readline())
        said = [json.loads(line) for line in
                (folder / "said").read_text().splitlines()]
        return folder, code, said

    return once


@pytest.fixture
def runs(run, tmp_path):
    """Runs a script twice and compares: the document and the text."""

    def twice(script, *flags, second=None):
        path = tmp_path / "train.py"
        path.write_text(script)
        folders = []
        for out, environment in (("run1", {}), ("run2", second or {})):
            folder, code, _ = run(path, out=out, environment=environment,
                                  flags=("--steps=2", *flags))
            assert code == 0, (folder / "log").read_text()
            folders.append(folder)
        setups = [str(f / "setup") for f in folders if (f / "setup").exists()]
        document, text = _core.find_nondeterminism(
            [str(f / "steps") for f in folders], "train.py", setups)
        return json.loads(document), text

    return twice


def training(in_forward="", before="", in_step=""):
    return TRAINING.format(
        in_forward=textwrap.indent(in_forward, "        ").strip(),
        before=before, in_step=textwrap.indent(in_step, "    ").strip())


def line_of(script, text):
    return next(i for i, line in enumerate(script.splitlines(), 1)
                if text in line)


def test_a_seeded_script_is_deterministic(runs):
    found, text = runs(training())
    assert found["verdict"] == "deterministic" and found["first"] is None
    assert found["steps"] == [0, 1]
    assert found["counts"]["same"] > 200
    assert re.search(r"^deterministic   \d+ records the same in every run",
                     text, re.M)


def test_noise_seeded_by_the_time(runs):
    script = training(in_forward="h = h + torch.randn(4, 16, generator="
                      "torch.Generator().manual_seed(os.getpid()))")
    found, text = runs(script)
    assert found["verdict"] == "not deterministic"
    first = found["first"]
    assert (first["kind"], first["op"]) == ("random", "Torch.randn.0.forward")
    assert first["call_path"] == ["Module.Net.forward.0"]
    line = line_of(script, "torch.randn")
    assert first["stack"][0].endswith(f"train.py:{line} in forward")
    assert "a generator that the seed does not reach" in text


def test_dropout_without_a_seed(runs):
    found, _ = runs(training(before="torch.seed()"))
    assert found["first"]["kind"] == "random"
    assert found["first"]["op"] == "Functional.dropout.0.forward"


def test_sums_in_an_order_of_their_own(runs):
    found, _ = runs(training(before=ATOMIC,
                             in_forward="h = h + row_sum(h.detach())"))
    assert found["first"]["kind"] == "operator"
    assert found["first"]["op"] == "mine.row_sum.default.0.forward"
    assert found["counts"]["same"] > 50


def test_initial_weights_without_a_seed(runs):
    found, _ = runs("import torch; torch.manual_seed = lambda seed: None\n"
                    "torch.seed()\n" + training())
    first = found["first"]
    assert first["kind"] == "random" and first["before_steps"]
    assert first["op"] == "Torch.nn.init.kaiming_uniform_.0.forward"
    assert first["reached"] == "Module.up.Linear.forward.0.parameters.weight"


def test_weights_from_outside_are_another_start(runs):
    found, text = runs(training(before=(
        "net.up.weight.detach().numpy()[0, 0] = os.getpid()")))
    assert found["verdict"] == "another start"
    assert found["first"]["kind"] == "weights"
    assert found["first"]["leaf"] == "parameters.weight"
    assert "not the same start" in text


def test_data_in_another_order_are_another_start(runs):
    found, _ = runs(training(in_step=(
        "rows = list(range(4))\n"
        "if os.environ.get('TURNED'): rows.reverse()\n"
        "import numpy\nx = torch.from_numpy(numpy.array(x)[rows])")),
        second={"TURNED": "1"})
    assert found["verdict"] == "another start"
    assert found["first"]["kind"] == "data"
    assert found["first"]["op"] == "Module.Net.forward.0"
    assert found["first"]["leaf"] == "input.0"


def test_a_random_number_of_python(runs):
    found, _ = runs(training(in_step="x = x * (1 + os.getpid())"))
    first = found["first"]
    assert (first["kind"], first["op"]) == ("argument", "Tensor.mul.0.forward")
    assert int(first["run_1"]) != int(first["other"])


def test_another_branch(runs):
    script = training(in_forward="if os.environ.get('OTHER'):\n"
                      "    h = torch.abs(h)")
    found, text = runs(script, second={"OTHER": "1"})
    first = found["first"]
    assert first["kind"] == "calls"
    assert first["op"] == "Module.down.Linear.forward.0"
    assert first["other"] == "Torch.abs.0.forward"
    assert "from here the runs make other calls" in text


def test_a_step_that_one_run_does_not_make(runs):
    found, _ = runs("import os\n" + training(in_step=(
        "if step == 1 and os.environ.get('SHORT'): break")),
        second={"SHORT": "1"})
    assert found["first"]["kind"] == "calls"
    assert found["first"]["step"] == 1


@pytest.mark.parametrize("level", ["module", "api"])
def test_levels(runs, level):
    found, _ = runs(training(before=ATOMIC,
                             in_forward="h = h + row_sum(h.detach())"),
                    f"--level={level}")
    wanted = {"module": "Module.Net.forward.0",
              "api": "mine.row_sum.default.0.forward"}[level]
    if level == "module":  # what is between modules is seen in what follows
        wanted = "Module.down.Linear.forward.0"
    assert found["first"]["op"] == wanted


def test_elements_give_figures(runs):
    found, text = runs(training(before=ATOMIC,
                                in_forward="h = h + row_sum(h.detach())"),
                       "--mode=tensor")
    assert re.search(r"max abs \S+, normalised L2 \S+",
                     found["first"]["figures"])
    assert found["first"]["figures"] in text


def names(folder):
    text = subprocess.run([ASSAY, "inspect", "--all", folder], check=True,
                          capture_output=True, text=True).stdout
    return [line.split()[0] for line in text.splitlines()[2:] if line.strip()]


def test_a_script_is_what_it_is_without_us(run, tmp_path):
    (tmp_path / "beside.py").write_text("value = 3")
    script = tmp_path / "train.py"
    script.write_text(
        "import json, sys, beside\n" + training(
            in_step="try: x = x + beside.value\nexcept Exception: pass")
        + "\nopen('never', 'w')")
    with open(script, "a") as file:
        file.write("\nraise AssertionError('reached')")
    head = script.read_text()
    script.write_text(head.replace(
        "net = Net()", "json.dump([__name__, __file__, sys.argv, sys.path[0],"
        " sys.stdin.read()], open(sys.argv[1], 'w'))\nnet = Net()"))
    folder, code, said = run(script, str(tmp_path / "told"), "--flag",
                             flags=["--steps=2"])
    assert code == 0
    assert json.loads((tmp_path / "told").read_text()) == [
        "__main__", str(script), [str(script), str(tmp_path / "told"),
                                  "--flag"], str(tmp_path), ""]
    assert said == [{"step": 1}, {"step": 2}, {"ended": "steps", "why": ""}]
    assert sorted(p.name for p in (folder / "steps").iterdir()) == [
        "step0", "step1"]
    found = names(folder / "steps/step0")
    assert "Module.Net.forward.0.input.mask" in found  # of the first call
    assert "Module.down.Linear.backward.0.output.0" in found
    assert not any("init" in name for name in found)
    assert "Torch.nn.init.kaiming_uniform_.0.forward.output.0" in names(
        folder / "setup")


def test_a_script_without_modules(run, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nw = torch.ones(3, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([w], lr=0.1)\n"
        "for step in range(2):\n    (w * w).sum().backward()\n"
        "    optimizer.step()\n    print('printed')\n")
    folder, code, said = run(script)
    assert code == 0 and said[-1] == {"ended": "exit", "why": ""}
    assert "printed" in (folder / "log").read_text()
    assert not (folder / "setup").exists()
    for step in ("step0", "step1"):
        assert any(name.startswith("Tensor.mul.0.backward")
                   for name in names(folder / "steps" / step))


def test_two_models_have_names_of_their_own(run, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\na, b = (torch.nn.Sequential(torch.nn.Linear(2, 2)) "
        "for _ in range(2))\nb(a(torch.ones(2))).sum().backward()\n")
    folder, _, _ = run(script)
    found = names(folder / "steps")
    assert "Module.0.Linear.forward.0.output.0" in found
    assert "Module.1.0.Linear.forward.0.output.0" in found
    assert "Module.1.Sequential.backward.0.input.0" in found


@pytest.mark.parametrize("script, why", [
    ("raise ValueError('no data\\nmore')", r"ValueError: no data \(.*:1\)"),
    ("import sys; sys.exit(3)", "it ended with exit code 3"),
    ("import sys; sys.exit('no GPU')", "no GPU"),
    ("import assay; assay.capture('x')", "RuntimeError: assay determinism "
     "captures the whole script: take assay.capture out of it"),
    ("def f(:", "SyntaxError"),
])
def test_a_script_that_fails_says_why(run, tmp_path, script, why):
    path = tmp_path / "train.py"
    path.write_text(script)
    _, code, said = run(path)
    assert code == 1 and said[-1]["ended"] == "error"
    assert re.match(why, said[-1]["why"])


# The command --------------------------------------------------------------


@pytest.fixture
def command(tmp_path):
    def call(*arguments, code):
        result = subprocess.run(
            [ASSAY, "determinism", *map(str, arguments)], text=True,
            capture_output=True, cwd=tmp_path, timeout=300,
            env={**os.environ, "ASSAY_PYTHON": sys.executable})
        assert result.returncode == code, result.stdout + result.stderr
        return result

    return call


def test_the_command_names_the_order_of_a_set(command, tmp_path):
    # Of 32 names the chance of one order twice is none.
    (tmp_path / "train.py").write_text(
        "import sys, torch\n"
        "assert sys.argv[1:] == ['--rows', '4'], sys.argv\n"
        "parts = {f'part{i}': torch.full((4,), float(i)).neg() + "
        "torch.arange(4.) for i in range(32)}\n"
        "total = 0\n"
        "for name in set(parts):\n"
        "    total = torch.relu(parts[name]) + 2 * total\n")
    result = command("train.py", "--keep", "kept", "--json", "out.json", "--",
                     "--rows", "4", code=1)
    assert "an order that changes, as that of a set?" in result.stdout
    assert "train.py:6 in <module>" in result.stdout
    again = re.search(r"^every row: (.*)$", result.stdout, re.M)[1]
    assert subprocess.run(f"{ASSAY.parent}/{again} --quiet", shell=True,
                          cwd=tmp_path, capture_output=True).returncode == 1
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["first"]["kind"] == "exchange"
    assert (tmp_path / "kept/run2/log").exists()


def test_the_command_fixes_the_order_of_a_set_and_the_seed(command, tmp_path):
    (tmp_path / "train.py").write_text(
        "import random, numpy, torch\n"
        "x = torch.randn(3) + random.random() + float(numpy.random.rand())\n"
        "for name in {f'part{i}' for i in range(32)}:\n"
        "    x = x * (1 + hash(name) % 7)\n"
        "assert torch.are_deterministic_algorithms_enabled()\n")
    result = command("train.py", "--deterministic", "--quiet", code=0)
    assert re.fullmatch(r"deterministic   same \d+   differ 0   not compared 0"
                        r"   empty 0\n", result.stdout)


def test_the_command_says_why_a_script_failed(command, tmp_path):
    (tmp_path / "train.py").write_text("import nothing_of_that_name")
    result = command("train.py", code=3)
    assert result.stderr.splitlines()[-1].startswith(
        "assay: train.py: run 1 failed: ModuleNotFoundError: No module named "
        "'nothing_of_that_name'")
    assert "Traceback" in result.stderr


def test_a_python_without_torch_is_named(tmp_path, bare_python):
    (tmp_path / "train.py").write_text("import torch")
    done = subprocess.run(
        [ASSAY, "determinism", "train.py"], cwd=tmp_path, text=True,
        capture_output=True, env={**os.environ, "ASSAY_PYTHON": bare_python})
    assert done.returncode == 3
    assert re.fullmatch(r"assay: train.py: run 1 failed: \S+ has no torch; "
                        r"\$ASSAY_PYTHON names a Python that has\n",
                        done.stderr)


def test_a_script_that_computes_nothing_is_not_deterministic(
        command, tmp_path):
    (tmp_path / "train.py").write_text("print(1 + 1)")
    result = command("train.py", code=4)
    assert "nothing was captured" in result.stderr


@pytest.mark.parametrize("arguments, code, message", [
    (["none.py"], 3, "none.py: no such script"),
    (["train.py", "--level", "L0"], 2, "--level: L0, expected module, api or"),
    (["train.py", "--seed", "-1"], 2, "--seed: -1, expected 0 to 4294967295"),
    (["train.py", "--seed", "x"], 2, "--seed: x"),
    (["train.py", "--runs", "1"], 2, "--runs"),
    (["train.py", "--keep", "."], 2, "--keep: . is not empty"),
    ([], 2, "SCRIPT"),
])
def test_arguments_that_cannot_be_meant(command, tmp_path, arguments, code,
                                        message):
    (tmp_path / "train.py").write_text("")
    result = command(*arguments, code=code)
    assert message in result.stderr and result.stderr.count("\n") == 1


# The function -------------------------------------------------------------


@torch.library.custom_op("test_determinism::row_sum", mutates_args=())
def row_sum(x: torch.Tensor) -> torch.Tensor:
    rows = []
    for row in x:
        parts = [float(row.sum()) + 1 / i for i in range(1, 500)]
        random.SystemRandom().shuffle(parts)
        rows.append([float(numpy.array(parts, "f4").cumsum()[-1])])
    return torch.tensor(rows)


@pytest.fixture
def trained():
    """A model and its optimizer after a step, and the next step."""
    torch.manual_seed(5)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.BatchNorm1d(32),
                              torch.nn.Dropout(0.5), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    x = torch.randn(6, 8)

    def step(extra=lambda h: 0):
        h = net(x)
        (h + extra(h)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=random.random() < 2)

    step()
    return net, optimizer, step


def state_of(net, optimizer):
    return [*(t.clone() for t in (*net.parameters(), *net.buffers())),
            *(p.grad for p in net.parameters()),
            *(value.clone() for state in optimizer.state.values()
              for value in state.values()),
            torch.get_rng_state(), random.getstate()]


def same(a, b):
    return all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y
               for x, y in zip(a, b, strict=True))


def test_a_step_is_called_from_the_same_state(trained):
    net, optimizer, step = trained
    before = state_of(net, optimizer)
    found = assay.check_determinism(step, net, optimizer, runs=3)
    assert found.deterministic and found.first is None, found
    assert found.counts["same"] > 60
    assert same(before, state_of(net, optimizer))
    assert str(found).startswith("3 runs of ")


def test_a_step_names_the_operator(trained, tmp_path):
    net, optimizer, step = trained
    found = assay.check_determinism(lambda: step(lambda h: row_sum(h.detach())),
                                    net, optimizer, path=tmp_path)
    assert found.verdict == "not deterministic" and not found.deterministic
    assert found.first.kind == "operator"
    assert found.first.op == "test_determinism.row_sum.default.0.forward"
    assert any("test_determinism.py" in frame for frame in found.first.stack)
    assert (tmp_path / "run2/step0/rank0/trace.jsonl").exists()


def test_state_that_is_not_put_back_is_another_start(trained):
    net, optimizer, step = trained
    found = assay.check_determinism(step)
    assert found.verdict == "another start"


def test_the_state_is_put_back_after_an_exception(trained):
    net, optimizer, step = trained
    before = state_of(net, optimizer)

    def fails():
        step()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        assay.check_determinism(fails, net, optimizer)
    assert same(before, state_of(net, optimizer))


def test_whatever_has_a_state_dict_is_put_back():
    class Loader:
        at = 0

        def state_dict(self):
            return {"at": self.at}

        def load_state_dict(self, state):
            self.at = state["at"]

    loader, generator = Loader(), torch.Generator().manual_seed(4)

    def step():
        loader.at += 1
        return torch.randn(3, generator=generator) * loader.at

    assert assay.check_determinism(step, loader, generator).deterministic
    assert loader.at == 0
    assert not assay.check_determinism(step, loader).deterministic


@pytest.mark.parametrize("arguments, options, message", [
    ([], {"runs": 1}, "runs: 1"),
    ([], {"mode": "statistics"}, "statistics do not tell bits apart"),
    ([3], {}, "state: a int, expected a module"),
    ([], {"level": "L9"}, "level: 'L9'"),
])
def test_a_check_that_cannot_be_meant(arguments, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        assay.check_determinism(lambda: None, *arguments, **options)

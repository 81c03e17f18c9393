"""What a capture writes down is enough to compute every call again, bit for
bit; and every fault that precheck_faults.py plants tells."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from api_calls import ask, recorded_calls, same  # noqa: E402, F401
from assay.worker.api_call import replay  # noqa: E402
from precheck_calls import record  # noqa: E402
from precheck_faults import FAULTS, faulty  # noqa: E402

DRAWN = ("Functional.dropout", "Functional.dropout1d",
         "Functional.alpha_dropout")


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("calls")
    record(folder, "tensor")
    yield recorded_calls(folder / "step0/rank0")
    torch.set_num_threads(threads)


def test_every_call_is_computed_again(ask, calls):  # noqa: F811
    assert len(calls) > 70
    for call in calls:
        answer = ask.raw(dict(call.inputs), call.parameters())
        assert set(call.expected) <= set(answer["tensors"]), call.name
        if call.api not in DRAWN:
            for name, expected in call.expected.items():
                same(answer["tensors"][name], expected)


def test_every_golden_stands_for_what_was_recorded(ask, calls):  # noqa: F811
    for call in calls:
        answer = ask.raw(dict(call.inputs), call.parameters("float64"))
        assert "precision" not in answer["contract"], call.name
        for name, expected in call.expected.items():
            found = answer["tensors"][name]
            if name in answer["contract"].get("dtypes", {}):
                found = torch.view_as_complex(found)
            assert found.shape == expected.shape
            if expected.is_floating_point():
                assert found.dtype == torch.float64
            elif not expected.is_complex():
                same(found, expected)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_tells(ask, calls, monkeypatch, name):  # noqa: F811
    chosen = [call for call in calls if call.api == FAULTS[name].api]
    assert chosen
    healthy = [ask.raw(dict(call.inputs), call.parameters())
               for call in chosen]
    monkeypatch.setattr(replay, "resolve", faulty([name], replay.resolve))
    for call, right in zip(chosen, healthy):
        wrong = ask.raw(dict(call.inputs), call.parameters())
        assert wrong["tensors"].keys() != right["tensors"].keys() or any(
            not torch.equal(tensor, right["tensors"][key])
            for key, tensor in wrong["tensors"].items()), call.name

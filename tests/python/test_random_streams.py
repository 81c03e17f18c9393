"""host_random: where a stream begins, goes on, and which devices share it."""

import types

import pytest
import torch
import torch.nn.functional as F

import assay
from assay.random import HostRandomError
from philox import bits_of, keys_of


def test_with_a_seed_a_stream_begins_and_leaves_no_trace():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    with assay.host_random(8):
        first, second = torch.rand(3), torch.rand(3)
    assert torch.equal(torch.get_rng_state(), state)
    with assay.host_random(8):
        assert torch.equal(torch.rand(3), first)
        with assay.host_random(8):
            assert torch.equal(torch.rand(3), first)
        assert torch.equal(torch.rand(3), second)
    assert not torch.equal(first, second)


def test_without_a_seed_the_stream_goes_on():
    torch.manual_seed(8)
    with assay.host_random():
        first = torch.rand(3)
        with assay.host_random():
            second = torch.rand(3)
        third = torch.rand(3)
    with assay.host_random():
        fourth = torch.rand(3)
    with assay.host_random(8):
        expected = [torch.rand(3) for _ in range(4)]
    for found, wanted in zip((first, second, third, fourth), expected):
        assert torch.equal(found, wanted)


def test_torch_manual_seed_inside_sets_the_stream():
    with assay.host_random(1):
        torch.rand(2)
        torch.manual_seed(8)
        found = torch.rand(3)
    with assay.host_random(8):
        assert torch.equal(torch.rand(3), found)


def test_state_can_be_saved_and_loaded(tmp_path):
    stream = assay.host_random(6).start()
    torch.rand(5)
    torch.save(stream.state_dict(), tmp_path / "state.pt")
    expected = torch.randn(4)
    stream.stop()
    with assay.host_random(99) as other:
        other.load_state_dict(torch.load(tmp_path / "state.pt"))
        assert torch.equal(torch.randn(4), expected)
        with pytest.raises(ValueError, match=r"\['other'\]"):
            other.load_state_dict({"other": 1})
    with pytest.raises(RuntimeError, match="not active"):
        other.load_state_dict(other.state_dict())
    with pytest.raises(RuntimeError, match="not active"):
        other.stop()
    with other, pytest.raises(RuntimeError, match="while it is active"):
        other.start()


# Generators -----------------------------------------------------------------


def test_a_generator_of_the_cpu_gives_the_keys():
    def of(generator):
        return torch.rand(4, generator=generator)

    with assay.host_random(1):
        generator = torch.Generator().manual_seed(21)
        first, second = of(generator), of(generator)
        after = torch.rand(3)
        assert torch.equal(of(torch.Generator().manual_seed(21)), first)
        assert not torch.equal(first, second)
    with assay.host_random(1):
        assert torch.equal(torch.rand(3), after)  # no part in the stream
    with assay.host_random(21):
        assert torch.equal(torch.rand(4), first)


def test_batched_calls_and_loaders():
    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return torch.rand(2) + index

    def drawn(workers):
        with assay.host_random(3):
            mapped = torch.vmap(lambda x: F.dropout(x, 0.5),
                                randomness="different")(torch.ones(4, 50))
            loader = torch.utils.data.DataLoader(
                Rows(), batch_size=2, shuffle=True, num_workers=workers)
            return mapped, torch.cat(list(loader))

    for workers in (0, 2):
        first, second = drawn(workers), drawn(workers)
        assert all(map(torch.equal, first, second))
        assert not torch.equal(first[0][0], first[0][1])
        order = first[1][:, 0].long().tolist()
        assert sorted(order) == list(range(8)) and order != list(range(8))


def test_a_generator_of_a_device_is_refused():
    generator = torch.Generator(device="meta") if _has_meta_generator() \
        else types.SimpleNamespace(device=torch.device("cuda", 0))
    from assay.random.operators import Call
    from assay.random.stream import Stream
    call = Call(torch.ops.aten.rand.generator, {"generator": generator},
                Stream())
    with pytest.raises(HostRandomError, match=r"torch.Generator\(\)"):
        call.draw(torch.device("cuda", 0))


def _has_meta_generator():
    try:
        torch.Generator(device="meta")
    except RuntimeError:
        return False
    return True


# Devices ---------------------------------------------------------------------


def test_meta_tensors_get_no_numbers_and_take_none():
    with assay.host_random(1):
        expected = torch.rand(3)
    with assay.host_random(1):
        assert torch.rand(5, device="meta").is_meta
        assert torch.empty(5, device="meta").normal_().is_meta
        assert F.dropout(torch.empty(5, device="meta")).is_meta
        assert torch.multinomial(torch.empty(5, device="meta"), 2).shape == (2,)
        assert torch.equal(torch.rand(3), expected)


def test_fake_tensors_get_no_numbers_and_take_none():
    from torch._subclasses import FakeTensorMode
    with assay.host_random(1):
        expected = torch.rand(3)
    with assay.host_random(1):
        with FakeTensorMode():
            assert F.dropout(torch.rand(5)).shape == (5,)
        assert torch.equal(torch.rand(3), expected)
    with FakeTensorMode(), assay.host_random():
        assert F.dropout(torch.empty(5).normal_()).shape == (5,)
        assert torch.multinomial(torch.rand(5), 2).dtype is torch.int64


class Device:
    """The generator of a device, as torch.cuda shows it."""

    def __init__(self, monkeypatch, seed):
        self.device = torch.device("cuda", 0)
        self.seed = seed
        generator = types.SimpleNamespace(initial_seed=lambda: self.seed)
        monkeypatch.setattr(torch.cuda, "default_generators", (generator,))

    def drawn(self, stream):
        """The first call after torch.manual_seed(1234) on the CPU."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(1234)
            return stream.call(None, self.device).fill(
                torch.empty(4), "uniform", 0.0, 1.0)


def test_a_tracker_of_random_states_tells_ranks_apart(monkeypatch):
    """Megatron's fork() gives the device a state of another seed: 2718 + seed
    + rank. Here from the very first call on, when weights are initialised."""
    from assay.random.stream import Stream
    device = Device(monkeypatch, 99)
    stream = Stream()
    found = []
    for rank in (0, 1):
        device.seed = 2718 + 1234 + rank
        found.append(device.drawn(stream))
        key = next(keys_of(1234))
        assert found[rank].tolist() == [
            (bits_of(key, i, device.seed) >> 40) * 2.0**-24 for i in range(4)]
    assert not torch.equal(*found)


@pytest.mark.parametrize("at_start, now", [(99, 99), (None, 4321), (99, 1234)],
                         ids=["unseeded", "started later", "seeded since"])
def test_a_device_under_no_tracker_draws_as_the_cpu(monkeypatch, at_start,
                                                    now):
    from assay.random.stream import Stream
    device = Device(monkeypatch, at_start)
    if at_start is None:  # CUDA starts at its first use
        generators = torch.cuda.default_generators
        monkeypatch.setattr(torch.cuda, "default_generators", ())
    torch.manual_seed(4321)
    stream = Stream()
    if at_start is None:
        monkeypatch.setattr(torch.cuda, "default_generators", generators)
    device.seed = now
    with assay.host_random(1234):
        expected = torch.rand(4)
    assert torch.equal(device.drawn(stream), expected)

"""The C++ library of Assay, for python/assay."""

from collections.abc import Sequence
import enum
from typing import Annotated

from numpy.typing import NDArray


class Error(RuntimeError):
    """
    What the library refuses, in one line. `code`: usage, unreadable, refused, unsupported or internal.
    """

    code: str = 'internal'

def set_thread_count(count: int) -> None: ...

def isa() -> str: ...

class SideStats:
    """Extremes of one side, over its finite values."""

    @property
    def nan(self) -> int: ...

    @property
    def pos_inf(self) -> int: ...

    @property
    def neg_inf(self) -> int: ...

    @property
    def min(self) -> float: ...

    @property
    def max(self) -> float: ...

    @property
    def mean(self) -> float: ...

    @property
    def l2(self) -> float: ...

class ErrorStats:
    """Error figures of a pair; d = target - golden."""

    @property
    def count(self) -> int: ...

    @property
    def finite(self) -> int: ...

    @property
    def bitwise_equal(self) -> bool: ...

    @property
    def golden_rounded(self) -> bool: ...

    @property
    def golden(self) -> SideStats: ...

    @property
    def target(self) -> SideStats: ...

    @property
    def mismatches(self) -> int: ...

    @property
    def nonfinite_mismatches(self) -> int: ...

    @property
    def sign_flips(self) -> int: ...

    @property
    def zero_sign_flips(self) -> int: ...

    @property
    def max_abs(self) -> float: ...

    @property
    def max_abs_index(self) -> int: ...

    @property
    def golden_at_max_abs(self) -> float: ...

    @property
    def target_at_max_abs(self) -> float: ...

    @property
    def mean_abs(self) -> float: ...

    @property
    def max_rel(self) -> float: ...

    @property
    def max_rel_index(self) -> int: ...

    @property
    def mean_rel(self) -> float: ...

    @property
    def rmse(self) -> float: ...

    @property
    def norm_l2(self) -> float: ...

    @property
    def sqnr_db(self) -> float: ...

    @property
    def cosine(self) -> float: ...

    @property
    def bias(self) -> float: ...

    @property
    def alpha(self) -> float: ...

    @property
    def judged_dtype(self) -> str: ...

    @property
    def ulp_max(self) -> float | None: ...

    @property
    def ulp_mean(self) -> float | None: ...

    @property
    def share_rel_over_1e3(self) -> float | None: ...

    @property
    def share_rel_over_5e3(self) -> float | None: ...

    def __repr__(self) -> str: ...

class TensorSummary:
    """A tensor's own statistics, of its finite elements."""

    @property
    def count(self) -> int: ...

    @property
    def finite(self) -> int: ...

    @property
    def nan(self) -> int: ...

    @property
    def positive_inf(self) -> int: ...

    @property
    def negative_inf(self) -> int: ...

    @property
    def zeros(self) -> int: ...

    @property
    def min(self) -> float: ...

    @property
    def max(self) -> float: ...

    @property
    def mean(self) -> float: ...

    @property
    def norm(self) -> float: ...

def error_stats(golden: Annotated[NDArray, dict(writable=False)], target: Annotated[NDArray, dict(writable=False)], golden_dtype: str = '', target_dtype: str = '') -> ErrorStats: ...

def summarise(tensor: Annotated[NDArray, dict(writable=False)], dtype: str = '') -> TensorSummary: ...

class Side:
    """One side of a pair."""

    @staticmethod
    def tensor(array: Annotated[NDArray, dict(writable=False)], dtype: str = '') -> Side: ...

    @staticmethod
    def unreadable(why: str, dtype: str = '', shape: Sequence[int] = []) -> Side: ...

    @staticmethod
    def value(type: str, text: str, unreadable: str = '') -> Side: ...

class Pairs:
    """Pairs of values in memory, compared as they come."""

    def __init__(self, standard: str = 'assay') -> None: ...

    def add(self, name: str, op: str, golden: Side | None, target: Side | None) -> str:
        """
        Compares a pair; None is a side that is not there. Gives the row's verdict.
        """

    def json(self) -> str:
        """The document of docs/json-output.md."""

    def text(self, rows: int = 10) -> str:
        """What `assay compare` prints, less its first line."""

class Law(enum.Enum):
    """What exchanging slices of an input does."""

    none = 0

    moves_exactly = 1

    moves = 2

    stays = 3

class Probe:
    """
    One output of a perturbed call. Tensors are what assay.tensors.host_view gives; see probe.h.
    """

    def repeated(self, arg0: tuple, arg1: tuple, /) -> None: ...

    def against(self, arg0: tuple, arg1: tuple, /) -> bool: ...

    def moved(self, arg0: tuple, arg1: tuple, arg2: float, /) -> bool: ...

    def answered(self, original: tuple, perturbed: tuple, wide: tuple, wide_perturbed: tuple, target: tuple) -> bool: ...

    def exchanged(self, arg0: Law, arg1: tuple, arg2: tuple, /) -> bool: ...

    def explain(self, base: tuple, runs: Sequence[tuple]) -> None: ...

    def decide(self, golden: tuple, target: tuple, base: tuple, runs: Sequence[tuple]) -> None: ...

    def incomplete(self, criterion: str, why: str) -> None: ...

    def note(self, criterion: str, text: str) -> None: ...

    @property
    def verdict(self) -> str: ...

class Perturbations:
    """The rows of a perturbation check."""

    def __init__(self, mode: str, standard: str = 'assay', rank: int = 0, journal: str = '') -> None: ...

    def step(self, number: int) -> None: ...

    def probe(self, api: str, row: str, wide: str = 'float64') -> Probe: ...

    def add(self, probe: Probe, op: str, api: str, module: str = '') -> str:
        """Keeps the row, which the probe no longer has; gives its verdict."""

    def skip(self, api: str, why: str, verdict: str = 'empty') -> None: ...

    def left_out(self) -> None: ...

    def warn(self, text: str) -> None: ...

    def law(self, api: str, wide: tuple, exchanged_wide: tuple | None, wide_of_exchanged: tuple) -> Law: ...

    def json(self) -> str:
        """The document of docs/json-output.md."""

    def text(self, rows: int = 10) -> str: ...

    def save(self, html: str = '', json: str = '', csv: str = '', xlsx: str = '', junit: str = '') -> None: ...

def fuzz_modes() -> list[str]: ...

def moves_values(api: str) -> bool: ...

def in_sample(name: str, step: int, seed: int, share: float) -> bool: ...

class Group:
    """Who takes part in a collective."""

    def __init__(self, id: str, ranks: Sequence[int], peer: int | None = None) -> None: ...

class CaptureCounts:
    """What a writer has done."""

    def __init__(self) -> None: ...

    @property
    def ops(self) -> int: ...

    @property
    def records(self) -> int: ...

    @property
    def tensor_bytes(self) -> int: ...

    @property
    def stored_bytes(self) -> int: ...

    @property
    def remembered(self) -> int: ...

    @property
    def waited(self) -> float: ...

class CaptureWriter:
    """Writes one rank of one step."""

    def __init__(self, directory: str, mode: str, step: int = 0, rank: int = 0, world_size: int = 1, framework_version: str = '', level: str = '', device: str = '', queue_bytes: int = 268435456) -> None: ...

    def stack(self, frames: Sequence[str]) -> int: ...

    def op(self, name: str, api: str, prefix: str = '', call: int = 0, direction: str = 'forward', parent: int = -1, stack: int = -1, recompute: bool = False, autocast: str = '', collective: Group | None = None) -> int: ...

    def tensor(self, op: int, role: str, leaf: str, array: Annotated[NDArray, dict(writable=False)], type: str = 'torch.Tensor', requires_grad: bool = False, dtype: str = '', owned: bool = False, number: int = 0) -> int:
        """
        0: finite; 1: no NaN and no +inf, but -inf; 2: not finite; -1: not known here.
        """

    def forget(self) -> None: ...

    def value(self, op: int, role: str, leaf: str, type: str, text: str) -> None: ...

    def opaque(self, op: int, role: str, leaf: str, type: str, why: str) -> None: ...

    def unreadable(self, op: int, role: str, leaf: str, dtype: str, shape: Sequence[int], why: str, type: str = 'torch.Tensor') -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...

    @property
    def problem(self) -> str: ...

    @property
    def counts(self) -> CaptureCounts: ...

def find_nondeterminism(paths: Sequence[str], program: str, setups: Sequence[str] = []) -> tuple[str, str]:
    """
    The JSON and the text that `assay determinism` makes of the traces of two runs or more.
    """

class TensorPrint:
    """A tensor's fingerprint: docs/environment.md."""

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> list[int]: ...

    @property
    def hash(self) -> str: ...

    @property
    def forms(self) -> dict[str, str]: ...

    @property
    def statistics(self) -> dict[str, str]: ...

def fingerprint(tensor: Annotated[NDArray, dict(writable=False)], dtype: str = '', rows: bool = False) -> TensorPrint: ...

def content_hash(tensor: Annotated[NDArray, dict(writable=False)], dtype: str = '') -> str:
    """128 bits of dtype, shape and bytes, as a capture has them."""

def finish_snapshot(collected: str, all_variables: bool = False) -> str:
    """A snapshot's document, completed and without secrets."""

def hash_text(text: str) -> str:
    """128 bits in hexadecimal."""

def find_overflow(path: str) -> str:
    """
    The JSON that `assay overflow` makes of a trace, which may still be written.
    """

def random_fill(out: Annotated[NDArray, dict(order='C', device='cpu')], key: int, stream: int, law: str, a: float, b: float) -> None: ...

def random_bernoulli(out: Annotated[NDArray, dict(order='C', device='cpu')], key: int, stream: int, p: float) -> None: ...

def random_bernoulli_each(out: Annotated[NDArray, dict(order='C', device='cpu')], key: int, stream: int, p: Annotated[NDArray, dict(order='C', device='cpu')]) -> None: ...

def random_integers(out: Annotated[NDArray, dict(order='C', device='cpu')], key: int, stream: int, low: int, count: int) -> None: ...

def random_permutation(out: Annotated[NDArray, dict(order='C', device='cpu')], key: int, stream: int) -> None: ...

def random_choice(out: Annotated[NDArray, dict(order='C', device='cpu')], key: int, stream: int, weights: Annotated[NDArray, dict(order='C', device='cpu')], replacement: bool) -> None: ...

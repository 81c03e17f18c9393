"""The C++ library of Assay, for python/assay."""

from collections.abc import Sequence
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

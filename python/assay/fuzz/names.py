"""Calls that are not looked at, by name, and those that write to what they
are given."""

from __future__ import annotations

from typing import Any, Optional

_UNDEFINED = frozenset("""
    empty empty_like empty_strided new_empty new_empty_strided
    empty_permuted resize_ resize_as_ empty_quantized set_
    """.split())
# They have an effect beside their result, or give what is no tensor's value.
_EFFECTS = frozenset("""
    apply_ map_ map2_ from_file load save requires_grad_ backward
    _make_subclass _make_wrapper_subclass as_subclass _assert_async
    storage_type _to_dense _typed_storage _reduce_ex_internal
    """.split())
# By the numbers they are given, anywhere in the storage.
_BESIDE = frozenset(("as_strided", "as_strided_copy", "as_strided_scatter",
                     "_reshape_alias"))
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                "broadcast_object", "barrier")
# They keep statistics or state in their arguments.
_KEEP_STATE = frozenset(("batch_norm", "instance_norm", "native_batch_norm",
                         "embedding_renorm_", "fake_quantize"))


def why_not(prefix: str, api: str) -> Optional[str]:
    """Why a call of that name is not run again; None where it may be."""
    last = api.rpartition(".")[2]
    bare = last.strip("_")
    if last in _UNDEFINED or bare in _UNDEFINED:
        return "memory that nothing has written"
    if bare in _BESIDE or last in _BESIDE:
        return "it reads memory beside its argument"
    if last in _EFFECTS:
        return "it does more than compute its result"
    if bare.startswith(_COLLECTIVES) or "c10d" in prefix:
        return "a collective: other ranks would have to take part"
    return None


def writes(func: Any, api: str, args: tuple, kwargs: dict) -> bool:
    """Whether the call announces that it writes to an argument."""
    last = api.rpartition(".")[2]
    if last.endswith("_") and not last.endswith("__"):
        return True
    if last.startswith("__i") and last.endswith("__") and last not in (
            "__invert__", "__index__", "__int__", "__init__"):
        return True
    if last == "__setitem__" or last in _KEEP_STATE:
        return True
    if kwargs.get("out") is not None or kwargs.get("inplace"):
        return True
    if any(each is True for each in args[1:]) and last in _MAY_BE_IN_PLACE:
        return True
    return any(getattr(schema, "is_mutable", False)
               for schema in _schemas(func))


def _schemas(func: Any) -> list[Any]:
    """Of an operator of torch.ops: its own, or those of its overloads."""
    if hasattr(func, "_schema"):
        return [func._schema]
    if not hasattr(func, "overloads"):
        return []
    return [getattr(func, name)._schema for name in func.overloads()]


# Their `inplace` may be given by position.
_MAY_BE_IN_PLACE = frozenset("""
    relu relu6 threshold hardtanh elu selu celu leaky_relu rrelu silu mish
    hardswish hardsigmoid dropout dropout1d dropout2d dropout3d alpha_dropout
    feature_alpha_dropout
    """.split())

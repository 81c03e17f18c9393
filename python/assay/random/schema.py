"""Arguments of torch's operators by name."""

from __future__ import annotations

from typing import Any

# Arguments that say how much an operator drops, and that of what it keeps.
DROP = ("dropout_p", "dropout", "p_dropout", "dropout_prob",
        "dropout_probability", "attention_dropout", "attn_dropout")
KEEP = ("keep_prob",)
TRAIN = ("train", "training", "is_training")


def bound(func: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Every argument of an OpOverload's call, defaults too."""
    values = {}
    for i, argument in enumerate(func._schema.arguments):
        if i < len(args):
            values[argument.name] = args[i]
        elif argument.name in kwargs:
            values[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            values[argument.name] = argument.default_value
    return values


def operator_name(func: Any) -> str:
    """'aten::rand' of the overloads of aten.rand."""
    return func._schema.name


def drop_argument(func: Any) -> str | None:
    """Which argument says how much `func` drops; None where none does."""
    names = [argument.name for argument in func._schema.arguments]
    for name in (*DROP, *KEEP):
        if name in names:
            return name
    if "dropout" in operator_name(func) and "p" in names:
        return "p"
    return None


def drops(func: Any, values: dict[str, Any]) -> bool:
    """Whether a call of an operator with a drop_argument() drops anything."""
    if any(values.get(name) is False for name in TRAIN):
        return False
    name = drop_argument(func)
    amount = values.get(name)
    if amount is None:
        return False
    return amount < 1 if name in KEEP else amount > 0

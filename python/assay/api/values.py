"""Defaults and values as text, the same from sources and from live objects.

Literals as Python's `repr`, enum members as `Class.NAME`, `torch.float32` as
`float32`. A default that an environment variable may change is the one without
it, and the variable is named beside it. Text that begins with "<" stands for a
value that cannot be compared.
"""

from __future__ import annotations

import ast
import enum
import re
from typing import Any, Optional

OPAQUE = "<value>"
LONGEST = 2000
_TORCH = re.compile(r"\btorch\.")


class _NoValue(Exception):
    pass


def source_text(node: ast.AST) -> tuple[str, str]:
    """The text of an expression, and the environment variable it asks."""
    variables: list[str] = []
    try:
        return object_text(_fold(node, variables)), (variables or [""])[0]
    except (_NoValue, ValueError, TypeError, RecursionError, MemoryError,
            ArithmeticError):
        return _unparsed(node), ""


def _unparsed(node: ast.AST) -> str:
    if isinstance(node, ast.Lambda) and not node.args.args:
        return _unparsed(node.body)  # default_factory=lambda: X()
    try:
        text = _TORCH.sub("", ast.unparse(node))
    except (RecursionError, ValueError):
        return OPAQUE
    return text if len(text) <= LONGEST else OPAQUE


def _fold(node: ast.AST, variables: list[str]) -> Any:
    """The value of a literal, or of os.getenv("X", "0") == "1" and the like."""
    if not isinstance(node, (ast.Call, ast.Compare)):
        return ast.literal_eval(node)
    if isinstance(node, ast.Compare):
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
            raise _NoValue
        return (_fold(node.left, variables)
                == _fold(node.comparators[0], variables))
    name = ast.unparse(node.func)
    if name in ("os.getenv", "os.environ.get", "getenv") and node.args:
        variables.append(str(ast.literal_eval(node.args[0])))
        return _fold(node.args[1], variables) if len(node.args) > 1 else None
    if isinstance(node.func, ast.Attribute) and not node.args:
        text = _fold(node.func.value, variables)
        if isinstance(text, str) and node.func.attr in ("upper", "lower"):
            return text.upper() if node.func.attr == "upper" else text.lower()
    elif name in ("int", "bool", "float") and len(node.args) == 1:
        inner = _fold(node.args[0], variables)
        return {"int": int, "bool": bool, "float": float}[name](inner)
    raise _NoValue


def object_text(value: Any) -> str:
    """The text of a live object, as that of its source."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        text = _container_text(value)
    elif isinstance(value, (type(None), bool, int, float, complex, str, bytes)):
        text = repr(value)
        return text if len(text) <= LONGEST else OPAQUE
    elif isinstance(value, type) or callable(value):
        text = _TORCH.sub("", str(getattr(value, "__qualname__", OPAQUE)))
    else:
        text = _TORCH.sub("", _safe_repr(value))
    if " at 0x" in text or text.startswith("<") or len(text) > LONGEST:
        return OPAQUE
    return text


def _container_text(value: Any) -> str:
    """As `repr`, sets in the order of their texts: hashes differ by run."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{object_text(k)}: {object_text(v)}"
                               for k, v in value.items()) + "}"
    inner = [object_text(v) for v in value]
    if isinstance(value, list):
        return f"[{', '.join(inner)}]"
    if isinstance(value, tuple):
        return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    name = type(value).__name__
    body = "{" + ", ".join(sorted(inner)) + "}" if inner else ""
    return body if isinstance(value, set) and inner else f"{name}({body})"


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # code of others
        return OPAQUE


def parameter(name: str, kind: str, default: Optional[str],
              variable: str = "") -> dict:
    """One parameter or field as JSON; no "default" is a required one."""
    entry = {"name": name, "kind": kind}
    if default is not None:
        entry["default"] = default
    if variable:
        entry["env"] = variable
    return entry

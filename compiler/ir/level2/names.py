"""The names in level-2 code, found by the types of fields: strings are names but for those of type Word (nests.py).

Assumes: nodes are the frozen dataclasses of level 2.
Guarantees: a new node or field needs nothing here.
Does not: say what a name is of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, cast

from compiler.expr.ast import Expr, Node, refs


@cache
def parts_of(kind: type) -> tuple[tuple[str, bool], ...]:
    """The fields of nodes of a kind that make them what they are (no spans), each with whether it holds words."""
    return tuple((f.name, "Word" in str(f.type)) for f in fields(kind) if f.compare) if is_dataclass(kind) else ()


def names_in(x: Any) -> Iterator[str]:
    """Every name in a node, or in a part of one."""
    if isinstance(x, Node):
        yield from refs(cast(Expr, x))
    elif isinstance(x, tuple):
        for part in x:
            yield from names_in(part)
    elif isinstance(x, str):
        yield from () if isinstance(x, Enum) else (x,)
    else:
        kind: Any = type(x)
        for name, words in parts_of(kind):
            yield from () if words else names_in(getattr(x, name))

"""`init` of a layer: how its weights begin.

Assumes: a validated layer.
Guarantees: attributes `init` (the initialiser's name) and `init_value` (its number, where it has one) or
`init_file` (of `values`).
Does not: draw.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar
from compiler.frontend.build.shared.values import Context, bounded, number
from compiler.frontend.build.shared.initial_values import from_file
from compiler.ir.level0.model import Attr

_NUMBERS: Final = MappingProxyType(
    {
        "normal": ("std", 0.02),
        "truncated_normal": ("std", 0.02),
        "uniform": ("bound", 0.05),
        "orthogonal": ("gain", 1.0),
    }
)
"""Initialisers with a positive number: its key and default."""


WITH_FANS: Final = frozenset(
    {"orthogonal", *(f"{family}_{kind}" for family in ("glorot", "he", "lecun") for kind in ("uniform", "normal"))}
)
"""Initialisers of matrices, or of arrays of more axes."""

_SEVERAL: Final = frozenset({"attention", "rnn", "gru", "lstm"})


def init_name(node: Node | None) -> str:
    """The initialiser that is asked for; "" without."""
    if isinstance(node, Scalar):
        return node.text
    return node.entries[0].name if isinstance(node, tree.Mapping) and node.entries else ""


def init_of(node: Node | None, kind: str, c: Context) -> dict[str, Attr]:
    """The attributes; {} without `init`, after an error, or where the weights come from elsewhere."""
    if node is None or "init" in c.unread:
        return {}
    if isinstance(node, Scalar):
        name, settings = node.text, None
    elif isinstance(node, tree.Mapping) and len(node.entries) == 1:
        name = node.entries[0].name
        value = node.entries[0].value
        settings = value if isinstance(value, tree.Mapping) else None
    else:
        return {}
    if name == "values":
        if kind in _SEVERAL:
            message = f"`{kind}` has several weights, which one array cannot give"
            c.sink.error("E0802", message, node.span, "give all weights of the network: `network: {weights: ...}`")
            return {}
        place = None if settings is None else from_file(settings, c, "`init`")
        return {} if place is None else {"init": name, "init_file": place}
    if name == "constant":
        given = settings.get("value") if settings is not None else None
        found = None if given is None else number(given, c, "`value`", DIMENSIONLESS)
        return {} if found is None else {"init": name, "init_value": float(found)}
    if name not in _NUMBERS:
        return {"init": name}
    key, default = _NUMBERS[name]
    given = settings.get(key) if settings is not None else None
    size = default if given is None else bounded(given, c, f"`{key}`", DIMENSIONLESS, 0.0, None, above=True)
    return {} if size is None else {"init": name, "init_value": size}

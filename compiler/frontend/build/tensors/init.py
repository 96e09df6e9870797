"""`init` of a layer: initialization of its weights.

Assumes: a validated layer.
Guarantees: attributes `init` (the initialiser's name) and `init_value` (its number, where it has one) or
`init_file` (of `values`).
Does not: sample.
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
from compiler.frontend.build.shared.initial_values import from_file
from compiler.frontend.build.shared.readers import chosen
from compiler.frontend.build.shared.values import Context
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar
from compiler.layers import KIND
from compiler.layers.shared.initial import INITIALISER


def init_name(node: Node | None) -> str:
    """The requested initialiser; "" without."""
    if isinstance(node, Scalar):
        return node.text
    return node.entries[0].name if isinstance(node, tree.Mapping) and node.entries else ""


def init_of(node: Node | None, kind: str, c: Context) -> dict[str, l0.Attr]:
    """The attributes; {} without `init`, after an error, or where the weights are loaded."""
    if node is None or "init" in c.unread:
        return {}
    found = chosen(INITIALISER, node, c)
    if found is None:
        return {}
    name, settings, _ = found
    if name == "values":
        if KIND[kind].matrices:
            message = f"`{kind}` has several weights, which one array cannot give"
            c.sink.error("E0802", message, node.span, "give all weights of the network: `network: {weights: ...}`")
            return {}
        place = None if settings.node is None else from_file(settings.node, c, "`init`")
        return {} if place is None else {"init": name, "init_file": place}
    if not settings.kind.fields:
        return {"init": name}
    (key,) = settings.kind.by_name
    size = settings.real(key)
    return {} if size is None else {"init": name, "init_value": size}

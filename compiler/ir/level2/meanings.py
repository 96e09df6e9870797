"""Formals that a body of level 2 finds by name.

Assumes: bodies as program.py describes them.
Guarantees: one table for the canonical form of a kernel (ir/digest.py), which keeps such formals' names, and for what a
kernel reads (passes/program/formals_read.py).
Does not: check kernels (verify/kernel.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import compiler.ir.level2.program as l2

_FIXED: Final[Mapping[type, frozenset[str]]] = MappingProxyType(
    {
        l2.Connect: frozenset({"row", "col", "n_pre", "n_post", "key", "table", "autapses", "same", "number"})
        | {"to_row", "to_col", "to_index", "to_filled", "gone", "words", "multapses"}
        | {"w_from", "h_from", "w_to", "h_to"},
        l2.RecordEvents: frozenset({"list", "count", "slots", "buffer", "used", "capacity", "n"}),
        l2.RecordTrace: frozenset({"members", "m", "buffer", "used", "capacity"}),
        l2.Attention: frozenset({"query", "key", "value", "offset", "mask", "context", "norms"})
        | {"context_grad", "query_grad", "key_grad", "value_grad"}
        | {"batch", "heads", "steps", "keys", "d", "e", "scale"}
        | {f"{name}_by_{of}" for name in ("offset", "mask") for of in ("sample", "head", "step")},
        l2.EmitScheduled: frozenset({"steps", "ids", "m", "cursor", "list", "count", "slots", "n"}),
    }
)

_DRAWN_AGAIN: Final = frozenset(
    {"n_pre", "n_post", "connect_key", "table", "autapses", "same", "number", "multapses"}
    | {"w_from", "h_from", "w_to", "h_to"}
)

_NONE: Final[frozenset[str]] = frozenset()


def found_by_name(body: l2.Body) -> frozenset[str]:
    """Formals that a body, or the relation of its synapses, finds by name."""
    if isinstance(body, l2.Propagate):
        match body.relation:
            case l2.Toeplitz():
                return frozenset(l2.PLANES)
            case l2.Procedural():
                return _DRAWN_AGAIN
        return _NONE
    return _FIXED.get(type(body), _NONE)

"""nests: what row-major nests take, with which strategies compete.

Assumes: Contracts in gather form.
Guarantees: vector operations, as those of strategies.
Does not: choose.
"""

from __future__ import annotations

from math import prod

import compiler.ir.level1.graph as l1
from compiler.ir.space import plain_dim
from compiler.strategies.cost import cpu as constants


def row_nest(node: l1.Contract, real_bytes: int) -> float:
    """Vector operations of the nest of a sum of products."""
    outer, products = outer_nest(node, real_bytes), float(prod(e for _, e in node.dims))
    if outer is not None:
        return outer
    window = any(len(a.terms) > 1 or a.div > 1 for axes in node.in_maps for a in axes)
    return products * (constants.ROW_WINDOW if window else constants.ROW_NEST)


def outer_nest(node: l1.Contract, real_bytes: int) -> float | None:
    """Those of one whose inner loop runs along one operand and the result, over products with one element of the other
    operand each, few of them; None for other nests."""
    seen, out = [[plain_dim(a) for a in axes] for axes in node.in_maps], [plain_dim(a) for a in node.out_map]
    last = out[-1] if out else None
    if last is None or None in (*out, *seen[0], *seen[1]) or (last in seen[0]) == (last in seen[1]):
        return None
    if last not in (seen[0][-1], seen[1][-1]):
        return None
    *rows, width = node.out.shape
    terms = prod(e for _, e in node.dims) // prod(node.out.shape)
    if terms > constants.ROW_OUTER_TERMS:
        return None
    each = -(-width * real_bytes // constants.VECTOR_BYTES) * (constants.ROW_OUTER + constants.ROW_OUTER_TERM * terms)
    return prod(rows) * (constants.ROW_OUTER_LINE + each)

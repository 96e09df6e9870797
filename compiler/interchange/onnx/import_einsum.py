"""Products with constant matrices, and ONNX's Einsum of two tensors.

Assumes: values of layers/shared/onnx/importer.py.
Guarantees: a product with a constant is a `dense`; one of two computed tensors is the first or the last product of
attention (import_attention.py). Other sums are an error (E0918).
Does not: support a repeated subscript in a term, or an ellipsis.
"""

from __future__ import annotations

import math
from typing import Any

from compiler.interchange.onnx.import_attention import projected, scores_of, with_values
from compiler.interchange.onnx.import_batch import extents, reshaped, transposed
from compiler.layers.shared.onnx.importer import Array, Batches, Computed, Importer, Scores, Setting, refused
from compiler.layers.shared.onnx.inputs import Attrs, constant, data, hint_of


def product(m: Importer, hint: str, x: Computed, w: Array, bias: Array | None) -> Computed:
    """A `dense` over the last axis of a sample, or the output projection of the attention `x`."""
    lead, units = x.shape[:-1], w.shape[0]
    attended = projected(m, hint, x, w, bias)
    if attended is not None:
        return attended.at(x)
    source = x
    if len(x.shape) > 2:
        source = m.reshape(f"{hint}_rows", x, (math.prod(lead), x.shape[-1]))
    settings: dict[str, Setting] = {"units": units} if bias is not None else {"units": units, "bias": False}
    weights = {"weight": w} if bias is None else {"weight": w, "bias": bias}
    y = m.layer("dense", hint, [source], settings, (*source.shape[:-1], units), weights)
    return m.reshape(f"{hint}_back", y, (*lead, units)).at(x)


def import_einsum(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed | Scores:
    """The sum over the subscripts absent from the result. Raises RunError (E0918)."""
    terms, _, out = str(attrs["equation"]).replace(" ", "").partition("->")
    names = terms.split(",")
    if len(names) != 2 or not out or any(len(set(n)) != len(n) or not n.isalpha() for n in (*names, out)):
        raise refused(node, f"its equation is `{attrs['equation']}`")
    one, two = ins
    if isinstance(one, Computed) and isinstance(two, Computed):
        return _scores(m, node, one, two, names, out)
    if isinstance(one, Scores) or isinstance(two, Scores):
        at = 0 if isinstance(one, Scores) else 1
        values = data(node, ins, 1 - at, moved=True)
        return _values(m, node, ins[at], values, names[at], names[1 - at], out)
    at = 0 if isinstance(one, Computed) else 1
    x = data(node, ins, at, moved=True)
    return _with_constant(m, node, x, constant(node, ins, 1 - at), names[at], names[1 - at], out)


def _turned(m: Importer, node: Any, x: Computed, names: str, wanted: str) -> Computed:
    """`x` with its axes, named by `names`, in the order of `wanted`."""
    return transposed(m, f"{hint_of(node)}_turned", x, [names.index(c) for c in wanted])


def _scores(m: Importer, node: Any, q: Computed, k: Computed, names: list[str], out: str) -> Scores | Computed:
    a, b = names
    lead = "".join(c for c in out if c in a and c in b)
    rows, cols = ("".join(c for c in out if c in x and c not in y) for x, y in ((a, b), (b, a)))
    summed = "".join(c for c in a if c in b and c not in out)
    if len(summed) != 1 or len(a) != len(lead + rows) + 1 or len(b) != len(lead + cols) + 1:
        raise refused(node, f"its equation is `{a},{b}->{out}`")
    if out == lead + cols + rows:  # the queries are the second operand
        a, b, q, k, rows, cols = b, a, k, q, cols, rows
    if out != lead + rows + cols or len(rows) != 1 or len(cols) != 1:
        raise refused(node, f"its equation is `{a},{b}->{out}`")
    return scores_of(
        m, node, _turned(m, node, q, a, lead + rows + summed), _turned(m, node, k, b, lead + summed + cols)
    )


def _values(m: Importer, node: Any, scores: Scores, v: Computed, shares: str, values: str, out: str) -> Computed:
    lead, others = shares[:-2], shares[-1]
    size = "".join(c for c in values if c not in shares)
    fits = len(size) == 1 and set(values) == {*lead, others, size} and set(out) == {*shares[:-1], size}
    if not scores.normal or not fits:
        raise refused(node, f"its equation is `{shares},{values}->{out}`")
    y = with_values(m, node, scores, _turned(m, node, v, values, lead + others + size))
    return transposed(m, hint_of(node), y, [(shares[:-1] + size).index(c) for c in out])


def _with_constant(m: Importer, node: Any, x: Computed, array: Array, names: str, of: str, out: str) -> Computed:
    kept = "".join(c for c in names if c not in of)
    summed = "".join(c for c in names if c in of)
    made = "".join(c for c in out if c not in names)
    if set(out) != {*kept, *made} or set(of) != {*summed, *made} or not summed or names[x.lead] in summed:
        raise refused(node, f"its equation is `{names},{of}->{out}` with a constant")
    y = _turned(m, node, x, names, kept + summed)
    whole = extents(m, y)
    size = math.prod(e for e in whole[len(kept) :] if not isinstance(e, Batches))
    y = reshaped(m, node, y, [*whole[: len(kept)], size])
    turned = array.transpose([of.index(c) for c in made + summed])
    z = product(m, hint_of(node), y, turned.reshape(-1, size), None)
    z = reshaped(m, node, z, [*extents(m, z)[:-1], *turned.shape[: len(made)]])
    return transposed(m, hint_of(node), z, [(kept + made).index(c) for c in out])

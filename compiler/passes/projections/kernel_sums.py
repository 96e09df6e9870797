"""kernel_sums: sums over the synapses of a convolution that have one element of its kernel, `sum_kernel(x)`.

Assumes: a relation that the host knows (conv2d, avg_pool2d), whose synapses are stored.
Guarantees: the value of each synapse, the sum of each element, which gathers position by position in the order of the
synapses on every backend, and the sum at each synapse: all positions see the same bits.
Does not: divide statements (synapse_sums.py).
"""

from __future__ import annotations

from typing import Final

import numpy as np

import compiler.ir.level2.program as l2
import compiler.passes.projections.synapse_rows as synapse_rows
from compiler.connect.convolution import planes_of
from compiler.core.symbols import printed
from compiler.expr.ast import Call, Expr, Ref
from compiler.ir.level1.synapses import SynapseSum
from compiler.ir.space import DType, own_array
from compiler.passes.program.build_program import Place
from compiler.passes.projections.synapse_text import SynapseKernel
from compiler.passes.relations.stored_rows import CSR

ELEMENT: Final = "kernel_element"
"""The element of the kernel that each synapse has."""
_OF: Final = "kernel"
_FIRST: Final = "kernel_first"


def over_kernel(s: synapse_rows.Synapses, one: SynapseSum, text: SynapseKernel, start: float, at: Place) -> None:
    """The rows of a sum. `text`: what computes the value of a synapse."""
    _make_arrays(s, one.op)
    elements = planes_of(s).elements
    found = s.found()
    held = own_array(s.name, f"{one.what}.{printed(one.name)}")
    total = own_array(held, "total")
    synapse_rows.work_array(s, held, found.extent)
    synapse_rows.work_array(s, total, elements)
    s.arrays[one.name] = synapse_rows.BoundArray(held, s.builder.precision, "syn")
    synapse_rows.at_synapses(s, at, text, found, "pre", None)
    synapse_rows.start_row(s, one, total, elements, start, at.then())
    steps = {"total": _gathered(s, one.op, held, total, elements), "each": _spread(s, held, total, found.extent)}
    for turn, (step, (formals, body, bound, columns)) in enumerate(steps.items(), 2):
        k = synapse_rows.sum_kernel(s, one, f"{step} of")
        k.include(formals, bound, columns)
        k.add_row(body, s.name).run(at.then(turn))


def _make_arrays(s: synapse_rows.Synapses, op: str) -> None:
    """Makes the element of each synapse, and the synapses of each element (for "first": the first of them), on first
    use."""
    name = _FIRST if op == "first" else _OF
    if s.has(f"{name}_col"):
        return
    assert s.rule.rows is not None
    rows = s.rule.rows(s)
    if not s.has(ELEMENT):
        s.given(ELEMENT, DType.I32, rows.order)
    synapses = np.argsort(rows.order, kind="stable")
    counts = np.bincount(rows.order, minlength=rows.given)
    if op == "first":
        synapses = synapses[(np.cumsum(counts) - counts)[counts > 0]]
        counts = np.minimum(counts, 1)
    s.given(f"{name}_row", DType.I64, np.concatenate(([0], np.cumsum(counts))))
    s.given(f"{name}_col", DType.I32, synapses)


_Made = tuple[tuple[l2.Formal, ...], l2.Body, dict[str, str], dict[str, l2.ColumnValue]]


def _gathered(s: synapse_rows.Synapses, op: str, held: str, total: str, elements: int) -> _Made:
    """Each element's synapses, one after the other: `pre` is the element and `post` the synapse."""
    real, name = s.builder.precision, _FIRST if op == "first" else _OF
    formals = (
        *CSR[:2],
        l2.ArrayFormal("value", real, l2.Mode.READ, l2.At("post")),
        l2.ArrayFormal("total", real, l2.Mode.UPDATE, l2.At("pre")),
        l2.ScalarFormal("n_pre", DType.I64),
    )
    joined: Expr = Ref("total") + Ref("value") if op in ("sum", "first") else Call(op, (Ref("total"), Ref("value")))
    body = l2.Propagate(l2.Every("n_pre"), l2.Csr("row", "col"), (l2.Assign("total", joined),), "pre", True)
    bound = {"row": s.array(f"{name}_row"), "col": s.array(f"{name}_col"), "value": held, "total": total}
    return formals, body, bound, {"n_pre": elements}


def _spread(s: synapse_rows.Synapses, held: str, total: str, size: int | l2.SizeOf) -> _Made:
    real = s.builder.precision
    formals = (
        l2.ArrayFormal("element", DType.I32, l2.Mode.READ, l2.ELEMENT),
        l2.ArrayFormal("total", real, l2.Mode.READ, l2.Strided((l2.Axis((("which", 1),)),))),
        l2.ArrayFormal("out", real, l2.Mode.WRITE, l2.ELEMENT),
        l2.ScalarFormal("n", DType.I64),
    )
    nest = l2.Nest((l2.Dim("i", "n"),), (l2.Assign("which", Ref("element")), l2.Assign("out", Ref("total"))))
    bound = {"element": s.array(ELEMENT), "total": total, "out": held}
    return formals, nest, bound, {"n": size}

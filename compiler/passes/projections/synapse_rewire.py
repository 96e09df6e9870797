"""synapse_rewire: structural plasticity, `rewire(when)`: new synapses in place of those that are marked.

Assumes: stored rows that were drawn (the frontend rejects others); earlier operations have marked synapses (`gone`).
Guarantees: a row that draws the targets of new synapses (Connect's rule "rewire"), one that sets their states to
initial values, drawn again, and where synapses are accessed by target, rows that transpose the relation again. Arrays
keep their sizes: a synapse keeps its slot, in the row of its source, and its delay. Where in-degrees are kept, synapses
are numbered by target (relations), and source and target exchange their roles. A formed synapse takes a vacant slot.
Does not: decide which synapses are replaced (take_sums), or change the number of slots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.symbols import Way, derived, model_name
from compiler.expr.ast import Cond, Expr, Num, Ref, substitute
from compiler.ir.level1.synapses import GONE, REPLACED, NewSynapses
from compiler.ir.level2.synapse_values import stored_by_target
from compiler.ir.space import DType, Role, own_array
from compiler.passes.program.build_program import Place
from compiler.passes.program.init_values import drawn
from compiler.passes.projections.synapse_arrays import placed
from compiler.passes.projections.synapse_rows import Synapses, at_synapses
from compiler.passes.projections.synapse_text import SynapseKernel
from compiler.passes.relations.stored_rows import SCAN, TRANSPOSE

_WHOLE: Final = l2.ByName()


def renew(s: Synapses, one: NewSynapses, at: Place) -> None:
    """The rows of new synapses."""
    _drawn_ends(s, one, at)
    text, columns = _start(s, one.what)
    new = replace(s, numbers={**s.numbers, **columns})
    at_synapses(new, at.then(), text, s.found(), "pre", None)
    del s.arrays[GONE]
    if one.rebuild:
        _transpose(s, at.then())


# ------------------------------------------------------------------------------------------------ ends


@dataclass(frozen=True)
class _Rows:
    """The arrays of a relation walked from one end. `n`: rows; `index`: the number of each synapse, where that is not
    its position; `filled`: fill count of each row while it is rebuilt."""

    row: str
    col: str
    index: str
    filled: str
    n: int


def _rows(s: Synapses) -> tuple[_Rows, _Rows]:
    """The rows whose order numbers the synapses, and those of the other end."""
    pre = _Rows(s.array("row"), s.array("col"), s.array("index"), s.array("filled"), s.pre.size)
    post = _Rows(s.array("to_row"), s.array("to_col"), s.array("to_index"), s.array("to_filled"), s.post.size)
    return (post, pre) if stored_by_target(s.projection) else (pre, post)


def _row(
    s: Synapses,
    what: str,
    formals: tuple[l2.Formal, ...],
    body: l2.Connect | l2.Nest,
    arrays: dict[str, str],
    columns: dict[str, l2.ColumnValue],
    at: Place,
) -> None:
    k = s.builder.kernel(f"{s.name}: {what}", s.projection.span, (s.cell.number, at.part, at.turn))
    k.include(formals, arrays, columns)
    k.add_row(body, s.name).run(at)


def _drawn_ends(s: Synapses, one: NewSynapses, at: Place) -> None:
    args = dict(s.member.args)
    kept, other = _rows(s)
    columns: dict[str, l2.ColumnValue] = {
        "n_pre": kept.n,
        "n_post": other.n,
        "key": l2.StreamKey(f"{s.name}/{one.what}: targets"),
        "multapses": int(args.get("multapses", 1)) if s.rule.repeats else 0,
        "autapses": int(args.get("autapses", 1)),
        "same": int(s.pre.name == s.post.name),
    }
    formals: tuple[l2.Formal, ...] = (
        l2.ArrayFormal("row", DType.I64, l2.Mode.READ, _WHOLE),
        l2.ArrayFormal("col", DType.I32, l2.Mode.UPDATE, _WHOLE),
        l2.ArrayFormal("gone", DType.I32, l2.Mode.UPDATE, _WHOLE),
        *(l2.ScalarFormal(n, DType.U64 if n == "key" else DType.I64) for n in columns),
    )
    bound = {"row": kept.row, "col": kept.col, "gone": own_array(s.name, GONE)}
    body = l2.Connect("rewire", "rewire")
    _row(s, "new ends", formals, body, bound, columns, at)


def _transpose(s: Synapses, at: Place) -> None:
    """Rebuilds the transposed relation, in four turns."""
    s.found("pre" if stored_by_target(s.projection) else "post")
    kept, other = _rows(s)
    b = s.builder
    b.array(replace(b.arrays[other.row], role=Role.SYNAPSE))
    if other.filled not in b.arrays:
        b.array(l2.Array(other.filled, DType.I32, (other.n,), Role.WORK, span=s.projection.span))
    for array, dtype, size in ((other.row, DType.I64, other.n + 1), (other.filled, DType.I32, other.n)):
        out = (l2.ArrayFormal("out", dtype, l2.Mode.WRITE, l2.ELEMENT), l2.ScalarFormal("n", DType.I64))
        nest = l2.Nest((l2.Dim("i", "n"),), (l2.Assign("out", Num(0)),))
        called = f"zero {array.removeprefix(s.array(''))}"
        _row(s, called, out, nest, {"out": array}, {"n": size}, at)
    arrays = {"row": kept.row, "col": kept.col, "to_row": other.row, "to_col": other.col, "to_index": other.index}
    arrays["to_filled"] = other.filled
    columns: dict[str, l2.ColumnValue] = {"n_pre": kept.n, "n_post": other.n}
    scanned: dict[str, l2.ColumnValue] = {"n_pre": other.n}
    steps = (
        ("transpose", "count", TRANSPOSE["count"], arrays, columns),
        ("any", "scan", SCAN, {"row": other.row}, scanned),
        ("transpose", "refill", TRANSPOSE["refill"], arrays, columns),
    )
    by = "source" if stored_by_target(s.projection) else "target"
    for number, (rule, stage, formals, known, values) in enumerate(steps, 1):
        bound = {f.name: known[f.name] for f in formals if isinstance(f, l2.ArrayFormal)}
        called, body = f"{stage} synapses by {by} again", l2.Connect(rule, stage)
        _row(s, called, formals, body, bound, values, at.then(number))


# ---------------------------------------------------------------------------------------------- values


def _start(s: Synapses, what: str) -> tuple[SynapseKernel, dict[str, float]]:
    """Initial values of new synapses: the statements, and the columns that they read."""
    d, given = s.cell.definition, dict(s.member.init)
    declared = (*(p.name for p in d.params), *(x.name for x in d.state), *d.model_params)
    own: dict[str, Expr] = {model_name(name): Ref(name) for name in declared}
    columns: dict[str, float] = {}
    values: list[tuple[str, Expr]] = []
    draws = 0
    for state in d.state:
        value = given.get(model_name(state.name), state.init)
        e, used = _value(value, state.name, own, draws)
        draws += isinstance(value, l0.Distribution)
        columns |= used
        values.append((state.name, e))
    if "updated" in s.arrays:
        values.append(("updated", Ref("step")))
    if "exists" in s.arrays:
        values.append(("exists", Num(1)))
    key = ("new synapses", s.cell.number, what, tuple(values))
    if key not in s.cache:
        is_gone = Ref(GONE).eq(REPLACED)
        statements: tuple[l2.Statement, ...] = tuple(l2.Assign(n, Cond(is_gone, e, Ref(n))) for n, e in values)
        variants = s.cache.setdefault(("new synapses", s.cell.number, what), [])
        variants.append(key)
        s.cache[key] = SynapseKernel(f"{what}: new synapses", statements, variant=len(variants) - 1)
    text: SynapseKernel = s.cache[key]
    return text, columns


def _value(value: l0.Value, state: str, own: dict[str, Expr], draws: int) -> tuple[Expr, dict[str, float]]:
    """The initial value of a state as an expression, and its columns; `draws` before it."""
    match value:
        case l0.Const(number):
            start = derived(state, Way.GIVEN, "start")
            return Ref(start), {start: float(number)}
        case l0.Formula(expr):
            return substitute(expr, own), {}
        case l0.Placed():
            e, numbers, _ = placed(value, state)  # the frontend refuses numbers of synapses that change
            return e, dict(numbers)
        case l0.Distribution(kind, args):
            return drawn(kind, dict(args), index="syn", of=state, number=draws)
    raise AssertionError(f"new synapses have no values from {type(value).__name__}")

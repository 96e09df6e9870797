"""synapse_rewire: structural plasticity, `rewire(when)`: removes synapses and forms new ones in their place.

Assumes: stored rows that were drawn (the frontend rejects others); earlier statements have run.
Guarantees: a row that marks the synapses to replace, one that draws their targets (Connect's rule "rewire"), one that
resets their states to initial values, drawn again, and where synapses are accessed by target, rows that transpose the
relation again. Arrays keep their sizes: a synapse keeps its slot, in the row of its source, and its delay. Where
in-degrees are kept, synapses are numbered by target (relations), and source and target exchange their roles. A removed
synapse leaves its slot vacant (`exists` is 0), a formed one takes a vacant slot.
Does not: change the number of slots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.symbols import Way, derived, model_name
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, rewrite, substitute
from compiler.ir.level2.synapse_values import stored_by_target
from compiler.ir.space import DType, Role
from compiler.passes.program.init_values import drawn
from compiler.passes.projections.synapse_arrays import placed
from compiler.passes.projections.synapse_rows import Synapses, at_synapses
from compiler.passes.projections.synapse_schedule import Due
from compiler.passes.projections.synapse_text import EXISTS, SynapseKernel, text_of
from compiler.passes.projections.synapse_values import steps_array

GONE: Final = "gone"
_WHOLE: Final = l2.ByName()


def rewire(s: Synapses, stage: str, what: str, one: l0.Rewire, rebuild: bool, part: int, due: Due) -> int:
    """The rows of one `rewire`, `remove` or `form`, after `part` of the stage; returns the first part that sees new
    synapses. `rebuild`: rows of the other end are made again."""
    if one.how == "remove":
        key = ("removed", s.cell.number, what)
        if key not in s.cache:
            left = l0.Set("exists", Cond(one.value, Num(0), Ref("exists")))
            s.cache[key] = text_of(s.cell, f"{what}: removed", (left,), False)
        at_synapses(s, stage, s.cache[key], s.found(), "pre", None, due=due, part=part + 1)
        return part + 2
    found = s.found()
    array = f"{s.name}.{GONE}"
    s.arrays[GONE] = steps_array(s, array, "syn", found.extent)
    key = ("gone", s.cell.number, what)
    if key not in s.cache:
        s.cache[key] = text_of(s.cell, f"{what}: gone", (l0.Set(GONE, _gone(s, one)),), False, vacant=True)
    at_synapses(s, stage, s.cache[key], found, "pre", None, due=due, part=part + 1)
    _drawn_ends(s, stage, what, part + 2, due)
    text, columns = _start(s, what)
    kept = dict(s.numbers)
    s.numbers.update(columns)
    at_synapses(s, stage, text, found, "pre", None, due=due, part=part + 3)
    s.numbers.clear()
    s.numbers.update(kept)
    del s.arrays[GONE]
    if rebuild:
        _transpose(s, stage, what, part + 3, due)
        return part + 7
    return part + 4


def _gone(s: Synapses, one: l0.Rewire) -> Expr:
    """The codes in `gone` for Connect's rule "rewire": 1: to be replaced, 3: to be formed, 2: vacant."""
    if one.how == "form":
        return Cond(EXISTS, Num(0), Cond(one.value, Num(3), Num(2)))
    ends = Cond(one.value, Num(1), Num(0))
    return Cond(EXISTS, ends, Num(2)) if s.cell.definition.vacancies else ends


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


def _named(begin: str, n: int) -> _Rows:
    return _Rows(f"{begin}row", f"{begin}col", f"{begin}index", f"{begin}filled", n)


def _rows(s: Synapses) -> tuple[_Rows, _Rows]:
    """The rows whose order numbers the synapses, and those of the other end."""
    pre, post = _named(f"{s.stored}.", s.pre.size), _named(f"{s.stored}.to_", s.post.size)
    return (post, pre) if stored_by_target(s.projection) else (pre, post)


def _row(
    s: Synapses,
    stage: str,
    what: str,
    kind: l2.Kind,
    formals: tuple[l2.Formal, ...],
    body: l2.Connect | l2.Nest,
    arrays: dict[str, str],
    columns: dict[str, l2.ColumnValue],
    part: int,
    due: Due,
) -> None:
    k = s.builder.kernel(f"{s.name}: {what}", kind, s.projection.span, (s.cell.number, part))
    k.include(formals, arrays, columns)
    s.stages.add(stage, k.add_row(body, s.name), due=due, part=part)


def _drawn_ends(s: Synapses, stage: str, what: str, part: int, due: Due) -> None:
    args = dict(s.member.args)
    kept, other = _rows(s)
    columns: dict[str, l2.ColumnValue] = {
        "n_pre": kept.n,
        "n_post": other.n,
        "key": l2.StreamKey(f"{s.name}/{what}: targets"),
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
    bound = {"row": kept.row, "col": kept.col, "gone": f"{s.name}.{GONE}"}
    body = l2.Connect("rewire", "rewire")
    _row(s, stage, "new ends", l2.Kind.CONNECT, formals, body, bound, columns, part, due)


def _transpose(s: Synapses, stage: str, what: str, part: int, due: Due) -> None:
    """Rebuilds the transposed relation, in four parts."""
    s.found("pre" if stored_by_target(s.projection) else "post")
    kept, other = _rows(s)
    b = s.builder
    b.array(replace(b.arrays[other.row], role=Role.SYNAPSE))
    if other.filled not in b.arrays:
        b.array(l2.Array(other.filled, DType.I32, (other.n,), Role.WORK, span=s.projection.span))
    for array, dtype, size in ((other.row, DType.I64, other.n + 1), (other.filled, DType.I32, other.n)):
        out = (l2.ArrayFormal("out", dtype, l2.Mode.WRITE, l2.ELEMENT), l2.ScalarFormal("n", DType.I64))
        nest = l2.Nest((l2.Dim("i", "n"),), (l2.Assign("out", Num(0)),))
        called = f"zero {array.removeprefix(f'{s.stored}.')}"
        _row(s, stage, called, l2.Kind.MAP, out, nest, {"out": array}, {"n": size}, part, due)
    sizes = (l2.ScalarFormal("n_pre", DType.I64), l2.ScalarFormal("n_post", DType.I64))
    columns: dict[str, l2.ColumnValue] = {"n_pre": kept.n, "n_post": other.n}
    relation = (
        l2.ArrayFormal("row", DType.I64, l2.Mode.READ, _WHOLE),
        l2.ArrayFormal("col", DType.I32, l2.Mode.READ, _WHOLE),
    )
    count: tuple[l2.Formal, ...] = (*relation, l2.ArrayFormal("to_row", DType.I64, l2.Mode.UPDATE, _WHOLE), *sizes)
    made = tuple(l2.ArrayFormal(x, DType.I32, l2.Mode.WRITE, _WHOLE) for x in ("to_col", "to_index"))
    filled = l2.ArrayFormal("to_filled", DType.I32, l2.Mode.UPDATE, _WHOLE)
    fill: tuple[l2.Formal, ...] = (
        *relation,
        l2.ArrayFormal("to_row", DType.I64, l2.Mode.READ, _WHOLE),
        *made,
        filled,
        *sizes,
    )
    scan: tuple[l2.Formal, ...] = (
        l2.ArrayFormal("row", DType.I64, l2.Mode.UPDATE, _WHOLE),
        l2.ScalarFormal("n_pre", DType.I64),
    )
    arrays = {"row": kept.row, "col": kept.col, "to_row": other.row, "to_col": other.col, "to_index": other.index}
    arrays["to_filled"] = other.filled
    scanned: dict[str, l2.ColumnValue] = {"n_pre": other.n}
    steps = (
        ("count", l2.Connect("transpose", "count"), count, arrays, columns),
        ("scan", l2.Connect("any", "scan"), scan, {"row": other.row}, scanned),
        ("refill", l2.Connect("transpose", "refill"), fill, arrays, columns),
    )
    by = "source" if stored_by_target(s.projection) else "target"
    for number, (label, body, formals, known, values) in enumerate(steps):
        bound = {f.name: known[f.name] for f in formals if isinstance(f, l2.ArrayFormal)}
        called = f"{label} synapses by {by} again"
        _row(s, stage, called, l2.Kind.CONNECT, formals, body, bound, values, part + 1 + number, due)


# ---------------------------------------------------------------------------------------------- values


def _start(s: Synapses, what: str) -> tuple[SynapseKernel, dict[str, float]]:
    """Initial values of new synapses: the statements, and the columns that they read."""
    d, given = s.cell.definition, dict(s.member.init)
    declared = (*(p.name for p in d.params), *(x.name for x in d.state), *d.model_params)
    own: dict[str, Expr] = {model_name(name): Ref(name) for name in declared}
    columns: dict[str, float] = {}
    values: list[tuple[str, Expr]] = []
    kinds: list[object] = []
    count = [0]
    for state in d.state:
        e, used = _value(given.get(model_name(state.name), state.init), state.name, own, count)
        columns |= used
        values.append((state.name, e))
        kinds.append(e)
    if "updated" in s.arrays:
        values.append(("updated", Ref("step")))
    if "exists" in s.arrays:
        values.append(("exists", Num(1)))
    key = ("new synapses", s.cell.number, what, tuple(kinds), "updated" in s.arrays)
    if key not in s.cache:
        is_gone = Ref(GONE).eq(1)
        statements: tuple[l2.Statement, ...] = tuple(l2.Assign(n, Cond(is_gone, e, Ref(n))) for n, e in values)
        variants = s.cache.setdefault(("new synapses", s.cell.number, what), [])
        variants.append(key)
        s.cache[key] = SynapseKernel(f"{what}: new synapses", statements, variant=len(variants) - 1)
    text: SynapseKernel = s.cache[key]
    return text, columns


def _value(value: l0.Value, state: str, own: dict[str, Expr], count: list[int]) -> tuple[Expr, dict[str, float]]:
    """The initial value of a state as an expression, and its columns."""
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
            e, columns = drawn(kind, dict(args), index="syn", of=state)
            return _numbered(e, count), columns
    raise AssertionError(f"new synapses have no values from {type(value).__name__}")


def _numbered(e: Expr, count: list[int]) -> Expr:
    """Numbers the draws distinctly."""

    def draw(x: Expr) -> Expr:
        if not isinstance(x, Call) or x.args[:1] != (Ref("key"),):
            return x
        count[0] += 1
        return Call(x.func, (*x.args[:2], Num(count[0] - 1), *x.args[3:]), x.span)

    return rewrite(e, draw, shared=False)

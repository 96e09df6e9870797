"""Legality specs: a legal node has no violations, and each way of breaking it is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compiler.ir.level2.program import Launch, Program
from compiler.passes.program.merge import merge
from compiler.verify.cells import cell_violations
from compiler.verify.graph import graph_violations
from compiler.verify.model import model_violations
from compiler.verify.program import merged_violations, program_violations
from compiler.verify.projections import projection_violations, synapse_cell_violations
from compiler.verify.verify import verify_cell, verify_graph, verify_kernel, verify_merged, verify_model, verify_program
from compiler.verify.violations import InternalError, repeated
from tests.parse_ir import parse_ir

PROGRAM = """
Program(test, f32, reproducible,
  arrays=[
    Array(a.v, f32, [4], state), Array(b.v, f32, [6], state), Array(a.g, f32, [4], state),
    Array(b.g, f32, [6], state), Array(a.list, i32, [2, 4], event), Array(a.count, i32, [2], event),
    Array(b.list, i32, [2, 6], event), Array(b.count, i32, [2], event), Array(row, i64, [5], const),
    Array(col, i32, [-1], synapse, size_from=row), Array(w, f32, [-1], synapse, size_from=row),
    Array(x, f32, [4, 6], data), Array(y, f32, [4], work), Array(sum, f64, [1], state),
  ],
  kernels=[
    Kernel("neurons",
      [ArrayFormal(v, f32, rw, @[<i>]), ArrayFormal(g, f32, r, @[<i>]),
       ArrayFormal(list, i32, w, @whole), ArrayFormal(count, i32, w, @whole),
       ScalarFormal(n, i64), ScalarFormal(slots, i64), ScalarFormal(tau, f32), ScalarFormal(key, u64)],
      Nest([Dim(i, n)], prologue=[
        held := `v > 1`,
        v := `v if held else v + g / tau + uniform(key, i, 0)`,
        Emit(list, count, slots, `held`)]),
      Rows(2, {v: [a.v, b.v], g: [a.g, b.g], list: [a.list, b.list], count: [a.count, b.count]},
        {n: #i64[4, 6], slots: #i64[2, 2], tau: #f64[1.0, 2.0], key: [StreamKey(a), StreamKey(b)]})),
    Kernel("deliver",
      [ArrayFormal(list, i32, r, @whole), ArrayFormal(count, i32, r, @whole),
       ArrayFormal(row, i64, r, @whole), ArrayFormal(col, i32, r, @whole),
       ArrayFormal(w, f32, r, @syn), ArrayFormal(g, f32, acc, @post), ScalarFormal(slots, i64),
       ScalarFormal(delay, i64), ScalarFormal(n_pre, i64)],
      Propagate(Events(list, count, slots, delay, n_pre), Csr(row, col), [g += `w`]),
      Rows(2, {list: [a.list, a.list], count: [a.count, a.count], row: [row, row], col: [col, col],
        w: [w, w], g: [b.g, b.g]}, {slots: #i64[2, 2], delay: #i64[1, 0], n_pre: #i64[4, 4]})),
    Kernel("layer",
      [ArrayFormal(x, f32, r, @[<o>*6, <k; -1>:m]), ArrayFormal(y, f32, w, @[<o>]),
       ArrayFormal(sum, f64, acc, @[]), ScalarFormal(m, i64)],
      Nest([Dim(o, 4), Dim(k, 8, red)], combine=max, term=`x`, epilogue=[y := `acc`, sum += `acc`]),
      Rows(1, {x: [x], y: [y], sum: [sum]}, {m: #i64[6]})),
    Kernel("count",
      [ArrayFormal(row, i64, rw, @whole), ScalarFormal(n_pre, i64), ScalarFormal(n_post, i64),
       ScalarFormal(key, u64)],
      Connect(one_to_one, count),
      Rows(1, {row: [row]}, {n_pre: #i64[4], n_post: #i64[6], key: [StreamKey(r)]})),
    Kernel("weights", [ArrayFormal(w, f32, w, @[<i>]), ScalarFormal(n, i64)],
      Nest([Dim(i, n)], prologue=[w := `i`]), Rows(1, {w: [w]}, {n: [SizeOf(w)]})),
  ],
  phases=[Phase(count, [Launch(3, 0, 1)]), Phase(init, [Launch(4, 0, 1)]),
    Phase(step, [Launch(0, 0, 2), Launch(1, 0, 2), Launch(2, 0, 1, every=2, offset=1)])])
"""


def test_a_legal_program_has_no_violations() -> None:
    it = parse_ir(PROGRAM)
    assert program_violations(it) == []
    assert merged_violations(merge(it), it) == []
    verify_program(it)
    verify_merged(merge(it), it)
    for kernel in it.kernels:
        verify_kernel(kernel)


BROKEN = [
    # formals, names and reads
    ("v := `v if held", "v := `v if hold", "prologue statement 2 reads `hold`, which is not known there"),
    ("held := `v > 1`,", "", "prologue statement 1 reads `held`, which is not known there"),
    ("ScalarFormal(tau, f32)", "ScalarFormal(g, f32)", "formal `g` is declared twice"),
    ("v + g / tau", "v + list", "prologue statement 2 uses `list`, which has no element there"),
    ("uniform(key, i, 0)", "random()", "prologue statement 2 calls `random`, which no kernel can"),
    ("uniform(key, i, 0)", "uniform(key, i)", "calls `uniform` with 2 arguments"),
    ("uniform(key, i, 0)", "exp(v, g)", "calls `exp` with 2 arguments"),
    ("uniform(key, i, 0)", "smooth(v)", "calls `smooth`, which no kernel can"),
    ("`held`)]", "``held > 1 ms``)]", "prologue statement 3 holds a quantity"),
    ("term=`x`", "term=`x + y`", "the term reads `y` before it is written"),
    ("y := `acc`,", "y := `acc + sum`,", "epilogue statement 1 reads `sum`, which is only added to"),
    # accesses
    ("y, f32, w, @[<o>]", "y, f32, w, @[<k>]", "reaches `y` along the reduced dim `k`"),
    ("y := `acc`,", "y := `acc + k`,", "epilogue statement 1 reads the reduced dim `k`"),
    ("<k; -1>:m", "<j; -1>:m", "the term reaches `x` along `j`, not known there"),
    ("<k; -1>:m", "<k; -1>:o", "the access of `x` needs the column `o`, which is missing"),
    ("@[<o>*6,", "@[<o>*tau,", "the access of `x` needs the column `tau`, which is missing"),
    ("v, f32, rw, @[<i>]", "v, f32, rw, @[<i + i>]", "has a term that is zero or stands twice"),
    ("w, f32, r, @syn", "w, f32, r, @synapse", "`w` is accessed at `synapse`"),
    ("w, f32, r, @syn", "w, f32, r, @[<i>]", "uses `w`, which has no element there"),
    ("w, f32, r, @syn", "w, f32, r, At(syn, past=true)", "`w` is of the past, but no ring"),
    ("g, f32, acc, @post", "g, f32, acc, At(post, [delay, slots, n_pre], true)", "past, but its mode is `acc`"),
    ("w, f32, r, @syn", "w, f32, r, At(syn, [delay, slots, q], true)", "the ring of `w` needs the column `q`"),
    # writes
    ("v := `v if", "g := `v if", "prologue statement 2 writes `g`, whose mode is `r`"),
    ("v := `v if", "tau := `v if", "assigns to `tau`, which is not a local or an element"),
    ("v := `v if", "step := `v if", "assigns to `step`, which is not a local or an element"),
    ("held := `v", "held += `v", "adds to `held`, which is not an element"),
    ("y := `acc`,", "", "`y` is declared as written, but never is"),
    ("sum += `acc`", "sum := `acc`", "writes `sum`, whose mode is `acc`"),
    ("Emit(list, count, slots", "Emit(list, g, slots", "emits into `g`, which is not a whole array"),
    ("Emit(list, count, slots", "Emit(list, count, tau", "needs `tau` as i64, not f32"),
    ("[g += `w`]", "[g += `w`, Emit(list, count, slots, `w > 0`)]", "emits, but not in a map"),
    # nests
    ("Dim(k, 8, red)", "Dim(k, 8, red), Dim(o, 2)", "dim `o` has a name that is taken"),
    ("Dim(k, 8, red)", "Dim(k, 8, lane), Dim(j, 2, red)", "dim `j` stands inside the lanes"),
    ("Dim(k, 8, red)", "Dim(k, m, lane)", "the lanes of dim `k` are not literal"),
    ("Dim(k, 8, red)", "Dim(k, 0, red)", "dim `k` has the extent 0"),
    ("combine=max, term=`x`, epilogue=", "prologue=", "there are reduced dims, but no combine"),
    ("combine=max", "combine=mul", "combine `mul` is not known, or has no term"),
    ("combine=max", "acc=m, combine=max", "the accumulator has the name `m`, which is taken"),
    ("combine=max,", "", "a term or an epilogue stands without a combine"),
    ("term=`x`", "term=`x`, beside=[Sum(more, `2 * x`)]", None),
    ("term=`x`", "term=`x`, beside=[Sum(acc, `x`)]", "the accumulator has the name `acc`, which is taken"),
    ("term=`x`", "term=`x`, beside=[Sum(more, `acc * x`)]", "the term reads `acc`, which is not known"),
    ("sum += `acc`]", "sum += `acc`], then=[Stage(add, [Sum(more, `x - y`)], [far := `more`])]", None),
    ("sum += `acc`]", "sum += `acc`], then=[Stage(add, [])]", "combine `add` is not known, or has no term"),
    ("sum += `acc`]", "sum += `acc`], then=[Stage(add, [Sum(acc, `x`)])]", "has the name `acc`, which is taken"),
    ("sum += `acc`]", "sum += `acc`], each=[near := `k * x`]", None),
    ("sum += `acc`]", "sum += `acc`], each=[y := `x`]", "`each` writes `y` at several points"),
    ("[w := `i`])", "[w := `i`], each=[z := `i`])", "stages stand without a combine, or beside lanes"),
    # bodies
    ("Connect(one_to_one, count)", "Connect(fixed_total, count)", "its body needs a formal `number`"),
    ("Connect(one_to_one, count)", "Connect(ring, count)", "connect rule `ring`, stage `count`"),
    ("Connect(one_to_one, count)", "Connect(one_to_one, count, `0.5`)", "has an expression too many or too few"),
    ("Connect(one_to_one, count)", "Connect(expression, count)", "has an expression too many or too few"),
    ("Connect(one_to_one, count)", "Connect(expression, count, `x_j < q`)", "the probability reads `q`"),
    ("Connect(one_to_one, count)", "Connect(expression, count, `i == j`)", "its body needs a formal `w_from`"),
    (
        "ScalarFormal(n_pre, i64), ScalarFormal(n_post",
        "ScalarFormal(n_pre, u64), ScalarFormal(n_post",
        "its body needs `n_pre` as i64, not u64",
    ),
    ("count, i32, r, @whole", "count, i32, rw, @whole", "`count` is rw i32, not r i32"),
    ("ScalarFormal(n_pre, i64)],", "ScalarFormal(n, i64)],", "the propagation needs the column `n_pre`"),
    ("slots, delay, n_pre", "slots, lag, n_pre", "the propagation needs the column `lag`, which is missing"),
    # rows
    ("v: [a.v, b.v]", "v: [a.v]", "`v` is bound in 1 of 2 rows"),
    ("v: [a.v, b.v]", "v: [a.v, c.v]", "`v` is bound to `c.v`, which is not an array"),
    ("v: [a.v, b.v]", "v: [a.v, b.count]", "`v`, `b.count`: f32 is bound to i32"),
    ("n: #i64[4, 6]", "n: #i64[4]", "column `n` has 1 of 2 values"),
    ("n: #i64[4, 6]", "n: #f64[4.0, 6.0]", "column `n` (i64) is an array (2,) of float64"),
    ("n: #i64[4, 6]", "n: [4, 6.5]", "column `n` (i64) holds 6.5"),
    ("n: [SizeOf(w)]", "n: [SizeOf(x)]", "column `n` (i64) holds SizeOf(array='x')"),
    ("tau: #f64[1.0, 2.0]", "tau: [1.0, StreamKey(a)]", "column `tau` (f32) holds StreamKey(path='a')"),
    ("tau: #f64[1.0, 2.0]", "tau: #f64[1.0, 2.0], z: #f64[1.0, 2.0]", "there is a column `z`, but no such"),
    ("[StreamKey(a), StreamKey(b)]})", "[StreamKey(a), StreamKey(b)]}, [a])", "1 paths stand for 2 rows"),
    # arrays
    ("Array(y, f32, [4], work)", "Array(x, f32, [4], work)", "arrays stand twice: x"),
    ("Array(y, f32, [4], work)", "Array(y, f32, [-4], work)", "array `y` has the shape (-4,)"),
    ("[-1], synapse, size_from=row), Array(w", "[3], synapse, size_from=row), Array(w", "but a size from"),
    ("synapse, size_from=row), Array(w", "synapse, size_from=y), Array(w", "from `y`, not row pointers"),
    ("test, f32, rep", "test, i32, rep", "the precision is i32"),
    ("test, f32, rep", "test, f64, rep", "`v` is f32 in a program of f64"),
    # bounds
    ("n: #i64[4, 6]", "n: #i64[4, 7]", "row 1 reaches elements 0 to 6 of `b.v` (v), which has 6"),
    ("{m: #i64[6]}", "{m: #i64[7]}", "row 0 reaches elements 0 to 24 of `x` (x), which has 24"),
    ("@[<o>*6, <k; -1>:m]", "@[<o>*6, <k; -1>]", "row 0 reaches elements -1 to 24 of `x` (x)"),
    ("@[<o>*6, <k; -1>:m]", "@[<k; -1>:m, <o; 1>/2:4*6]", None),
    # launches
    ("Launch(0, 0, 2)", "Launch(0, 0, 3)", "phase `step`, neurons: rows 0 to 3 of 2"),
    ("Launch(0, 0, 2)", "Launch(7, 0, 2)", "phase `step` launches kernel 7 of 5"),
    ("every=2, offset=1", "every=2, offset=2", "phase `step`, layer: every 2 steps at 2"),
    ("Launch(4, 0, 1)", "Launch(4, 0, 1, every=2)", "runs once, not every 2 steps"),
    ("Phase(init", "Phase(step", "phase `step` stands twice"),
    # hazards
    ("v: [a.v, b.v]", "v: [a.v, a.v]", "neurons: `a.v` is written in one place and used in another"),
    ("g: [a.g, b.g]", "g: [b.g, a.v]", "neurons: `a.v` is written in one place and used in another"),
    ("g: [a.g, b.g]", "g: [a.v, b.g]", "neurons: `a.v` is written in one place and used in another"),
    ("g: [b.g, b.g]", "g: [b.g, w]", "deliver: `w` is written in one place and used in another"),
]


@pytest.mark.parametrize(("old", "new", "message"), BROKEN, ids=[b[2] or b[1] for b in BROKEN])
def test_each_breach_is_named(old: str, new: str, message: str | None) -> None:
    assert old in PROGRAM
    found = program_violations(parse_ir(PROGRAM.replace(old, new, 1)))
    if message is None:
        assert found == []
        return
    assert any(message in v for v in found), found
    with pytest.raises(InternalError) as caught:
        verify_program(parse_ir(PROGRAM.replace(old, new, 1)))
    assert caught.value.violations == tuple(found)


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("y", np.zeros(4, np.float32), None),
        ("y", np.zeros(5, np.float32), "constants of `y` have 5 elements of 4"),
        ("y", np.zeros(4), "constants of `y` are float64, not f32"),
        ("z", np.zeros(4), "there are constants for `z`, which is not an array"),
    ],
)
def test_constants(name: str, contents: Any, message: str | None) -> None:
    found = program_violations(replace(parse_ir(PROGRAM), constants={name: contents}))
    assert found == ([] if message is None else [message])


# ---------------------------------------------------------------------------------------- merged


def merged_twice() -> tuple[Program, Any]:
    """A program with two kernels of one text, and its merged form."""
    kernel = """Kernel("{a}", [ArrayFormal({x}, f32, rw, @[<i>]), ScalarFormal(n, i64)],
        Nest([Dim(i, n)], prologue=[{x} := `{x} * 2`]), Rows(1, {{{x}: [{b}]}}, {{n: #i64[{n}]}}))"""
    it = parse_ir(
        "Program(t, f32, fast, [Array(p, f32, [3], state), Array(q, f32, [5], state)], ["
        + kernel.format(a="one", x="x", b="p", n=3)
        + ","
        + kernel.format(a="two", x="z", b="q", n=5)
        + "], [Phase(step, [Launch(0, 0, 1), Launch(1, 0, 1)])])"
    )
    return it, merge(it)


def test_merging_keeps_every_row() -> None:
    it, merged = merged_twice()
    assert len(merged.templates) == 1 and merged_violations(merged, it) == []


def test_differences_from_the_unmerged_program_are_named() -> None:
    it, merged = merged_twice()
    table = merged.tables[0]
    other = replace(table, scalars={"n": np.array([3, 4])})
    found = merged_violations(replace(merged, tables=(other,)), it)
    assert found == ["two: `n` differs in rows 0 to 1 after merging"]
    swapped = replace(table, arrays={"x": ("q", "p")}, scalars={"n": np.array([5, 3])})
    assert len(merged_violations(replace(merged, tables=(swapped,)), it)) == 4
    (phase,) = merged.phases
    short = replace(merged, phases=(replace(phase, launches=(Launch(0, 0, 1),)),))
    assert merged_violations(short, it) == ["phase `step` does not launch as many rows as the unmerged program"]
    late = replace(merged, phases=(replace(phase, launches=(Launch(0, 0, 2, every=2),)),))
    assert merged_violations(late, it) == ["phase `step` runs `one` where `one` is due"]
    renamed = replace(merged, phases=(replace(phase, name="eval"),))
    assert merged_violations(renamed, it) == ["the phases are not those of the unmerged program"]


def test_templates_are_numbered_distinct_and_digested() -> None:
    it, merged = merged_twice()
    (template,) = merged.templates
    wrong = replace(merged, templates=(replace(template, digest="0", index=1),))
    assert merged_violations(wrong, it) == [
        "template 0 is numbered 1",
        "template 0 (one) does not have the digest of its text",
    ]
    twice = replace(merged, templates=(template, replace(template, index=1)), tables=merged.tables * 2)
    assert merged_violations(twice) == ["templates 0 and 1 are the same"]
    clash = replace(merged.tables[0], arrays={"x": ("p", "p")}, scalars={"n": np.array([3, 3])})
    assert merged_violations(replace(merged, tables=(clash,))) == [
        "phase `step`, one: `p` is written in one place and used in another of the same launch"
    ]


def test_launches_of_a_phase_may_repeat_an_array_one_after_the_other() -> None:
    it = parse_ir(PROGRAM)
    phase = it.phases[2]
    again = replace(phase, launches=(*phase.launches, Launch(0, 0, 2), Launch(0, 1, 2)))
    assert program_violations(replace(it, phases=(*it.phases[:2], again))) == []


@pytest.mark.parametrize(
    ("read", "wrong"), [("right", ()), ("middle", ("middle",)), ("left", ("left",)), ("whole", ("whole",))]
)
def test_parts_that_lie_apart_may_meet_a_third(read: str, wrong: tuple[str, ...]) -> None:
    """What is written into one may be read from the other in the same kernel, but not from what both meet."""
    text = """Program(t, f32, fast, [Array(whole, f32, [10], work)], [
        Kernel("copy", [ArrayFormal(x, f32, r, @[<i>]), ArrayFormal(y, f32, w, @[<i>]), ScalarFormal(n, i64)],
            Nest([Dim(i, n)], prologue=[y := `x`]), Rows(1, {x: [whole], y: [whole]}, {n: #i64[4]}))],
        [Phase(step, [Launch(0, 0, 1)])])"""
    it = parse_ir(text)
    (whole,) = it.arrays
    parts = (
        replace(whole, name=n, shape=(4,), within="whole", first=k)
        for n, k in (("left", 0), ("middle", 3), ("right", 6))
    )
    (kernel,) = it.kernels
    rows = replace(kernel.rows, arrays={"x": (read,), "y": ("left",)})
    found = program_violations(replace(it, arrays=(whole, *parts), kernels=(replace(kernel, rows=rows),)))
    assert [v for v in found if "of the same launch" in v] == [
        f"phase `step`, copy: `{n}` is written in one place and used in another of the same launch" for n in wrong
    ]


# ----------------------------------------------------------------------------------------- level 1

GRAPH = """
TensorGraph(train, [
  Feed(Tensor(x, [4, 3], batched=true), data.x, 1.0),
  Weight(Tensor(w, [2, 3]), glorot_uniform, [3.0, 2.0]),
  Variable(Tensor(loss, [1]), 0.0),
  graph.Contract(Tensor(h, [4, 2], batched=true), [[n, 4], [o, 2], [k, 3]], [<n>, <o>], [x, w],
    [[<n>, <k>], [<o>, <k>]], `x0 * x1`),
  Map(Tensor(y, [4, 2], batched=true), [h, loss], [[0, 1], [none]], `max(x0, 0) + x1 * gain`,
    scalars=[[gain, 0.5]]),
  Reindex(Tensor(f, [4, 2, 1], batched=true), y),
  graph.Contract(Tensor(total, [1]), [[z, 1], [n, 4], [o, 2]], [<z>], [y], [[<n>, <o>]], `x0 * n`),
  Store(loss, total),
  Update(w, w, [[rate, 0.1]], [[m, 0.0]], [m <- `m * 0.9 + gradient`, param <- `param - rate * m / step`]),
], [f])
"""


def test_a_legal_graph_has_no_violations() -> None:
    graph = parse_ir(GRAPH)
    assert graph_violations(graph, gather_only=True) == []
    verify_graph(graph)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[x, w],", "[x, v],", "node 3 (Contract h): `v` is used before it is defined"),
        ("Tensor(y, [4, 2]", "Tensor(h, [4, 2]", "node 4 (Map h): `h` is defined twice"),
        ("Tensor(w, [2, 3])", "Tensor(w, [2, 0])", "`w` has the shape (2, 0)"),
        ("[[0, 1], [none]]", "[[0, 1]]", "2 operands have 1 maps"),
        ("[[0, 1], [none]]", "[[1, 0], [none]]", "axis 0 of `h` (4, 2) follows axis 1 of (4, 2)"),
        ("[[0, 1], [none]]", "[[0, none], [none]]", "axis 1 of `h` follows nothing, but has extent 2"),
        ("[[0, 1], [none]]", "[[0], [none]]", "`h` has 2 axes and a map of 1"),
        ("`max(x0, 0) + x1 *", "`max(x0, 0) + x2 *", "the body reads `x2`, which is not known there"),
        ("[[gain,", "[[x1,", "scalar `x1` has a name that is taken"),
        ("[k, 3]]", "[k, 3], [k, 2]]", "dims stand twice or have no extent"),
        ("[<n>, <o>], [x", "[<n>, <j>], [x", "`h` is reached along `j`, which is not a dim"),
        ("[<n>, <o>], [x", "[<n>, <o; 1>], [x", "the result is scattered into"),
        ("[<n>, <o>], [x", "[<n>, <k>], [x", "dim `k` does not have the extent 2 of its axis"),
        ("`x0 * x1`)", "`x0 * x1`, combine=mul)", "combine `mul` is not known"),
        ("[4, 2, 1]", "[4, 3, 1]", "`y` (4, 2) cannot have the shape (4, 3, 1)"),
        ("[4, 2, 1]", "[8, 1, 1]", "`y` (4, 2) loses its batch axis in (8, 1, 1)"),
        ("Store(loss", "Store(total", "`total` is neither a variable nor a weight"),
        ("Store(loss, total)", "Store(loss, y)", "`y` (4, 2) is stored into `loss` (1,)"),
        ("Update(w, w", "Update(w, x", "`x` (4, 3) is not shaped as `w` (2, 3)"),
        ("- rate * m", "- rates * m", "`param = ...` reads `rates`, which is not known there"),
        ("m <- `m", "rate <- `m", "`rate` cannot be assigned to"),
        ("], [f])", "], [g])", "output `g` is not defined"),
    ],
)
def test_breaches_of_a_graph(old: str, new: str, message: str) -> None:
    assert old in GRAPH
    found = graph_violations(parse_ir(GRAPH.replace(old, new, 1)), gather_only=True)
    assert any(message in v for v in found), found


SCAN = """
TensorGraph(train, [
  Feed(Tensor(x, [3, 2, 5], batched=true), data.x, 1.0),
  StepsFirst(Tensor(rows, [6, 5], batched=true), x, 2),
  Map(Tensor(start, [3, 5], batched=true), [], [], `0`),
  Scan(at, 2, [Carried(Tensor(at.s, [3, 5], batched=true), start, at.h, Tensor(last, [3, 5], batched=true))],
    [Given(Tensor(at.x, [3, 5], batched=true), rows)], [Stacked(Tensor(all, [6, 5], batched=true), at.h)],
    [Map(Tensor(at.h, [3, 5], batched=true), [at.s, at.x], [[0, 1], [0, 1]], `x0 + x1`)]),
], [all, last])
"""


def test_a_legal_scan_has_no_violations() -> None:
    assert graph_violations(parse_ir(SCAN)) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "Tensor(at.s, [3, 5]",
            "Tensor(at.s, [3, 1]",
            "the state `at.s` has the shapes [(3, 1), (3, 5), (3, 5), (3, 5)]",
        ),
        ("Tensor(at.x, [3, 5]", "Tensor(at.x, [2, 5]", "`rows` (6, 5) does not have the rows of `at.x` (2, 5) 2 times"),
        ("Tensor(all, [6, 5]", "Tensor(all, [5, 5]", "`all` (5, 5) does not have the rows of `at.h` (3, 5) 2 times"),
        ("start, at.h", "start, at.g", "the body does not define `at.g`"),
        ("Map(Tensor(at.h,", "Map(Tensor(at.x,", "`at.x` is defined twice"),
        ("Scan(at, 2", "Scan(to, 2", "`at.x` is not named `to.<...>`"),
        ("[at.s, at.x]", "[at.h, at.x]", "at.h: an operand is used before it is defined"),
        (
            "[at.s, at.x], [[0, 1], [0, 1]]",
            "[at.s, at.x], [[0, 1], [1, 0]]",
            "at.h: axis 0 of `at.x` (3, 5) follows axis 1",
        ),
        ("[at.s, at.x]", "[at.s, other]", "`other` is used before it is defined"),
        ("batched=true), x, 2)", "batched=true), x, 3)", "`x` (3, 2, 5) has no 3 steps with the rows of `rows` (6, 5)"),
    ],
)
def test_breaches_of_a_scan(old: str, new: str, message: str) -> None:
    assert old in SCAN
    found = graph_violations(parse_ir(SCAN.replace(old, new, 1)))
    assert any(message in v for v in found), found


CELL = """
Cell(lif, [tau, v_t], [v], [[g, `tau`]], [inf_v <- `g * 2`], [Ode(v, `(inf_v - v) / tau`)], [],
  `v > v_t`, [v <- `0`], `2 * dt`, [v], auto)
"""
STEPPED = """
Cell(lif, [tau, v_t], [v], [[g, `tau`]], [], [], [], `v > v_t`, [], none, [v], auto,
  int_state=[left], derived=[DerivedScalar(p, `exp(-dt / tau)`)],
  step=[v <- `v * p`, g <- `g * p`, spiked <- `v > v_t`, v <- `0 if spiked else v`])
"""


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (CELL, "", "", None),
        (STEPPED, "", "", None),
        (CELL, "(inf_v - v)", "(v_inf - v)", "dv/dt reads `v_inf`, which is not known there"),
        (CELL, "Ode(v,", "Ode(u,", "`u` is not a state"),
        (CELL, "[v <- `0`]", "[tau <- `0`]", "`tau` cannot be assigned to"),
        (CELL, "[tau, v_t], [v]", "[tau, v_t], [v, tau]", "`tau` is declared twice"),
        (STEPPED, "v * p", "v * q", "`v = ...` reads `q`, which is not known there"),
        (STEPPED, "spiked <- `v > v_t`, v <- `0 if spiked else v`", "v <- `0`", "not compute `spiked`"),
        (STEPPED, "[], [], [], `v", "[], [Ode(v, `v`)], [], `v", "there is a step, but dynamics are left"),
    ],
)
def test_cells(text: str, old: str, new: str, message: str | None) -> None:
    assert old in text
    found = cell_violations(parse_ir(text.replace(old, new, 1)))
    if message is None:
        assert found == []
        verify_cell(parse_ir(text))
    else:
        assert any(message in v for v in found), found


# ----------------------------------------------------------------------------------------- level 0

MODEL = """
Model(m, "", [ModelParam(n, int, 4)], [],
  [Population(a, NeuronDef(lif, [ParamDecl(tau, ms, Const(20.0))], [StateDecl(v, mV, Const(0.0))],
     [InputDecl(g, mV, `tau`)], [], [Ode(v, `(g - v) / tau * n`)], [],
     Spike(`v > 1.0`, [v <- `0.0`], `2.0`, [v]), auto, model_params=[n]),
     4, [[tau, Const(20.0)]], [[v, Const(0.0)]])],
  [Projection(p, pairs, g, [Member(a, a, [], Const(1.0), 1, pairs=0)], [[[0, 3], [3, 0]]])],
  Simulate(0.1, 100, 0, 1), [RecordSpikes([a])], [RecordTraces(a, [v, g], [0, 3], 10)],
  Network([TensorInput(x, [3], real), TensorInput(t, [1], int32)],
    [Layer(dense, d, [x], [[units, 2]], none, none, [2])]),
  Train(Data("data.npz", [[x, a, 1.0]], 0.1), Loss(softmax_cross_entropy, d, t), [],
    OptimizerDef(sgd, [[rate, 0.1]], [], [param <- `param - rate * gradient`]), 8, 1, 0),
  [], [], Numerics())
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dense", "dense", None),
        ("dense", "auto", "the storage is `auto`"),
        ("dense", "toeplitz", "`all_to_all` cannot be stored as `toeplitz`: only convolutions are Toeplitz matrices"),
        ("shared=false", "shared=true", "synapses of `all_to_all` share elements of a kernel"),
        ("`weight`", "`weight * $x`", "what is delivered reads `$x`"),
        ("`weight`", "`weight`, arrivals=[later]", "spikes arrive as `later`"),
        ("`weight`", "`weight`, arrivals=[ages]", "there is one delay, and spikes arrive by ages"),
    ],
)
def test_projections(old: str, new: str, message: str | None) -> None:
    text = """StoredProjection(family=Projection(name=p, rule=all_to_all, into=g,
        members=[Member(a, b, [[autapses, 1]], Const(0.5), 1)]), storage=dense, shared=false, known=`weight`)"""
    found = list(projection_violations(parse_ir(text.replace(old, new, 1))))
    assert found == ([] if message is None else [message])


SYNAPSE = """SynapseCell(SynapseDef(s, [ParamDecl($a, "1", Const(1))], [StateDecl($w, "1", Const(1))],
    pre=EndDef([StateDecl($pre.x, "1", Const(0))])), {$pre.x: External(pre, x)}, delays=[pre], operations=[
  AtNeurons(events, "condition of high", post, statements=[happens <- `step > 3`],
    condition=Event(high, post, false)),
  AtSynapses(on_pre, on_pre, actions=[$w <- `$w + $a * $pre.x`], event=Event(spike, pre, true),
    tests=[`delays == age`], each_age=true),
  SynapseSum(events, "event high", total, sum, post, `$w`),
  AtSynapses(events, "event high", actions=[l <- `0.5`, $w <- `l * $w / total`], event=Event(high, post, false),
    walk=post)])"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("events,", "events,", None),
        ("on_pre,", "later,", "the stage is `later`"),
        ("(high, post, false),\n", "(low, post, false),\n", "`event high` waits for `low`, which nothing makes"),
        ("`l * $w", "`k * $w", "`event high` reads `k`, which is not known there"),
        (
            "each_age=true",
            "each_age=true, past=[[$pre.x, events]]",
            "`on_pre` reads what `$pre.x` was, which nothing keeps",
        ),
        (", each_age=true", "", "`on_pre` reads `age`, which is not known there"),
        ("`step > 3`", "`$w > v`", "`condition of high` reads `v`, which is not known there"),
        ("event=Event(high, post, false),\n    ", "", "`event high` walks by targets without an event"),
        (
            'SynapseSum(events, "event high", total, sum, post, `$w`),',
            "",
            "`event high` reads `total`, which is not known there",
        ),
        (
            "SynapseSum(events,",
            'NewSynapses(events, "event high"), SynapseSum(events,',
            "`event high` makes new synapses, and none is marked",
        ),
        ("sum, post, `$w`", "sum, post, `$w`, part=1", "`event high` is in part 0 of its stage, after one in part 1"),
        (
            "External(pre, x)",
            "External(pre, x), $pre.last_spike: External(pre, last_spike)",
            "times of spikes of `pre` are held once, and synapses have delays of their own",
        ),
    ],
)
def test_synapses(old: str, new: str, message: str | None) -> None:
    assert old in SYNAPSE
    found = list(synapse_cell_violations(parse_ir(SYNAPSE.replace(old, new, 1))))
    assert found == ([] if message is None else [message])


def test_a_legal_model_has_no_violations() -> None:
    model = parse_ir(MODEL)
    assert model_violations(model) == []
    verify_model(model)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(g - v)", "(h - v)", "dv/dt reads `h`, which is not known there"),
        ("(g - v)", "(1 mV - v)", "dv/dt holds a quantity"),
        ("Ode(v, ", "Ode(u, ", "`u` has a derivative, but is not a state"),
        ("InputDecl(g, mV, `tau`)", "InputDecl(g, mV, `v`)", "the decay of `g` reads `v`"),
        ("[v <- `0.0`]", "[n <- `0.0`]", "`n` cannot be assigned to"),
        ("model_params=[n]", "model_params=[k]", "`k` is not a param of the model"),
        ("4, [[tau", "0, [[tau", "its size is 0"),
        ("4, [[tau, Const(20.0)]]", "4, []", "param `tau` has no value"),
        ("[[v, Const(0.0)]]", "[[u, Const(0.0)]]", "`u` has an initial value, but is not a state"),
        ("Member(a, a", "Member(a, b", "joins a population that does not exist"),
        ("pairs, g, ", "pairs, h, ", "delivers into `h`, which is not an input"),
        ("pairs, g, ", "ring, g, ", "the rule is `ring`"),
        ("[3, 0]]])", "[0, 3]]], storage=bitmask)", "a pair stands twice, and one bit cannot hold it"),
        (
            "pairs=0)], [[[0, 3], [3, 0]]])",
            "pairs=0)], [[[0, 3]]], storage=procedural)",
            "given pairs have to be held",
        ),
        ("[3, 0]]])", "[3, 0]]], storage=toeplitz)", "only convolutions are Toeplitz matrices"),
        (
            "Const(1.0), 1, pairs=0)], [[[0, 3], [3, 0]]])",
            "Listed([1.0, 2.0]), 1, pairs=0)], [[[0, 3], [3, 0]]], storage=bitmask)",
            "have nothing of their own, but the weight is one for each",
        ),
        ("pairs, g, ", "all_to_all, g, ", "does not fit the rule `all_to_all`"),
        ("[3, 0]]]", "[4, 0]]]", "has a pair outside its populations"),
        ("Const(1.0), 1,", "Const(1.0), -1,", "has a delay of -1 steps"),
        ("Simulate(0.1, 100, 0, 1)", "none", "there are populations, but nothing says how"),
        ("RecordSpikes([a])", "RecordSpikes([b])", "spikes of `b` are recorded"),
        ("[v, g], [0, 3]", "[w], [0, 3]", "`a.w` is recorded, which does not exist"),
        ("[v, g], [0, 3]", "[v, g], [0, 4]", "members of `a` are recorded that do not exist"),
        ("dense, d, [x]", "dense, d, [y]", "layer d reads `y`, which is not before it"),
        ("dense, d, [x]", "dense, x, [x]", "layer `x` is declared twice"),
        ("cross_entropy, d", "cross_entropy, e", "the loss reads `e`, which does not exist"),
        ("- rate * gradient", "- lr * gradient", "optimizer sgd: `param = ...` reads `lr`"),
        ("[param <- `param", "[p <- `param", "`param` is never changed"),
    ],
)
def test_breaches_of_a_model(old: str, new: str, message: str) -> None:
    assert old in MODEL
    text = MODEL.replace(old, new, 1)
    if "mV -" in new:
        text = text.replace("`(1 mV - v) / tau * n`", "``(1 mV - v) / tau * n``")
    found = model_violations(parse_ir(text))
    assert any(message in v for v in found), found


def test_names_are_counted_once() -> None:
    """A quadratic search would not come to an end here."""
    names = [f"a{n}" for n in range(300_000)]
    assert repeated([*names, "a7", "a11", "a7"]) == ["a11", "a7"]

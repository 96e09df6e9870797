"""The reference backend: level-2 kernels written as IR text against plain Python and numpy.

Assumes: compiler.ir.text parses the texts here.
Guarantees: each body (nests, contractions, events, propagation, connecting, recording) is compared with a
computation that shares no code with the interpreter.
Does not: compare with generated code (tests/cpu, tests/gpu).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy.signal import correlate2d
from scipy.stats import chi2

from backends.reference import nest as nest_module
from backends.reference import philox
from backends.reference.evaluate import Evaluator
from backends.reference.load import ReferenceBackend, ReferenceInstance, instantiate
from backends.reference.row import InterpretError
from compiler.connect.probability import fixed_probability_table
from compiler.expr.ast import Binary, Ref
from compiler.ir.level0.streams import stream_key
from compiler.ir.level2.program import Program
from compiler.passes.program.merge import merge
from compiler.verify.verify import verify_merged, verify_program
from tests.parse_ir import parse_ir

FLAT = "Dim(i, n)"


def program(
    arrays: str,
    kernels: str,
    phases: str,
    constants: Mapping[str, Any] | None = None,
    precision: str = "f32",
    order: str = "reproducible",
) -> Program:
    """A verified program from the texts of its parts."""
    made = parse_ir(f"Program(test, {precision}, {order}, arrays=[{arrays}], kernels=[{kernels}], phases=[{phases}])")
    assert isinstance(made, Program)
    made.constants.update(constants or {})  # type: ignore[attr-defined]
    verify_program(made)
    return made


def started(made: Program, seed: int = 0) -> ReferenceInstance:
    """An instance of a program, after checking that its merged form gives the same memory."""
    merged = merge(made)
    verify_merged(merged, made)
    return instantiate(made, seed)


def once(made: Program, phase: str = "step", seed: int = 0) -> ReferenceInstance:
    """Run one step of a phase, unmerged and merged, and compare all memory."""
    a, b = started(made, seed), instantiate(merge(made), seed)
    assert a.run(phase, 1, 1) == b.run(phase, 1, 1) == 1
    for array in made.arrays:
        np.testing.assert_array_equal(a.read(array.name), b.read(array.name))
    return a


# ------------------------------------------------------------------------------------------- maps


def test_map_reads_newest_values_and_rounds_to_the_precision() -> None:
    made = program(
        "Array(v, f32, [5], state), Array(w, f32, [5], state), Array(c, i32, [5], state)",
        """Kernel("a", [ArrayFormal(v, f32, rw, @[<i>]), ArrayFormal(w, f32, w, @[<i>]),
             ArrayFormal(c, i32, rw, @[<i>]), ScalarFormal(n, i64), ScalarFormal(tau, f32)],
           Nest([Dim(i, n)], prologue=[
             held := `c > 0`,
             v := `v if held else v - v / tau * 0.1`,
             w := `v * 2 + i`,
             c := `c - 1 if held else 3`]),
           Rows(1, {v: [v], w: [w], c: [c]}, {n: #i64[5], tau: #f64[3.3]}, [p]))""",
        "Phase(step, [Launch(0, 0, 1)])",
    )
    it = started(made)
    start = np.array([1, 2, 3, 4, 5], np.float32)
    it.write("v", start)
    it.write("c", np.array([0, 1, 0, 1, 0]))
    it.run("step", 1, 1)
    moved = start - start / np.float32(3.3) * np.float32(0.1)
    v = np.where([False, True, False, True, False], start, moved)
    assert v.dtype == np.float32
    np.testing.assert_array_equal(it.read("v"), v)
    np.testing.assert_array_equal(it.read("w"), v * np.float32(2) + np.arange(5, dtype=np.float32))
    np.testing.assert_array_equal(it.read("c"), [3, 0, 3, 0, 3])


def test_rows_bind_one_at_a_time_and_merge_to_the_same() -> None:
    def kernel(x: str, y: str, a: str, b: str, rows: str) -> str:
        return f"""Kernel("{a}", [ArrayFormal({x}, f64, rw, @[<i>]), ScalarFormal({y}, i64),
             ScalarFormal(key, u64), ScalarFormal({b}, f64)],
           Nest([Dim(i, {y})], prologue=[t := `{x} * {b}`, {x} := `t + normal(key, i, 0)`]), {rows})"""

    made = program(
        "Array(p.v, f64, [4], state), Array(q.v, f64, [7], state), Array(r.v, f64, [3], state)",
        kernel(
            "v",
            "n",
            "first",
            "decay",
            "Rows(2, {v: [p.v, q.v]}, {n: #i64[4, 7], key: [StreamKey(p), StreamKey(q)],"
            " decay: #f64[0.5, 0.25]}, [p, q])",
        )
        + ","
        + kernel(
            "u",
            "m",
            "second",
            "rate",
            "Rows(1, {u: [r.v]}, {m: #i64[3], key: [StreamKey(r)], rate: #f64[0.125]}, [r])",
        ),
        "Phase(step, [Launch(0, 0, 2), Launch(1, 0, 1)])",
        precision="f64",
    )
    merged = merge(made)
    assert len(merged.templates) == 1
    a, b = instantiate(made, 5), instantiate(merged, 5)
    assert a.run("step", 1, 3) == b.run("step", 1, 3) == 3
    for name, n, rate in (("p", 4, 0.5), ("q", 7, 0.25), ("r", 3, 0.125)):
        want = np.zeros(n)
        for step in (1, 2, 3):
            want = want * rate + philox.normal(stream_key(5, name), np.arange(n), step, 0)
        np.testing.assert_array_equal(a.read(f"{name}.v"), want)
        np.testing.assert_array_equal(b.read(f"{name}.v"), want)


def test_a_wide_accumulator_keeps_float64() -> None:
    made = program(
        "Array(x, f32, [3], data), Array(total, f64, [1], state)",
        """Kernel("a", [ArrayFormal(x, f32, r, @[<i>]), ArrayFormal(total, f64, rw, @[]),
             ScalarFormal(n, i64)],
           Nest([Dim(i, n, kind=red)], combine=add, term=`float(x) * x`, epilogue=[total += `acc`]),
           Rows(1, {x: [x], total: [total]}, {n: #i64[3]}))""",
        "Phase(step, [Launch(0, 0, 1)])",
        {"x": np.array([1, 1e-3, 1e-4], np.float32)},
    )
    it = started(made)
    it.write("total", np.array([1e9]))
    it.run("step", 1, 2)
    one = np.float32(1) + np.float32(1e-3) * np.float32(1e-3)
    one = one + np.float32(1e-4) * np.float32(1e-4)
    assert it.read("total")[0] == 1e9 + 2 * float(one)


@pytest.mark.parametrize("limit", [1, 7, 10**6])
def test_reductions_add_in_the_declared_order(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest_module, "LIMIT", limit)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(6, 5, 4)).astype(np.float32)
    made = program(
        "Array(x, f32, [6, 5, 4], data), Array(y, f32, [5], work)",
        """Kernel("a", [ArrayFormal(x, f32, r, @[<i>*20, <j>*4, <k>]),
             ArrayFormal(y, f32, w, @[<j>])],
           Nest([Dim(j, 5), Dim(i, 6, kind=red), Dim(k, 4, kind=red)], combine=add, term=`x`,
                epilogue=[y := `acc`]), Rows(1, {x: [x], y: [y]}, {}))""",
        "Phase(step, [Launch(0, 0, 1)])",
        {"x": x},
    )
    want = np.zeros(5, np.float32)
    for j in range(5):
        for i in range(6):
            for k in range(4):
                want[j] += x[i, j, k]
    assert not np.array_equal(want, x.sum((0, 2)))  # another order gives other bits
    np.testing.assert_array_equal(once(made).read("y"), want)


def test_a_combine_without_reduced_dims_takes_one_term() -> None:
    made = program(
        "Array(y, f64, [3], work)",
        """Kernel("a", [ArrayFormal(y, f64, w, @[<i>])],
           Nest([Dim(i, 3)], combine=max, term=`i - 1.5`, epilogue=[y := `acc`]), Rows(1, {y: [y]}, {}))""",
        "Phase(step, [Launch(0, 0, 1)])",
        precision="f64",
    )
    assert once(made).read("y").tolist() == [-1.5, -0.5, 0.5]


# ------------------------------------------------------------------------------------ contractions


def test_convolution_with_padding_and_stride() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(2, 3, 7, 6)), rng.normal(size=(4, 3, 3, 3))
    made = program(
        "Array(x, f64, [2, 3, 7, 6], data), Array(w, f64, [4, 3, 3, 3], weight),"
        "Array(b, f64, [4], weight), Array(y, f64, [2, 4, 4, 3], work)",
        """Kernel("conv", [
             ArrayFormal(x, f64, r, @[<n>*126, <c>*42, <2*oy + ky; -1>:h*6, <2*ox + kx; -1>:6]),
             ArrayFormal(w, f64, r, @[<o>*27, <c>*9, <ky>*3, <kx>]), ArrayFormal(b, f64, r, @[<o>]),
             ArrayFormal(y, f64, w, @[<n>*48, <o>*12, <oy>*3, <ox>]),
             ScalarFormal(h, i64), ScalarFormal(batch, i64)],
           program.Contract(Nest([Dim(n, batch), Dim(o, 4), Dim(oy, 4), Dim(ox, 3), Dim(c, 3, kind=red),
             Dim(ky, 3, kind=red), Dim(kx, 3, kind=red)], combine=add, term=`x * w`,
             epilogue=[y := `max(acc + b, 0)`]), direct),
           Rows(1, {x: [x], w: [w], b: [b], y: [y]}, {h: #i64[7], batch: #i64[2]}))""",
        "Phase(step, [Launch(0, 0, 1)])",
        {"x": x, "w": w, "b": np.array([0.1, -0.2, 0.3, 0.0])},
        precision="f64",
    )
    y = once(made).read("y").reshape(2, 4, 4, 3)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for n in range(2):
        for o in range(4):
            full = sum(correlate2d(padded[n, c], w[o, c], "valid") for c in range(3))
            want = np.maximum(full[::2, ::2] + (0.1, -0.2, 0.3, 0.0)[o], 0)
            np.testing.assert_allclose(y[n, o], want, rtol=1e-13, atol=1e-14)


def test_gather_form_of_a_strided_gradient_divides_exactly() -> None:
    """dx[i] = sum over k of dy[(i - k) / 2] w[k], where 2 divides: the transpose of y[o] = x[2o + k] w[k]."""
    rng = np.random.default_rng(3)
    dy, w = rng.normal(size=4), rng.normal(size=3)
    made = program(
        "Array(dy, f64, [4], data), Array(w, f64, [3], weight), Array(dx, f64, [9], work)",
        """Kernel("g", [ArrayFormal(dy, f64, r, @[<i - k>/2:4]), ArrayFormal(w, f64, r, @[<k>]),
             ArrayFormal(dx, f64, w, @[<i>])],
           Nest([Dim(i, 9), Dim(k, 3, kind=red)], combine=add, term=`dy * w`, epilogue=[dx := `acc`]),
           Rows(1, {dy: [dy], w: [w], dx: [dx]}, {}))""",
        "Phase(step, [Launch(0, 0, 1)])",
        {"dy": dy, "w": w},
        precision="f64",
    )
    want = np.zeros(9)
    for o in range(4):
        for k in range(3):
            want[2 * o + k] += dy[o] * w[k]
    np.testing.assert_allclose(once(made).read("dx"), want, rtol=1e-15)


def test_max_pooling_fills_with_minus_infinity() -> None:
    x = -np.arange(1, 6, dtype=np.float32)
    made = program(
        "Array(x, f32, [5], data), Array(y, f32, [3], work)",
        """Kernel("p", [ArrayFormal(x, f32, r, @[<2*o + k; -1>:5]), ArrayFormal(y, f32, w, @[<o>])],
           Nest([Dim(o, 3), Dim(k, 2, kind=red)], combine=max, term=`x`, epilogue=[y := `acc`], fill=-inf),
           Rows(1, {x: [x], y: [y]}, {}))""",
        "Phase(step, [Launch(0, 0, 1)])",
        {"x": x},
    )
    np.testing.assert_array_equal(once(made).read("y"), [-1, -2, -4])


@pytest.mark.parametrize("limit", [1, 10, 10**6])
def test_gather_through_a_local_and_guarded_writes(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of rows chosen by an order array; rows that do not exist are zero; lanes are padded."""
    monkeypatch.setattr(nest_module, "LIMIT", limit)
    data = np.arange(20, dtype=np.float32).reshape(5, 4)
    made = program(
        "Array(data, f32, [5, 4], data), Array(order, i64, [5], data),Array(x, f32, [3, 4], work, layout=Lanes(2))",
        """Kernel("feed", [ArrayFormal(data, f32, r, @[<at>:5*4, <j>]),
             ArrayFormal(order, i64, r, @[<2*b + l; first>:5]),
             ArrayFormal(x, f32, w, @[<b>*8, <j>*2, <l>]), ScalarFormal(blocks, i64), ScalarFormal(first, i64)],
           Nest([Dim(b, blocks), Dim(j, 4), Dim(l, 2, kind=lane)],
                prologue=[at := `order`, x := `data * 0.5`], fill=-1.0),
           Rows(1, {data: [data], order: [order], x: [x]}, {blocks: #i64[2], first: #i64[2]}))""",
        "Phase(step, [Launch(0, 0, 1)])",
        {"data": data, "order": np.array([4, 2, 3, 0, 1])},
    )
    x = once(made).read("x").reshape(2, 4, 2)
    rows = np.moveaxis(x, 2, 1).reshape(4, 4)
    np.testing.assert_array_equal(rows[:3], data[[3, 0, 1]] / 2)
    np.testing.assert_array_equal(rows[3], np.full(4, -0.5))


def test_an_access_out_of_bounds_is_an_error() -> None:
    made = program(
        "Array(x, f32, [4], data), Array(at, i64, [4], data), Array(y, f32, [4], work)",
        """Kernel("bad", [ArrayFormal(x, f32, r, @[<k>]), ArrayFormal(at, i64, r, @[<i>]),
             ArrayFormal(y, f32, w, @[<i>])],
           Nest([Dim(i, 4)], prologue=[k := `at`, y := `x`]), Rows(1, {x: [x], at: [at], y: [y]}, {}))""",
        "Phase(step, [Launch(0, 0, 1)])",
        {"at": np.array([0, 1, -1, 2])},
    )
    with pytest.raises(InterpretError, match=r"`x` \(x\) is accessed at -1 to 2"):
        instantiate(made).run("step", 1, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x ** 2", 2.25),
        ("x ** -1", 1 / 1.5),
        ("x ** 0.5", math.sqrt(1.5)),
        ("k // 2 + k % 2", 4),
        ("k / 2", 3.5),
        ("(-k) // 2", -4),
        ("-x // 1", -2.0),
        ("-x % 1", 0.5),
        ("min(x, 2, k)", 1.5),
        ("relu(-x) + heaviside(x) + sign(-k)", 0.0),
        ("where(k > 3 and not (x > 2), exp(0), 7)", 1.0),
        ("int(-x) + round(2.5)", 1.0),
        ("inf if isnan(x) else floor(x)", 1.0),
        ("step + i", 1.0),
    ],
)
def test_expressions(text: str, value: float) -> None:
    made = program(
        "Array(x, f64, [1], state), Array(k, i32, [1], state), Array(y, f64, [1], work)",
        f"""Kernel("e", [ArrayFormal(x, f64, r, @[<i>]), ArrayFormal(k, i32, r, @[<i>]),
              ArrayFormal(y, f64, w, @[<i>])],
            Nest([Dim(i, 1)], prologue=[y := `{text}`]), Rows(1, {{x: [x], k: [k], y: [y]}}, {{}}))""",
        "Phase(step, [Launch(0, 0, 1)])",
        {"x": np.array([1.5]), "k": np.array([7], np.int32)},
        precision="f64",
    )
    assert once(made).read("y")[0] == pytest.approx(value, rel=1e-15)


# ----------------------------------------------------------------------------------------- events

RING = """ArrayFormal(list, i32, {mode}, @whole), ArrayFormal(count, i32, {mode}, @whole),
    ScalarFormal(slots, i64)"""
SENDERS = (
    "Array(list, i32, [3, 4], event), Array(count, i32, [3], event), Array(steps, i32, [5], const),"
    "Array(ids, i32, [5], const), Array(cursor, i64, [1], state)"
)
GIVEN = (
    f"""Kernel("given", [ArrayFormal(steps, i32, r, @whole), ArrayFormal(ids, i32, r, @whole),
      ArrayFormal(cursor, i64, rw, @whole), {RING.format(mode="w")}, ScalarFormal(m, i64), ScalarFormal(n, i64)],"""
    """EmitScheduled(), Rows(1, {steps: [steps], ids: [ids], cursor: [cursor], list: [list],
      count: [count]}, {slots: #i64[3], m: #i64[5], n: #i64[4]}, [given]))"""
)
GIVEN_CONSTANTS = {
    "steps": np.array([1, 1, 2, 4, 4], np.int32),
    "ids": np.array([0, 2, 3, 1, 2], np.int32),
}


def propagation(statements: str, formals: str, bound: str, columns: str = "") -> str:
    return (
        f"""Kernel("deliver", [{RING.format(mode="r")}, ArrayFormal(row, i64, r, @whole),
          ArrayFormal(col, i32, r, @whole), ScalarFormal(delay, i64), ScalarFormal(n_pre, i64), {formals}],
        Propagate(Events(list, count, slots, delay, n_pre), Csr(row, col), [{statements}]),"""
        f"""Rows(1, {{list: [list], count: [count], row: [row], col: [col], {bound}}},
          {{slots: #i64[3], delay: #i64[1], n_pre: #i64[4], {columns}}}))"""
    )


RELATION = {
    "row": np.array([0, 3, 3, 5, 6]),
    "col": np.array([0, 1, 1, 0, 2, 1], np.int32),
}


def test_events_arrive_after_their_delay() -> None:
    made = program(
        SENDERS + ", Array(row, i64, [5], const), Array(col, i32, [6], const),"
        "Array(w, f32, [6], const), Array(g, f32, [3], state)",
        GIVEN
        + ","
        + propagation(
            "g += `w`",
            "ArrayFormal(w, f32, r, @syn), ArrayFormal(g, f32, acc, @post)",
            "w: [w], g: [g]",
        ),
        "Phase(step, [Launch(0, 0, 1), Launch(1, 0, 1)])",
        {**GIVEN_CONSTANTS, **RELATION, "w": np.array([1, 2, 4, 8, 16, 32], np.float32)},
    )
    it = started(made)
    seen = []
    for step in range(1, 7):
        it.run("step", step, 1)
        seen.append(it.read("g").tolist())
    first = [1.0 + 8, 2.0 + 4, 16.0]
    second = [first[0], first[1] + 32, first[2]]
    last = [second[0] + 8, second[1], second[2] + 16]
    assert seen == [[0.0] * 3, first, second, second, last, last]


def test_additions_keep_the_order_of_events_and_synapses() -> None:
    weights = np.array([1e8, 1, -1e8, 3, 5, 7], np.float32)
    made = program(
        SENDERS + ", Array(row, i64, [5], const), Array(col, i32, [6], const),"
        "Array(w, f32, [6], const), Array(g, f32, [3], state)",
        GIVEN
        + ","
        + propagation(
            "g += `w`",
            "ArrayFormal(w, f32, r, @syn), ArrayFormal(g, f32, acc, @post)",
            "w: [w], g: [g]",
        ),
        "Phase(step, [Launch(0, 0, 1), Launch(1, 0, 1)])",
        {**GIVEN_CONSTANTS, **RELATION, "col": np.zeros(6, np.int32), "w": weights},
    )
    it = started(made)
    it.run("step", 1, 2)
    want = np.float32(0)
    for w in weights[:5]:
        want = np.float32(want + w)
    assert it.read("g")[0] == want


def test_synapses_that_share_a_target_run_one_by_one() -> None:
    """w := y; y := 2 y + x(pre): synapse k must see what synapse k - 1 of the same target left."""
    made = program(
        SENDERS + ", Array(row, i64, [5], const), Array(col, i32, [6], const),"
        "Array(w, f64, [6], state), Array(x, f64, [4], state), Array(y, f64, [3], state)",
        GIVEN
        + ","
        + propagation(
            "w := `y + 0 * gain`, t := `2 * y`, y := `t + x`",
            "ArrayFormal(w, f64, rw, @syn), ArrayFormal(x, f64, r, @pre), ArrayFormal(y, f64, rw, @post),"
            "ScalarFormal(gain, f64)",
            "w: [w], x: [x], y: [y]",
            "gain: #f64[1.0]",
        ),
        "Phase(step, [Launch(0, 0, 1), Launch(1, 0, 1)])",
        {**GIVEN_CONSTANTS, **RELATION},
        precision="f64",
    )
    it = started(made)
    it.write("x", np.array([1.0, 2, 3, 4]))
    it.write("y", np.array([1.0, 1, 1]))
    it.run("step", 1, 2)
    w, y = np.zeros(6), np.ones(3)
    for source in (0, 2):
        for k in range(RELATION["row"][source], RELATION["row"][source + 1]):
            j = RELATION["col"][k]
            w[k] = y[j]
            y[j] = 2 * y[j] + (1.0, 2, 3, 4)[source]
    np.testing.assert_array_equal(it.read("w"), w)
    np.testing.assert_array_equal(it.read("y"), y)


@pytest.mark.parametrize("limit", [1, 3, 10**6])
def test_emission_fills_the_slot_of_the_step(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest_module, "LIMIT", limit)
    made = program(
        "Array(v, f32, [6], state), Array(list, i32, [2, 6], event), Array(count, i32, [2], event)",
        f"""Kernel("n", [ArrayFormal(v, f32, rw, @[<i>]), {RING.format(mode="w")}, ScalarFormal(n, i64)],
            Nest([{FLAT}], prologue=[v := `v + 1`, Emit(list, count, slots, `v > 3`)]),"""
        "Rows(1, {v: [v], list: [list], count: [count]}, {slots: #i64[2], n: #i64[6]}))",
        "Phase(step, [Launch(0, 0, 1)])",
    )
    it = started(made)
    it.write("v", np.array([0, 3, 1, 2, 3, 0]))
    it.run("step", 1, 2)
    assert it.read("count").tolist() == [3, 2]
    lists = it.read("list").reshape(2, 6)
    assert lists[1, :2].tolist() == [1, 4]
    assert lists[0, :3].tolist() == [1, 3, 4]
    it.write("v", np.full(6, -10))
    it.run("step", 3, 1)
    assert it.read("count").tolist() == [3, 0]


# ---------------------------------------------------------------------------------------- records


def recording() -> Program:
    return program(
        SENDERS + ", Array(rec, i32, [10, 2], record), Array(rec.used, i64, [1], record),"
        "Array(v, f32, [4], state), Array(members, i32, [2], const), Array(tr, f32, [4, 2], record),"
        "Array(tr.used, i64, [1], record)",
        GIVEN
        + f""", Kernel("spikes", [{RING.format(mode="r")}, ArrayFormal(buffer, i32, rw, @whole),
            ArrayFormal(used, i64, rw, @whole), ScalarFormal(capacity, i64), ScalarFormal(n, i64)],
          RecordEvents(), Rows(1, {{list: [list], count: [count], buffer: [rec], used: [rec.used]}},
            {{slots: #i64[3], capacity: #i64[10], n: #i64[4]}})),
          Kernel("trace", [ArrayFormal(source, f32, r, @[<i>]), ArrayFormal(members, i32, r, @whole),
            ArrayFormal(buffer, f32, rw, @whole), ArrayFormal(used, i64, rw, @whole), ScalarFormal(m, i64),
            ScalarFormal(capacity, i64)],
          RecordTrace(`source + step`), Rows(1, {{source: [v], members: [members], buffer: [tr],
            used: [tr.used]}}, {{m: #i64[2], capacity: #i64[4]}}))""",
        "Phase(step, [Launch(0, 0, 1), Launch(1, 0, 1), Launch(2, 0, 1, every=2)])",
        {**GIVEN_CONSTANTS, "members": np.array([3, 1], np.int32)},
    )


def test_recording_asks_for_its_caller_when_a_buffer_is_full() -> None:
    it = started(recording())
    it.write("v", np.array([0.0, 10, 20, 30]))
    assert it.run("step", 1, 10) == 2  # three events: 7 of 10 places are left, for two steps of 4 neurons
    assert it.read("rec.used")[0] == 3
    assert it.read("rec").reshape(-1, 2)[:3].tolist() == [[1, 0], [1, 2], [2, 3]]
    it.write("rec.used", np.zeros(1))
    assert it.run("step", 3, 10) == 4  # a third sample, taken in step 6: one more fits
    assert it.read("rec").reshape(-1, 2)[:2].tolist() == [[4, 1], [4, 2]]
    assert it.read("tr")[:6].tolist() == [32, 12, 34, 14, 36, 16]
    assert it.run("step", 7, 10) == 2  # what ran to its end leaves room for a step
    with pytest.raises(InterpretError, match="not drained"):
        it.run("step", 9, 2)


# ------------------------------------------------------------------------------------- connecting


def connecting(rule: str, n_pre: int, n_post: int, columns: str, p: float | None = None) -> Program:
    """A program that draws one relation `r` and then gives each synapse its own index as a weight."""
    names = {
        "fixed_probability": ("autapses", "same"),
        "fixed_total": ("number", "multapses", "autapses", "same"),
        "all_to_all": ("autapses", "same"),
        "one_to_one": (),
    }[rule]
    scalars = "ScalarFormal(n_pre, i64), ScalarFormal(n_post, i64), ScalarFormal(key, u64), "
    scalars += "".join(f"ScalarFormal({x}, i64), " for x in names)
    table = "ArrayFormal(table, u32, r, @whole), " if p is not None else ""
    bound = ", table: [table]" if p is not None else ""
    if rule == "fixed_total":
        columns += ", multapses: #i64[1], autapses: #i64[1], same: #i64[0]"
    values = f"{{n_pre: #i64[{n_pre}], n_post: #i64[{n_post}], key: [StreamKey(r)], {columns}}}"
    return program(
        f"Array(row, i64, [{n_pre + 1}], const), Array(col, i32, [-1], synapse, size_from=row),"
        "Array(w, f32, [-1], synapse, size_from=row)" + (", Array(table, u32, [512], const)" if p else ""),
        f"""Kernel("count", [ArrayFormal(row, i64, rw, @whole), {table}{scalars}],
              Connect({rule}, count), Rows(1, {{row: [row]{bound}}}, {values})),
            Kernel("scan", [ArrayFormal(row, i64, rw, @whole), ScalarFormal(n_pre, i64)],
              Connect(any, scan), Rows(1, {{row: [row]}}, {{n_pre: #i64[{n_pre}]}})),
            Kernel("fill", [ArrayFormal(row, i64, r, @whole), ArrayFormal(col, i32, w, @whole),
              {table}{scalars}], Connect({rule}, fill), Rows(1, {{row: [row], col: [col]{bound}}}, {values})),
            Kernel("weights", [ArrayFormal(w, f32, w, @[<i>]), ScalarFormal(n, i64)],
              Nest([{FLAT}], prologue=[w := `i`]), Rows(1, {{w: [w]}}, {{n: [SizeOf(w)]}}))""",
        "Phase(count, [Launch(0, 0, 1)]), Phase(scan, [Launch(1, 0, 1)]),"
        "Phase(fill, [Launch(2, 0, 1)]), Phase(init, [Launch(3, 0, 1)])",
        {} if p is None else {"table": fixed_probability_table(p)},
    )


def relation(made: Program, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(sources, targets) of the synapses, after checking that each row ascends."""
    it = started(made, seed)
    row, col = it.read("row"), it.read("col")
    assert row[0] == 0 and row[-1] == len(col) and (np.diff(row) >= 0).all()
    np.testing.assert_array_equal(it.read("w"), np.arange(len(col), dtype=np.float32))
    source = np.repeat(np.arange(len(row) - 1), np.diff(row))
    assert (np.diff(source * (col.max(initial=0) + 1) + col) >= 0).all()
    return source, col


def drawn_by_hand(p: float, n_pre: int, n_post: int, loops: bool, key: int) -> list[list[int]]:
    """fixed_probability as its specification reads, one word at a time."""
    table = fixed_probability_table(p).tolist()
    low, high = table[:256], table[256:]
    rows = []
    for i in range(n_pre):
        pool, targets, j, step = n_post if loops else n_post - 1, [], -1, 0
        while True:
            w = philox.words(key, i, step, 0).tolist()
            step += 1
            blocks = next((k for k in range(256) if w[0] <= high[k]), None)
            if blocks is None:
                j += 65536
                if j >= pool:
                    break
                continue
            rest = next(k for k in range(256) if w[1] <= low[k] or k == 255)
            j += 256 * blocks + rest + 1
            if j >= pool:
                break
            targets.append(j if loops else j + (j >= i))
        rows.append(targets)
    return rows


@pytest.mark.parametrize(("p", "n_post"), [(0.3, 40), (0.004, 3000), (2e-5, 300_000), (1.0, 9)])
@pytest.mark.parametrize("loops", [True, False])
def test_fixed_probability_draws_what_its_specification_says(p: float, n_post: int, loops: bool) -> None:
    columns = f"autapses: #i64[{int(loops)}], same: #i64[1]"
    source, target = relation(connecting("fixed_probability", 8, n_post, columns, p), 4)
    want = drawn_by_hand(p, 8, n_post, loops, stream_key(4, "r"))
    assert [target[source == i].tolist() for i in range(8)] == want


def uniform_p_value(counts: np.ndarray, mean: float, variance: float) -> float:
    """Chi-square of counts with a known mean and variance each (sum of squares of about normal numbers)."""
    return float(chi2.sf((((counts - mean) ** 2) / variance).sum(), len(counts)))


@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
def test_fixed_probability_has_binomial_degrees(p: float) -> None:
    n_pre, n_post = 600, 500
    columns = "autapses: #i64[1], same: #i64[0]"
    source, target = relation(connecting("fixed_probability", n_pre, n_post, columns, p), 12)
    assert len(np.unique(source * n_post + target)) == len(source)  # no pair twice
    out, into = np.bincount(source, minlength=n_pre), np.bincount(target, minlength=n_post)
    assert 1e-3 < uniform_p_value(out, n_post * p, n_post * p * (1 - p)) < 1 - 1e-3
    assert 1e-3 < uniform_p_value(into, n_pre * p, n_pre * p * (1 - p)) < 1 - 1e-3
    # gaps between neighbouring targets are geometric, the first 20 lengths each on their own
    gaps = np.diff(target)[np.diff(source) == 0]
    expected = len(gaps) * p * (1 - p) ** np.arange(20)
    seen = np.bincount(gaps, minlength=22)[1:21]
    usable = expected > 20
    # the end of the row cuts long gaps off: short ones are seen a little more often than 5 percent at most
    assert (np.abs(seen - expected)[usable] < 5 * np.sqrt(expected[usable]) + 0.1 * expected[usable]).all()


def test_fixed_probability_table_is_the_geometric_law() -> None:
    for p in (1e-6, 0.004, 0.5, 0.999):
        table = fixed_probability_table(p).astype(np.float64) + 1
        q, k = np.longdouble(1) - np.longdouble(p), np.arange(1, 257)
        high = 1 - q ** (256 * k)
        low = (1 - q**k) / (1 - q ** np.longdouble(256))
        assert np.abs(table[256:] / 2**32 - high).max() < 2e-9
        assert np.abs(table[:256] / 2**32 - low).max() < 2e-9
        assert table[255] == 2**32 and (np.diff(table[:256]) >= 0).all()
    assert (fixed_probability_table(1.0) == 2**32 - 1).all()
    for p in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="probability"):
            fixed_probability_table(p)


def test_fixed_total_draws_ends_independently_and_uniformly() -> None:
    n_pre, n_post, number = 50, 80, 40_000
    source, target = relation(connecting("fixed_total", n_pre, n_post, f"number: #i64[{number}]"), 3)
    assert len(source) == number
    for ends, n in ((source, n_pre), (target, n_post), (source * n_post + target, n_pre * n_post)):
        counts = np.bincount(ends, minlength=n)
        expected = number / n
        assert 1e-3 < chi2.sf((((counts - expected) ** 2) / expected).sum(), n - 1) < 1 - 1e-3
    words = philox.words(stream_key(3, "r"), np.arange(number), 0, 0).astype(object)
    by_hand = sorted(((a * n_pre) >> 32, (b * n_post) >> 32) for a, b in zip(words[0], words[1], strict=True))
    assert by_hand == list(zip(source.tolist(), target.tolist(), strict=True))


def test_dense_rules() -> None:
    loops = relation(connecting("all_to_all", 3, 4, "autapses: #i64[0], same: #i64[0]"), 0)
    assert [x.tolist() for x in loops] == [[0] * 4 + [1] * 4 + [2] * 4, [0, 1, 2, 3] * 3]
    bare = relation(connecting("all_to_all", 3, 3, "autapses: #i64[0], same: #i64[1]"), 0)
    assert [x.tolist() for x in bare] == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    single = relation(connecting("one_to_one", 4, 4, ""), 0)
    assert [x.tolist() for x in single] == [[0, 1, 2, 3]] * 2


# ---------------------------------------------------------------------------------------- backend


def test_the_text_is_a_function_of_the_templates_alone(tmp_path: Any) -> None:
    backend = ReferenceBackend()
    texts = []
    for n_pre in (3, 300):
        merged = merge(connecting("fixed_total", n_pre, 7, f"number: #i64[{5 * n_pre}]"))
        artifact = backend.build(merged, tmp_path / str(n_pre), {})
        texts.append(artifact.binary.read_text())
        assert artifact.text == texts[-1]
        it = backend.load(artifact, merged, 1)
        assert len(it.read("col")) == 5 * n_pre
        it.close()
    assert texts[0] == texts[1]


def test_memory_keeps_its_size() -> None:
    it = started(recording())
    with pytest.raises(ValueError, match="v holds 4 elements, not 3"):
        it.write("v", np.zeros(3))
    with pytest.raises(KeyError):
        it.read("nothing")
    copy = it.read("v")
    copy[:] = 1
    assert (it.read("v") == 0).all()


def test_a_single_wide_element_stays_wide() -> None:
    """The sums of an epoch are float64 in a program of float32, and a float64 of numpy is a float of Python, too."""
    values = {"total": np.float64(6.08267927), "loss": np.float32(3.4403117)}
    found = Evaluator(values.__getitem__, np.dtype(np.float32), 0)(Binary("+", Ref("total"), Ref("loss")))
    assert found.dtype == np.float64 and found == values["total"] + np.float64(values["loss"])

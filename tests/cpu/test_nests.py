"""Loop nests on the CPU against the reference: every form of access, reduction and lane."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cpu.run.load import CpuInstance
from backends.reference.load import ReferenceInstance
from compiler.ir.level2.program import (
    ELEMENT,
    Add,
    Array,
    ArrayFormal,
    Axis,
    Dim,
    DimKind,
    Formal,
    Kernel,
    Launch,
    Mode,
    Nest,
    Order,
    Phase,
    Program,
    Rows,
    ScalarFormal,
    Stage,
    Strided,
    Sum,
)
from compiler.ir.space import DType, Role
from compiler.passes.program.merge import merge
from tests.cpu.programs import assign, expr
from tests.grids import diagonal, together

pytestmark = pytest.mark.usefixtures("cc")

F32, F64, I32, I64 = DType.F32, DType.F64, DType.I32, DType.I64
PAR, RED, LANE = DimKind.PAR, DimKind.RED, DimKind.LANE
READ, WRITE, UPDATE, ACC = Mode.READ, Mode.WRITE, Mode.UPDATE, Mode.ACCUMULATE
Arrays = dict[str, np.ndarray]
TYPES = {"float32": F32, "float64": F64, "int32": I32, "int64": I64}


def axis(*terms: tuple[str, int], **more: int | str | None) -> Axis:
    return Axis(terms, **more)  # type: ignore[arg-type]


def single(
    nest: Nest,
    accesses: dict[str, tuple[Mode, Strided]],
    arrays: Arrays,
    columns: dict[str, int | float],
    order: Order = Order.REPRODUCIBLE,
    real: DType = F32,
) -> Program:
    """A program of one kernel with one row; every array formal is bound to the array of its name."""
    formals: list[Formal] = [
        ArrayFormal(n, TYPES[str(arrays[n].dtype)], mode, access) for n, (mode, access) in accesses.items()
    ]
    formals += [ScalarFormal(n, real if isinstance(v, float) else I64) for n, v in columns.items()]
    kernel = Kernel(
        "test: nest",
        tuple(formals),
        nest,
        Rows(
            1,
            {n: (n,) for n in accesses},
            {n: np.array([v]) for n, v in columns.items()},
            ("test",),
        ),
        order,
    )
    return Program(
        "nest",
        real,
        order,
        tuple(Array(n, TYPES[str(v.dtype)], v.shape, Role.STATE) for n, v in arrays.items()),
        (kernel,),
        (Phase("step", (Launch(0, 0, 1),)),),
        arrays,
    )


def run_both(program: Program, folder: Path) -> tuple[CpuInstance, ReferenceInstance]:
    merged = merge(program)
    backend = CpuBackend()
    here = backend.load(backend.build(merged, folder, {}), merged, 1)
    there = ReferenceInstance(merged, 1)
    here.run("step", 1, 2)
    there.run("step", 1, 2)
    return here, there


def run_once(program: Program, folder: Path) -> CpuInstance:
    merged = merge(program)
    here = CpuBackend().load(CpuBackend().build(merged, folder, {}), merged, 1)
    here.run("step", 1, 1)
    return here


def check(program: Program, folder: Path, *names: str, rtol: float = 2e-6) -> np.ndarray:
    """Results of both backends agree: bit for bit under bitwise, else to `rtol` of the largest value."""
    here, there = run_both(program, folder)
    for name in names:
        a, b = here.read(name), there.read(name)
        if program.order is Order.BITWISE:
            assert np.array_equal(a, b), (name, a, b)
        else:
            scale = np.abs(b[np.isfinite(b)]).max(initial=1e-30)
            assert np.allclose(a, b, rtol=rtol, atol=rtol * scale), (name, a, b)
    return here.read(names[0])


def data(*shape: int, seed: int = 1, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize(("real", "order"), diagonal([F32, F64], [Order.REPRODUCIBLE, Order.BITWISE]))
def test_flat_map_with_functions(tmp_path: Path, real: DType, order: Order) -> None:
    x = data(1000, dtype=real.numpy)
    nest = Nest(
        (Dim("i", "n"),),
        (
            assign("a", "exp(x) * tanh(x) + sqrt(abs(x)) - x ** 3 / 7"),
            assign("k", "step // 2 + int(x * 4) % 3"),
            assign("b", "where(x > 0 and not a < 0.5, log(1 + abs(a)), min(a, scale, 0.25) + k)"),
            assign("y", "b if isnan(x) or x >= -2 else floor(x) / 2"),
            Add("s", expr("y * scale")),
        ),
    )
    program = single(
        nest,
        {"x": (READ, ELEMENT), "y": (WRITE, ELEMENT), "s": (UPDATE, ELEMENT)},
        {"x": x, "y": np.zeros_like(x), "s": np.ones_like(x)},
        {"n": 1000, "scale": 0.7},
        order,
        real,
    )
    check(program, tmp_path, "y", "s")


def test_random_numbers(tmp_path: Path) -> None:
    import backends.reference.load  # noqa: F401  (the oracle of the draws)

    y = np.zeros(500, np.float32)
    nest = Nest(
        (Dim("i", "n"),),
        (
            assign("u", "uniform(key, i, 0) + exponential(key, i, 1)"),
            assign("y", "y + u + poisson(key, i, 2, 3.5) + binomial(key, i, 3, 4, exp(-u))"),
        ),
    )
    formals: tuple[Formal, ...] = (
        ArrayFormal("y", F32, UPDATE, ELEMENT),
        ScalarFormal("n", I64),
        ScalarFormal("key", DType.U64),
    )
    kernel = Kernel(
        "test: draws",
        formals,
        nest,
        Rows(1, {"y": ("y",)}, {"n": np.array([500]), "key": np.array([123456789])}),
        Order.BITWISE,
    )
    program = Program(
        "draws",
        F32,
        Order.BITWISE,
        (Array("y", F32, (500,), Role.STATE),),
        (kernel,),
        (Phase("step", (Launch(0, 0, 1),)),),
        {"y": y},
    )
    got = check(program, tmp_path, "y")
    mean = 2 * (0.5 + 1 + 3.5 + 4 * (1 - np.exp(-1)) * 0.5)  # the mean of exp(-u) is the product of two
    assert mean - 0.5 < got.mean() < mean + 0.5


def test_transpose_with_strides_in_columns(tmp_path: Path) -> None:
    x = data(7, 11)
    nest = Nest((Dim("r", "rows"), Dim("c", "columns")), (assign("y", "2 * x"),))
    program = single(
        nest,
        {
            "x": (READ, Strided((axis(("r", 1), stride="columns"), axis(("c", 1))))),
            "y": (WRITE, Strided((axis(("c", 1), stride="rows"), axis(("r", 1))))),
        },
        {"x": x, "y": np.zeros((11, 7), np.float32)},
        {"rows": 7, "columns": 11},
    )
    got = check(program, tmp_path, "y")
    assert np.array_equal(got.reshape(11, 7), 2 * x.T)


@pytest.mark.parametrize("order", [Order.REPRODUCIBLE, Order.BITWISE])
def test_padded_convolution_over_rows(tmp_path: Path, order: Order) -> None:
    """The guard depends on a PAR and a RED dim; padding reads as `fill`."""
    x, w = data(40), data(5, seed=2)
    nest = Nest(
        (Dim("o", "n"), Dim("k", 5, RED)),
        combine="add",
        term=expr("x * w"),
        epilogue=(assign("y", "max(acc, 0)"),),
        fill=0.5,
    )
    program = single(
        nest,
        {
            "x": (READ, Strided((axis(("o", 1), ("k", 1), const=-2, extent="n"),))),
            "w": (READ, Strided((axis(("k", 1)),))),
            "y": (WRITE, Strided((axis(("o", 1)),))),
        },
        {"x": x, "w": w, "y": np.zeros(40, np.float32)},
        {"n": 40},
        order,
    )
    got = check(program, tmp_path, "y")
    padded = np.pad(x, 2, constant_values=0.5)
    assert np.allclose(got, np.maximum(np.correlate(padded, w, "valid"), 0), atol=1e-5)


def lanes_conv(order: Order, combine: str, fill: float) -> Program:
    """[batch / 16][channel][y][16] * [out][channel][3] -> [batch / 16][out][y][16], padded by one."""
    x, w, b = data(2, 3, 6, 16), data(4, 3, 3, seed=2), data(4, seed=3)
    term = "x * w" if combine == "add" else "x + w"
    nest = Nest(
        (
            Dim("b", "blocks"),
            Dim("o", "outs"),
            Dim("y", "h"),
            Dim("l", 16, LANE),
            Dim("c", "ins", RED),
            Dim("k", 3, RED),
        ),
        combine=combine,
        term=expr(term),
        epilogue=(assign("z", "max(acc + 0.5 * bias + 0.25 * z, 0) + z"),),
        fill=fill,
    )
    return single(
        nest,
        {
            "x": (
                READ,
                Strided(
                    (
                        axis(("b", 1), stride="x_block"),
                        axis(("c", 1), stride="x_plane"),
                        axis(("y", 1), ("k", 1), const="minus_pad", extent="h", stride=16),
                        axis(("l", 1)),
                    )
                ),
            ),
            "w": (
                READ,
                Strided((axis(("o", 1), stride="w_out"), axis(("c", 1), stride=3), axis(("k", 1)))),
            ),
            "bias": (READ, Strided((axis(("o", 1)),))),
            "z": (
                UPDATE,
                Strided(
                    (
                        axis(("b", 1), stride="z_block"),
                        axis(("o", 1), stride="x_plane"),
                        axis(("y", 1), stride=16),
                        axis(("l", 1)),
                    )
                ),
            ),
        },
        {"x": x, "w": w, "bias": b, "z": data(2, 4, 6, 16, seed=5)},
        {
            "blocks": 2,
            "outs": 4,
            "ins": 3,
            "h": 6,
            "minus_pad": -1,
            "x_block": 3 * 6 * 16,
            "x_plane": 6 * 16,
            "w_out": 9,
            "z_block": 4 * 6 * 16,
        },
        order,
    )


@pytest.mark.parametrize(
    ("combine", "fill", "order"),
    diagonal(together([("add", 0.0), ("max", -1e9), ("min", 0.75)]), [Order.REPRODUCIBLE, Order.BITWISE]),
)
def test_lanes_with_guard(tmp_path: Path, order: Order, combine: str, fill: float) -> None:
    check(lanes_conv(order, combine, fill), tmp_path, "z")


def test_lanes_loop_is_vector_code(tmp_path: Path, cc: list[str]) -> None:
    import subprocess

    backend = CpuBackend()
    merged = merge(lanes_conv(Order.REPRODUCIBLE, "add", 0.0))
    backend.build(merged, tmp_path, {})
    version = subprocess.run([*cc, "--version"], capture_output=True, text=True, check=True).stdout
    if "gcc" not in version.lower() and "Free Software Foundation" not in version:
        pytest.skip("only with GCC, whose report it reads")
    said = subprocess.run(
        [*cc, "-O3", "-std=c11", "-march=native", "-fopt-info-vec", "-c", "nest.c", "-o", "nest.o"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    lines = (tmp_path / "nest.c").read_text().split("\n")
    vector = {int(x.split(":")[1]) for x in said.split("\n") if "vectorized" in x}
    loops = [i for i, t in enumerate(lines, 1) if "for (nl_i64 l = 0; l < 16" in t]
    assert loops and all(i in vector for i in loops[-2:]), said


def test_masked_lanes(tmp_path: Path) -> None:
    """The last block has idle lanes: reads give the fill, writes are left out."""
    x = data(2, 16)
    index = axis(("b", 16), ("l", 1), extent="n")
    nest = Nest((Dim("b", "blocks"), Dim("l", 16, LANE)), (assign("y", "x + 1"),), fill=7.0)
    program = single(
        nest,
        {"x": (READ, Strided((index,))), "y": (WRITE, Strided((index,)))},
        {"x": x, "y": np.full((2, 16), -1, np.float32)},
        {"blocks": 2, "n": 21},
    )
    got = check(program, tmp_path, "y")
    assert (got[21:] == -1).all() and np.array_equal(got[:21], x.reshape(-1)[:21] + 1)


@pytest.mark.parametrize(
    ("real", "n", "term", "order"),
    diagonal(together([(F32, 5, "x"), (F32, 1007, "x * x"), (F64, 1007, "x")]), [Order.REPRODUCIBLE, Order.BITWISE]),
)
def test_contiguous_sum(tmp_path: Path, order: Order, real: DType, n: int, term: str) -> None:
    x = data(3, n, dtype=real.numpy) ** 2
    nest = Nest(
        (Dim("r", 3), Dim("i", "n", RED)),
        combine="add",
        term=expr(term),
        epilogue=(assign("y", "acc / n"),),
    )
    program = single(
        nest,
        {
            "x": (READ, Strided((axis(("r", 1), stride="n"), axis(("i", 1))))),
            "y": (WRITE, Strided((axis(("r", 1)),))),
        },
        {"x": x, "y": np.zeros(3, real.numpy)},
        {"n": n},
        order,
        real,
    )
    got = check(program, tmp_path, "y")
    want = x.astype(np.float64) ** (1 if term == "x" else 2)
    assert np.allclose(got, want.mean(1), rtol=1e-5)


def several(combine: str, columns: bool = False) -> tuple[Nest, dict[str, tuple[Mode, Strided]]]:
    """Three reductions over the elements of a matrix, by its rows or by its columns, and what each access is."""
    dims = (Dim("i", "n"), Dim("k", "m", RED))
    beside = (Sum("second", expr("x * w")), Sum("third", expr("x * factor")))
    end = (assign("y", "acc + 1"), assign("z", "second * third"), assign("first", "acc"))
    nest = Nest(dims, (), combine, expr("x"), "acc", end, beside=beside)
    by = (axis(("k", 1), stride="n"), axis(("i", 1))) if columns else (axis(("i", 1), stride="m"), axis(("k", 1)))
    whole, point = Strided(by), Strided((axis(("i", 1)),))
    return nest, {"x": (READ, whole), "w": (READ, whole), **{n: (WRITE, point) for n in ("y", "z", "first")}}


def arrays_of_several(points: int, terms: int, real: DType = F32) -> tuple[Arrays, dict[str, int | float]]:
    x, w = (data(points, terms, seed=s, dtype=real.numpy) for s in (1, 2))
    made = {n: np.zeros(points, real.numpy) for n in ("y", "z", "first")}
    return {"x": x, "w": w, **made}, {"n": points, "m": terms, "factor": 0.5}


@pytest.mark.parametrize(
    ("columns", "combine", "size", "order"),
    diagonal(
        [False, True],
        ["add", "max"],
        [(F32, 5), (F32, 1007), (F64, 1007)],
        [Order.REPRODUCIBLE, Order.BITWISE],
        leading=3,
    ),
)
def test_several_sums(tmp_path: Path, order: Order, size: tuple[DType, int], columns: bool, combine: str) -> None:
    """Each as if it were alone."""
    real, n = size
    nest, accesses = several(combine, columns)
    arrays, numbers = arrays_of_several(70, n, real)
    check(single(nest, accesses, arrays, numbers, order, real), tmp_path / "all", "y", "z", rtol=2e-5)
    together, _ = run_both(single(nest, accesses, arrays, numbers, order, real), tmp_path / "together")
    alone = replace(nest, beside=(), epilogue=(assign("first", "acc"),))
    only = {n: accesses[n] for n in ("x", "first")}
    given = {n: arrays[n] for n in only}
    one, _ = run_both(single(alone, only, given, numbers, order, real), tmp_path / "alone")
    assert np.array_equal(together.read("first"), one.read("first"))


@pytest.mark.parametrize("combine", ["add", "max"])
def test_several_sums_of_each_lane(tmp_path: Path, combine: str) -> None:
    nest, _ = several(combine)
    nest = replace(nest, dims=(*nest.dims, Dim("l", 16, LANE)))
    whole = Strided((axis(("i", 1), stride="row"), axis(("k", 1), stride=16), axis(("l", 1))))
    point = Strided((axis(("i", 1), stride=16), axis(("l", 1))))
    accesses = {"x": (READ, whole), "w": (READ, whole), **{n: (WRITE, point) for n in ("y", "z", "first")}}
    x, w = (data(3, 7, 16, seed=s) for s in (1, 2))
    arrays = {"x": x, "w": w, **{n: np.zeros((3, 16), np.float32) for n in ("y", "z", "first")}}
    check(single(nest, accesses, arrays, {"n": 3, "m": 7, "row": 7 * 16, "factor": 0.5}), tmp_path, "y", "z", "first")


def standardized(wide: bool) -> tuple[Nest, dict[str, tuple[Mode, Strided]]]:
    """Rows minus their mean by their deviation, in place; `wide`: of [k][i][l], over k and l."""
    red = (Dim("k", "outer", RED), Dim("l", "m", RED)) if wide else (Dim("l", "m", RED),)
    squares = Stage(
        "add", (Sum("squares", expr("(x - mean) * (x - mean)")),), (assign("deviation", "sqrt(squares / count)"),)
    )
    largest = Stage("max", (Sum("most", expr("x")), Sum("least", expr("-x"))), (assign("span", "most + least"),))
    nest = Nest(
        (Dim("i", "n"), *red),
        (assign("count", "float(m * outer)"),),
        "add",
        expr("x"),
        epilogue=(assign("mean", "acc / count"), assign("kept", "mean + kept")),
        then=(squares, largest),
        each=(assign("centred", "x - mean"), assign("y", "centred / deviation + w"), assign("x", "x / span")),
    )
    at = (axis(("i", 1), stride="m"), axis(("l", 1)))
    whole = Strided((axis(("k", 1), stride="plane"), *at) if wide else at)
    point = Strided((axis(("i", 1)),))
    accesses = {"x": (UPDATE, whole), "y": (WRITE, whole), "w": (READ, Strided((axis(("l", 1)),)))}
    return nest, accesses | {"mean": (WRITE, point), "span": (WRITE, point), "kept": (UPDATE, point)}


def arrays_of_rows(points: int, terms: int, wide: bool) -> tuple[Arrays, dict[str, int | float]]:
    outer = 3 if wide else 1
    x, zeros = data(outer, points, terms), np.zeros((outer, points, terms), np.float32)
    ends = {n: np.zeros(points, np.float32) for n in ("mean", "span")}
    arrays = {"x": 3 + x, "y": zeros, "w": data(terms, seed=2), "kept": np.ones(points, np.float32), **ends}
    return arrays, {"n": points, "m": terms, "outer": outer, "plane": points * terms}


@pytest.mark.parametrize("order", [Order.REPRODUCIBLE, Order.BITWISE])
@pytest.mark.parametrize("wide", [False, True], ids=["rows", "planes"])
@pytest.mark.parametrize(("points", "terms"), [(3, 5), (70, 600)])
def test_what_follows_sums(tmp_path: Path, order: Order, wide: bool, points: int, terms: int) -> None:
    nest, accesses = standardized(wide)
    arrays, numbers = arrays_of_rows(points, terms, wide)
    program = single(nest, accesses, arrays, numbers, order)
    got = check(program, tmp_path, "y", "x", "mean", "span", "kept", rtol=1e-4)
    assert np.isfinite(got).all()
    once = run_once(program, tmp_path / "once").read("y").reshape(arrays["x"].shape)
    x = arrays["x"].astype(np.float64)
    want = (x - x.mean((0, 2), keepdims=True)) / x.std((0, 2), keepdims=True) + arrays["w"]
    assert np.allclose(once, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("combine", ["add", "max"])
def test_sum_over_lanes(tmp_path: Path, combine: str) -> None:
    """The gradient of a bias: [block][channel][place][16] -> [channel]."""
    x = data(2, 3, 9, 16)
    nest = Nest(
        (Dim("c", "channels"), Dim("b", "blocks", RED), Dim("p", "places", RED), Dim("l", 16, RED)),
        combine=combine,
        term=expr("x"),
        epilogue=(Add("y", expr("acc")),),
    )
    program = single(
        nest,
        {
            "x": (
                READ,
                Strided(
                    (
                        axis(("b", 1), stride="block"),
                        axis(("c", 1), stride="plane"),
                        axis(("p", 1), stride=16),
                        axis(("l", 1)),
                    )
                ),
            ),
            "y": (UPDATE, Strided((axis(("c", 1)),))),
        },
        {"x": x, "y": np.zeros(3, np.float32)},
        {"channels": 3, "blocks": 2, "places": 9, "block": 3 * 9 * 16, "plane": 9 * 16},
    )
    got = check(program, tmp_path, "y")
    want = x.sum((0, 2, 3)) if combine == "add" else x.max((0, 2, 3))
    assert np.allclose(got, 2 * want, rtol=1e-5, atol=1e-4)


def test_gather_and_scatter_through_a_local(tmp_path: Path) -> None:
    """An index read from memory selects a row; additions to a shared element all count."""
    ids = np.array([3, 1, 3, 0, 2, 9], np.int32)
    table = data(4, 5)
    nest = Nest(
        (Dim("i", "n"), Dim("j", "width")),
        (assign("at", "id"), assign("y", "row"), Add("total", expr("row"))),
        fill=-1.0,
    )
    wide = Strided((axis(("i", 1), stride="width"), axis(("j", 1))))
    program = single(
        nest,
        {
            "id": (READ, ELEMENT),
            "row": (READ, Strided((axis(("at", 1), extent=4, stride="width"), axis(("j", 1))))),
            "y": (WRITE, wide),
            "total": (ACC, Strided((axis(("j", 1)),))),
        },
        {"id": ids, "row": table, "y": np.zeros((6, 5), np.float32), "total": np.zeros(5, "float32")},
        {"n": 6, "width": 5},
    )
    got = check(program, tmp_path, "y", "total")
    assert (got[-5:] == -1).all() and np.array_equal(got[:5], table[3])


def test_index_with_division(tmp_path: Path) -> None:
    """A transposed convolution of stride 2: elements between the sources read as zero."""
    x = data(5)
    nest = Nest((Dim("o", "n"),), (assign("y", "x"),))
    program = single(
        nest,
        {
            "x": (READ, Strided((axis(("o", 1), const=-1, div=2, extent="m"),))),
            "y": (WRITE, Strided((axis(("o", 1)),))),
        },
        {"x": x, "y": np.zeros(12, np.float32)},
        {"n": 12, "m": 5},
    )
    got = check(program, tmp_path, "y")
    want = np.zeros(12, np.float32)
    want[1:11:2] = x
    assert np.array_equal(got, want)


def test_integer_sum(tmp_path: Path) -> None:
    x = np.arange(100, dtype=np.int32)
    nest = Nest(
        (Dim("i", "n", RED),),
        combine="add",
        term=expr("x % 7 == 3"),
        epilogue=(assign("y", "acc"),),
    )
    program = single(
        nest,
        {"x": (READ, ELEMENT), "y": (WRITE, Strided(()))},
        {"x": x, "y": np.zeros(1, np.int64)},
        {"n": 100},
    )
    assert check(program, tmp_path, "y")[0] == (x % 7 == 3).sum()


def test_sums_of_each_lane_have_no_statements_before_them() -> None:
    from backends.protocol import BackendError

    nest = Nest(
        (Dim("l", 16, LANE), Dim("k", "m", RED)),
        (assign("at", "id"),),
        "add",
        expr("x"),
        epilogue=(assign("y", "acc"),),
    )
    reads = {
        "id": (READ, Strided((axis(("l", 1)),))),
        "x": (READ, Strided((axis(("at", 1), extent=30, stride="m"), axis(("k", 1))))),
    }
    accesses = {**reads, "y": (WRITE, Strided((axis(("l", 1)),)))}
    arrays = {"id": np.zeros(16, np.int32), "x": data(30, 9), "y": np.zeros(16, np.float32)}
    with pytest.raises(BackendError, match="no statements before them"):
        CpuBackend().emit(merge(single(nest, accesses, arrays, {"m": 9})))


TOY = """
{% set helpers %}
static {{ real }} {{ id }}_square({{ real }} x) { return x * x; }
{% endset %}
/* {{ lit.tile }} lanes of {{ bytes }} bytes, {{ order }} */
for (nl_i64 bb = 0; bb < {{ extent("b") }}; bb++)
    for (nl_i64 oo = 0; oo < {{ f.outs }}; oo++)
        for (nl_i64 yy = 0; yy < {{ extent("y") }}; yy++)
            for (nl_i64 l = 0; l < {{ lanes }}; l++) {
                {{ prologue(4, b="bb", o="oo", y="yy") }}
                {{ real }} sum = {{ identity }};
                for (nl_i64 c = 0; c < {{ f.ins }}; c++)
                    for (nl_i64 k = 0; k < 3; k++)
                        {{ combine("sum", term(b="bb", o="oo", y="yy")) }}
                sum = {{ id }}_square(sum);
                {{ epilogue("sum", 4, b="bb", o="oo", y="yy") }}
            }
"""


def test_a_contraction_is_rendered_from_its_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The template of a strategy receives literals, columns, elements, the term and the epilogue."""
    from dataclasses import replace

    from jinja2 import ChoiceLoader, DictLoader

    from backends.cpu.kernels.kernel import SKELETONS
    from backends.protocol import BackendError
    from compiler.ir.level2.program import Contract

    plain = lanes_conv(Order.REPRODUCIBLE, "add", 0.0)
    kernel = plain.kernels[0]
    assert isinstance(kernel.body, Nest)
    nest = replace(kernel.body, prologue=(), epilogue=(assign("z", "max(acc + bias, 0) + z"),))
    squared = replace(nest, epilogue=(assign("z", "max(acc * acc + bias, 0) + z"),))
    toy = replace(kernel, body=Contract(nest, "toy", (("tile", 16),)))
    program = replace(plain, kernels=(toy,))
    with pytest.raises(BackendError, match="no strategy `toy`"):
        CpuBackend().emit(merge(program))
    env = SKELETONS.statements()
    monkeypatch.setattr(env, "loader", ChoiceLoader([DictLoader({"strategy_toy.c.j2": TOY}), env.loader]))
    merged = merge(program)
    backend = CpuBackend()
    assert "toy" in backend.capabilities.strategies
    here = backend.load(backend.build(merged, tmp_path, {}), merged, 1)
    there = ReferenceInstance(merge(replace(plain, kernels=(replace(kernel, body=squared),))), 1)
    here.run("step", 1, 1)
    there.run("step", 1, 1)
    assert np.allclose(here.read("z"), there.read("z"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("combine", [None, "add"])
def test_guards_of_one_section_stay_out_of_the_others(tmp_path: Path, combine: str | None) -> None:
    """Idle lanes of the last block, a padded sum, and an epilogue with a separate guard."""
    batch = axis(("b", 16), ("l", 1), extent="n", stride="m")
    x, y = data(21, 8), np.zeros(21, np.float32)
    dims = (Dim("b", "blocks"), Dim("l", 16, LANE))
    whole = Strided((axis(("b", 16), ("l", 1), extent="n"),))
    nest = (
        Nest(dims, (assign("y", "x + y"),), fill=3.0)
        if combine is None
        else Nest(
            (*dims, Dim("k", 5, RED)),
            (),
            combine,
            expr("x * x"),
            epilogue=(assign("y", "acc + (y + 1)"),),
            fill=0.5,
        )
    )
    inner = axis(("k", 1), const=-2, extent=8) if combine else axis(const=4)
    program = single(
        nest,
        {"x": (READ, Strided((batch, inner))), "y": (UPDATE, whole)},
        {"x": x, "y": y},
        {"blocks": 2, "n": 21, "m": 8},
    )
    got = check(program, tmp_path, "y")
    want = 0.5 + (x[:, :3] ** 2).sum(1) + 1 if combine else x[:, 4]
    assert np.allclose(got, 2 * want, rtol=1e-5)

"""Connecting and learning synapses on the CPU: the relations and weights of the reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import compiler.connect
from backends.cpu.backend import CpuBackend
from backends.cpu.run.load import CpuInstance
from backends.reference.load import ReferenceInstance
from compiler.connect.drawing import DRAWN, PLACE, SOURCE, TARGET, Numbered, Passing
from compiler.connect.probability import fixed_probability_table
from compiler.expr.ast import Ref
from compiler.ir.level2.program import (
    Add,
    Array,
    ArrayFormal,
    At,
    ByName,
    Connect,
    EmitScheduled,
    Formal,
    Kernel,
    Launch,
    Merged,
    Mode,
    Order,
    Phase,
    Program,
    Propagate,
    Rows,
    ScalarFormal,
    StreamKey,
)
from compiler.ir.space import DType, Role
from compiler.passes.program.merge import merge
from tests.cpu.programs import assign, expr, network, ring
from tests.grids import diagonal, together

pytestmark = pytest.mark.usefixtures("cc", "little_optimized")
I64, I32, U64, U32 = DType.I64, DType.I32, DType.U64, DType.U32
ROW = ArrayFormal("row", I64, Mode.UPDATE, ByName())
COLUMNS = {
    "fixed_probability": ("n_pre", "n_post", "key", "autapses", "same"),
    "fixed_total": ("n_pre", "n_post", "key", "number", "multapses", "autapses", "same"),
    "fixed_indegree": ("n_pre", "n_post", "key", "number", "multapses", "autapses", "same"),
    "fixed_outdegree": ("n_pre", "n_post", "key", "number", "multapses", "autapses", "same"),
    "all_to_all": ("n_pre", "n_post", "key", "autapses", "same"),
    "one_to_one": ("n_pre", "n_post", "key"),
}


def both(program: Merged, folder: Path) -> tuple[CpuInstance, ReferenceInstance]:
    backend = CpuBackend()
    return backend.load(backend.build(program, folder, {}), program, 9), ReferenceInstance(program, 9)


def relation(rule: str, values: dict[str, int], p: float) -> Program:
    """One relation drawn by one rule."""
    table: tuple[Formal, ...] = (ArrayFormal("table", U32, Mode.READ, ByName()),) if rule == "fixed_probability" else ()
    columns = tuple(ScalarFormal(c, U64 if c == "key" else I64) for c in COLUMNS[rule])
    scalars: dict[str, object] = {c: np.array([values[c]]) for c in COLUMNS[rule] if c != "key"}
    scalars["key"] = (StreamKey("connect"),)
    bound = {"row": ("row",)} | ({"table": ("table",)} if table else {})
    read_row = ArrayFormal("row", I64, Mode.READ, ByName())
    col = ArrayFormal("col", I32, Mode.WRITE, ByName())
    kernels = (
        Kernel(
            "count",
            (ROW, *table, *columns),
            Connect(rule, "count"),
            Rows(1, bound, scalars),  # type: ignore[arg-type]
        ),
        Kernel(
            "scan",
            (ROW, ScalarFormal("n_pre", I64)),
            Connect("any", "scan"),
            Rows(1, {"row": ("row",)}, {"n_pre": np.array([values["n_pre"]])}),
        ),
        Kernel(
            "fill",
            (read_row, col, *table, *columns),
            Connect(rule, "fill"),
            Rows(1, {**bound, "col": ("col",)}, scalars),  # type: ignore[arg-type]
        ),
    )
    return Program(
        "relation",
        DType.F32,
        Order.REPRODUCIBLE,
        (
            Array("row", I64, (values["n_pre"] + 1,), Role.CONST),
            Array("col", I32, (-1,), Role.SYNAPSE, size_from="row"),
            Array("table", U32, (512,), Role.CONST),
        ),
        kernels,
        tuple(Phase(n, (Launch(i, 0, 1),)) for i, n in enumerate(("count", "scan", "fill"))),
        {"table": fixed_probability_table(p)},
    )


@pytest.mark.parametrize(
    ("rule", "same", "autapses", "multapses"), diagonal(list(COLUMNS), together([(0, 1, 1), (1, 0, 0), (1, 0, 1)]))
)
def test_relations_are_those_of_the_reference(
    tmp_path: Path, rule: str, same: int, autapses: int, multapses: int
) -> None:
    number = 333 if rule == "fixed_total" else 33
    values = {"n_pre": 40, "n_post": 40, "autapses": autapses, "same": same, "number": number, "multapses": multapses}
    here, there = both(merge(relation(rule, values, 0.3)), tmp_path)
    row, col = here.read("row"), here.read("col")
    assert np.array_equal(row, there.read("row"))
    assert np.array_equal(col, there.read("col"))
    assert len(col) == row[-1] > 0
    source = np.repeat(np.arange(40), np.diff(row))
    if same and rule != "one_to_one":
        assert (col != source).all()
    if rule.startswith("fixed_") and rule != "fixed_probability" and not multapses:
        assert len(np.unique(source * 40 + col)) == len(col)
    if rule == "fixed_indegree":
        assert (np.bincount(col, minlength=40) == 33).all()
    if rule == "fixed_outdegree":
        assert (np.diff(row) == 33).all()
    assert (np.diff(col)[np.diff(source) == 0] >= 0).all()


@pytest.mark.parametrize("multapses", [0, 1])
def test_a_rule_is_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, multapses: int) -> None:
    """A rule that no backend knows: each source has neurons next to it, and as many even ones."""
    n_pre, number = Ref("n_pre"), Ref("number")
    rules = {
        "beside": Numbered("i", n_pre, number, SOURCE, SOURCE + PLACE),
        "even": Numbered("i", n_pre, number, SOURCE, DRAWN[0] * 2, (Ref("n_post") // 2,)),
        "in_even": Numbered("j", Ref("n_post"), number, DRAWN[0] * 2, TARGET, (n_pre // 2,)),
    }
    known = {name: replace(compiler.connect.FIXED_TOTAL, drawing=x) for name, x in rules.items()}
    monkeypatch.setattr(compiler.connect, "RULE", known)
    values = {"n_pre": 40, "n_post": 60, "autapses": 1, "same": 0, "number": 7, "multapses": multapses}
    found = {}
    for name in rules:
        monkeypatch.setitem(COLUMNS, name, COLUMNS["fixed_total"])
        here, there = both(merge(relation(name, values, 0.3)), tmp_path / name)
        assert np.array_equal(here.read("row"), there.read("row")) and np.array_equal(
            here.read("col"), there.read("col")
        )
        source = np.repeat(np.arange(40), np.diff(here.read("row")))
        found[name] = source, here.read("col")
    assert np.array_equal(found["beside"][1], (np.arange(40)[:, None] + np.arange(7)).ravel())
    source, target = found["even"]
    assert (np.bincount(source) == 7).all() and set(target.tolist()) == set(range(0, 60, 2))
    assert multapses or len(np.unique(source * 60 + target)) == len(target)
    source, target = found["in_even"]
    assert (np.bincount(target) == 7).all() and set(source.tolist()) == set(range(0, 40, 2))


def test_a_rule_that_passes_over_places_is_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that no backend knows: each even target but the neighbour of the source, with one probability."""
    known = compiler.connect.FIXED_PROBABILITY
    assert isinstance(known.drawing, Passing)
    drawing = replace(known.drawing, pool=Ref("n_post") // 2, target=PLACE * 2, hole=SOURCE + 1)
    monkeypatch.setattr(compiler.connect, "RULE", {"fixed_probability": replace(known, drawing=drawing)})
    values = {"n_pre": 30, "n_post": 400, "autapses": 0, "same": 1}
    here, there = both(merge(relation("fixed_probability", values, 0.6)), tmp_path)
    col = here.read("col")
    assert np.array_equal(here.read("row"), there.read("row")) and np.array_equal(col, there.read("col"))
    assert set(col.tolist()) == set(range(0, 400, 2))
    assert not (col == 2 * np.repeat(np.arange(1, 31), np.diff(here.read("row")))).any()


def test_a_rare_connection_skips_whole_blocks(tmp_path: Path) -> None:
    """p far below 1/256 uses the blocks of the table, and p below 1/65536 the draws without a synapse."""
    for p, n_post in ((1e-3, 20_000), (5e-6, 1_000_000)):
        values = {"n_pre": 30, "n_post": n_post, "autapses": 1, "same": 0}
        here, there = both(merge(relation("fixed_probability", values, p)), tmp_path)
        assert np.array_equal(here.read("col"), there.read("col"))
        mean = 30 * n_post * p
        assert abs(len(here.read("col")) - mean) < 6 * mean**0.5


def test_statements_at_synapses(tmp_path: Path) -> None:
    """A rule that reads both ends and rewrites the weight of each synapse it passes."""
    plain = network(3, per_synapse=True, real=DType.F64, order=Order.BITWISE, p=0.3)
    kernel = plain.kernels[4]
    assert isinstance(kernel.body, Propagate)
    formals = tuple(
        replace(f, mode=Mode.UPDATE) if f.name == "weight" and isinstance(f, ArrayFormal) else f for f in kernel.formals
    )
    formals += (
        ArrayFormal("gain", DType.F64, Mode.READ, At("pre")),
        ArrayFormal("held", I32, Mode.READ, At("post")),
    )
    pairs = [(f"pop{i}", f"pop{(i + 1) % 3}") for i in range(3)]
    rows = replace(
        kernel.rows,
        arrays={
            **kernel.rows.arrays,
            "gain": tuple(f"{a}.v" for a, _ in pairs),
            "held": tuple(f"{b}.held" for _, b in pairs),
        },
    )
    body = replace(
        kernel.body,
        statements=(
            assign("delta", "0.01 * (gain + 1) if held == 0 else -0.02"),
            Add("ge", expr("weight + delta")),
            assign("weight", "max(weight + delta, 0)"),
        ),
    )
    learning = replace(kernel, formals=formals, rows=rows, body=body)
    kernels = (*plain.kernels[:4], learning, *plain.kernels[5:])
    here, there = both(merge(replace(plain, kernels=kernels)), tmp_path)
    before = here.read("pop0->pop1.weight")
    for instance in (here, there):
        instance.run("step", 1, 200)
    assert not np.array_equal(before, here.read("pop0->pop1.weight"))
    for name in ("pop0->pop1.weight", "pop2->pop0.weight", "pop1.ge", "pop1.v"):
        assert np.array_equal(here.read(name), there.read(name)), name


def test_given_events(tmp_path: Path) -> None:
    """Events of given steps appear in the lists of those steps, twice in a row when asked so."""
    steps, ids = np.array([2, 2, 5, 9, 9], np.int32), np.array([1, 4, 0, 2, 3], np.int32)
    kernel = Kernel(
        "in: given spikes",
        (
            ArrayFormal("steps", I32, Mode.READ, ByName()),
            ArrayFormal("ids", I32, Mode.READ, ByName()),
            ArrayFormal("cursor", I64, Mode.UPDATE, ByName()),
            *ring(),
            ScalarFormal("n", I64),
            ScalarFormal("m", I64),
        ),
        EmitScheduled(),
        Rows(
            1,
            {n: (n,) for n in ("steps", "ids", "cursor", "spikes", "spike_count")},
            {"slots": np.array([3]), "n": np.array([5]), "m": np.array([5])},
        ),
    )
    program = Program(
        "given",
        DType.F32,
        Order.REPRODUCIBLE,
        (
            Array("steps", I32, (5,), Role.CONST),
            Array("ids", I32, (5,), Role.CONST),
            Array("cursor", I64, (1,), Role.STATE),
            Array("spikes", I32, (3, 5), Role.EVENT),
            Array("spike_count", I32, (3,), Role.EVENT),
        ),
        (kernel,),
        (Phase("step", (Launch(0, 0, 1),)),),
        {"steps": steps, "ids": ids},
    )
    backend = CpuBackend()
    merged = merge(program)
    here = backend.load(backend.build(merged, tmp_path, {}), merged, 1)
    for step in range(1, 12):
        here.run("step", step, 1)
        number = int(here.read("spike_count")[step % 3])
        listed = here.read("spikes").reshape(3, 5)[step % 3][:number]
        assert listed.tolist() == ids[steps == step].tolist()

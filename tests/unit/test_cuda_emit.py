"""The CUDA backend up to the machine code, without a GPU: texts, work division, device tables, compilation."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.device.device import has_kernel
from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import Emitted, emit
from backends.cuda.emit.translation_units import MOST
from backends.cuda.kernels.contract import compiled_functions, numbers_of
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.kernels.launch_geometry import array_elements, calls_of, group_size
from backends.cuda.kernels.launch_work import MOST_BLOCKS, Call, Work
from backends.cuda.kernels.nests.ways import SHARED
from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.cuda_graphs import STEPS, KernelCall, Plan, Timed, calls_due, launch_pattern, nodes
from backends.cuda.run.load_plan import device_table
from backends.kernel_ir.descriptor import Compiled
from backends.kernel_ir.layout import WIDTH
from backends.protocol import BackendError
from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.ir.level2.dependence import Touched, conflicts, touched
from compiler.ir.level2.program import (
    ELEMENT,
    Add,
    Axis,
    Contract,
    Dim,
    DimKind,
    Launch,
    Loop,
    Merged,
    Mode,
    Nest,
    Order,
    Strided,
)
from compiler.ir.space import Role
from compiler.layout.plan_memory import overlaps, place
from compiler.layout.write_tables import NOT_PLACED, write_tables
from compiler.passes.pipeline.lower import lower
from compiler.passes.program.merge import merge
from compiler.runtime.artifacts.build_folder import surroundings
from compiler.strategies.cuda import matmul, tensor_conv
from tests.cpu.programs import assign, expr, network
from tests.cpu.test_nests import data, single

ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted(p.stem for p in (ROOT / "models").glob("*.yaml"))
ALIKE = [f"convnet_l{k}" for k in (2, 3, 4, 5)]
"""Models whose texts differ from that of convnet_l1 in the size of a window: one architecture is enough."""
LARGE = ("multi_area_structure", "ring_10k")
"""Models that take long to lower."""
COMPILED = [(n, a) for n in MODELS for a in ("sm_80", "sm_90", "sm_100") if n not in ALIKE or a == "sm_90"]


def program_of(name: str, order: str, precision: str = "float32", **settings: str) -> Merged:
    """The merged program of a file of models/."""
    model = load_model(ROOT / "models" / f"{name}.yaml", settings)
    model = replace(model, numerics=replace(model.numerics, order=order, precision=precision))
    return lower(model, CudaBackend().capabilities, True).merged


def ring_of(count: int) -> Merged:
    """A ring of populations whose sums may run in any order."""
    plain = network(count)
    return merge(replace(plain, kernels=tuple(replace(k, order=Order.FAST) for k in plain.kernels)))


# ------------------------------------------------------------------------------------------ compiling


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize(("name", "arch"), COMPILED)
def test_every_model_compiles(name: str, arch: str) -> None:
    program = program_of(name, "reproducible")
    emitted = emit(program)
    artifact = compile_text(emitted, name, False, arch)
    entries: list[str] = []
    binaries = (artifact.binary, *artifact.beside)
    for suffix in (".cubin", ".ptx"):
        code = [x.with_suffix(suffix).read_bytes() for x in binaries]
        assert all(sum(has_kernel(c, k) for c in code) == 1 for k in kernels_of(*emitted.parts or (emitted,)))
    for binary in binaries:
        assert binary.read_bytes().startswith(b"\x7fELF")
        listing = binary.with_suffix(".ptx").read_text()
        assert f".target {arch}" in listing
        entries += re.findall(r"\.entry (\w+)\(", listing)
    assert sorted(entries) == sorted(kernels_of(*emitted.parts or (emitted,)))


def kernels_of(*parts: Emitted) -> list[str]:
    bounds = r"(?:NL_BLOCK |__launch_bounds__\([\d, ]+\)\s)?"
    pattern = re.compile(rf'^extern "C" __global__ void {bounds}(\w+)\(', re.MULTILINE)
    return [name for p in parts for name in pattern.findall(p.text)]


def called_by(program: Merged, compiled: Compiled) -> set[str]:
    """The kernels that launches call, chains aside."""
    sizes = {a.name: 1000 for a in program.arrays if a.size_from is not None}
    tables = write_tables(program, place(program, sizes), 1, sizes)
    elements = array_elements(sizes, {a.name: a.physical_size for a in program.arrays})
    found: set[str] = set()
    for x in [x for p in program.phases for x in p.launches]:
        t = x.template
        work = Work(program.templates[t], compiled[t], program.tables[t], tables[t], x, elements, 528)
        found |= {c.function for c in calls_of(work)}
    return found


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in LARGE else []) for n in MODELS])
def test_what_launches_call_is_compiled(name: str) -> None:
    """Of tiles, the shapes that rows have are there, and no others; lines fit on a page."""
    program = program_of(name, "reproducible")
    emitted = emit(program)
    assert [x for p in (emitted, *emitted.parts) for x in p.text.split("\n") if len(x) > WIDTH] == []
    assert called_by(program, emitted.kernels) <= set(kernels_of(*emitted.parts or (emitted,)))
    used = {
        f"nl_multiply<{matmul.TILES[n]}>"
        for t in program.templates
        if isinstance(t.body, Contract) and t.body.strategy == matmul.NAME
        for n in np.array(program.tables[t.index].scalars["s_tile"]).astype(int).tolist()
    }
    products = "".join(p.text for p in emitted.parts if p.name == "matmul")
    assert set(re.findall(r"nl_multiply<\d+>(?=\(p, tile)", products)) == used


def test_rows_have_the_columns_that_kernels_read() -> None:
    """Each field of a row is loaded somewhere; the host's columns are not on the device (12 in LeNet-5)."""
    program = program_of("lenet5", "reproducible")
    emitted = emit(program)
    assert sum(len(t.formals) - len(k.columns) for t, k in zip(program.templates, emitted.kernels, strict=True)) > 0
    for k, text in zip(emitted.kernels, re.split(r"\nstruct k\d+_row {", emitted.text)[1:], strict=True):
        fields = re.findall(r"(\w+_)(?=[,;])", text[: text.index("};")])
        assert fields == list(k.fields)
        assert {*fields} == {*re.findall(r"self->(\w+)", text)}


@pytest.mark.parametrize("name", ["lstm", "resnet20", "mlp", "stdp", "reservoir"])
def test_every_kernel_is_in_one_part(name: str) -> None:
    program = program_of(name, "reproducible")
    emitted = emit(program)
    assert len(emitted.parts) == {"lstm": 4, "resnet20": 16, "mlp": 4, "stdp": 2, "reservoir": 5}[name]
    assert all(len(kernels_of(p)) <= MOST + 3 for p in emitted.parts if p.quick), "three are common to all programs"
    assert len({p.name for p in emitted.parts}) == len(emitted.parts)
    apart = kernels_of(*emitted.parts)
    assert len(set(apart)) == len(apart) and set(apart) <= set(kernels_of(emitted))
    missing = set(kernels_of(emitted)) - set(apart)
    shapes = {f"direct_conv_3_step_{step}_tap_1_{kind}" for step in (1, 2) for kind in ("narrow", "six")}
    shapes |= {f"tensor_conv_float32_{x}" for x in ("3_1_by_2", "3_2_by_4", "1_2_by_4")}
    assert missing == (shapes if name == "resnet20" else set()), "shapes that no row has"
    assert not missing & called_by(program, emitted.kernels)
    quick = {"stdp": [], "reservoir": ["nests", "nests_2"], "lstm": ["rest", "rest_2"]}.get(
        name, ["rest", "rest_2", "rest_3"]
    )
    assert [p.name for p in emitted.parts if p.quick] == quick


def test_kernels_on_matrix_units_are_compiled_side_by_side() -> None:
    """Each is a part, with the contractions alone that have rows for it, and of stored products with those alone whose
    operands lie alike; parts without kernels are left out."""
    program = program_of("resnet20", "reproducible", "mixed")
    parts = {p.name: p.text for p in emit(program).parts}
    found = [n for n in parts if n.startswith(("stored_", f"{tensor_conv.NAME}_stored"))]
    assert len(found) > 2 and all(kernels_of(Emitted(parts[n], {})) == [n] for n in found)
    templates = {t.index: t for t in program.templates}
    numbers = numbers_of(program)
    for name in found:
        users = {int(n) for n in re.findall(r"_store\(\(const k(\d+)_row \*\)", parts[name])}
        assert users and users == {int(n) for n in re.findall(r"^struct k(\d+)_row", parts[name], re.MULTILINE)}
        for t in users:
            body = templates[t].body
            assert isinstance(body, Contract)
            (own,) = (f for f in compiled_functions(templates[t], body) if f.name == name)
            assert numbers[t] & set(own.tiles)
            assert not name.startswith("stored_") or len({number % 4 for number in own.tiles}) == 1


@pytest.mark.usefixtures("nvrtc")
def test_parts_that_stay_the_same_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path))
    emitted = emit(program_of("mlp", "reproducible"))
    rest, *others = emitted.parts
    first = compile_text(emitted, "mlp", False, "sm_90")
    changed = replace(emitted, parts=(replace(rest, text=rest.text + "\nstatic int changed;\n"), *others))
    second = compile_text(changed, "mlp", False, "sm_90")
    assert second.compiled and second.binary != first.binary and second.beside == first.beside
    assert not compile_text(emitted, "mlp", False, "sm_90").compiled


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize(("order", "precision"), [("bitwise", "float64"), ("fast", "float32")])
@pytest.mark.parametrize("name", ["cuba", "microcircuit"])
def test_other_orders_and_precisions_compile(name: str, order: str, precision: str) -> None:
    program = program_of(name, order, precision)
    artifact = compile_text(emit(program), name, order == "bitwise", "sm_90")
    assert ("--fmad=false" in artifact.flags) == (order == "bitwise")


@pytest.mark.usefixtures("nvrtc")
def test_a_second_build_compiles_nothing(tmp_path: Path) -> None:
    backend = CudaBackend()
    first = backend.build(program_of("cuba", "reproducible"), tmp_path / "a", {"arch": "sm_80"})
    other = program_of("cuba", "reproducible", n_exc="77", p="0.5")
    second = backend.build(other, tmp_path / "b", {"arch": "sm_80"})
    assert not second.compiled and second.binary == first.binary
    names = {p.name for p in (tmp_path / "b").iterdir()}
    assert names == {"cuba.cu", "manifest.json", "cuba.cubin", "cuba.ptx"}


@pytest.mark.usefixtures("nvrtc")
def test_code_for_one_device_has_no_ptx() -> None:
    text = Emitted('extern "C" __global__ void nothing() {}\n', {})
    alone, portable = (compile_text(text, "nothing", False, "sm_80", elsewhere=x) for x in (False, True))
    assert not alone.binary.with_suffix(".ptx").exists() and portable.binary.with_suffix(".ptx").exists()


def test_runs_compile_for_their_device_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether there is PTX is the last argument; a build folder of another device is stale."""
    asked: list[bool] = []
    monkeypatch.setattr("backends.cuda.run.backend.compile_text", lambda *given: asked.append(given[-1]))
    for options in ({}, {"arch": "sm_80"}, {"portable": "1"}):
        CudaBackend().compile(ring_of(2), options)
    assert asked == [False, True, True]
    assert surroundings(CudaBackend(arch="sm_80")) != surroundings(CudaBackend(arch="sm_90"))


@pytest.mark.usefixtures("nvrtc")
def test_a_refused_text_names_the_line() -> None:
    with pytest.raises(BackendError) as e:
        compile_text(Emitted("int broken = unheard_of;\n", {}), "broken", False, "sm_80")
    assert e.value.code == "E0902" and "broken.cu(1)" in e.value.message and e.value.exit_code == 4


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("arch", ["sm_1", "hopper", "sm_999"])
def test_an_unknown_architecture(arch: str) -> None:
    with pytest.raises(BackendError) as e:
        compile_text(Emitted("", {}), "empty", False, arch)
    assert e.value.code == "E0922"


# ------------------------------------------------------------------------------------------ the text


@pytest.mark.parametrize("order", ["reproducible", "bitwise", "fast"])
def test_the_text_does_not_depend_on_the_rows(order: str) -> None:
    texts = {emit(ring_of(n)).text for n in (2, 11)}
    assert len(texts) == 1
    small = emit(program_of("cuba", order, n_exc="10", n_inh="5")).text
    large = emit(program_of("cuba", order, n_exc="1000", p="0.5")).text
    assert small == large


def test_additions_of_many_threads() -> None:
    """Integers add up atomically; sums of reals in no order are refused where an order is promised."""
    text = emit(program_of("cuba", "reproducible")).text
    assert re.search(r"nl_accumulate\(&\w+_\[post\[u\]\], \(nl_i64\)nl_round_f32", text)
    with pytest.raises(BackendError, match="no fixed order"):
        emit(merge(network(2, order=Order.REPRODUCIBLE)))
    nest = Nest((Dim("i", "n"),), (Add("total", expr("x")),))
    arrays = {"x": data(10), "total": np.zeros(1, np.float32)}
    accesses = {"x": (Mode.READ, ELEMENT), "total": (Mode.ACCUMULATE, Strided(()))}
    with pytest.raises(BackendError, match="no fixed order"):
        emit(merge(single(nest, accesses, arrays, {"n": 10})))


def test_rings_of_delays_are_addressed_by_step() -> None:
    text = emit(program_of("microcircuit", "reproducible")).text
    assert "const nl_u32 now = nl_slot(step, ring_slots_);" in text
    assert "[nl_in_slot(nl_later(now, delays_[u], ring_slots_), n_post_, post[u])]" in text
    assert "delays_[u] = delays_p_[k];" in text


def test_a_sum_has_one_function() -> None:
    """By threads together, unless there are too few terms; where terms are left out one thread has loops of its own."""

    def text(extent: int | str, *more: Dim, div: int = 1) -> str:
        dims = (Dim("i", "n"), Dim("k", extent, DimKind.RED), *more)
        nest = Nest(dims, (), "max", expr("x"), "acc", (assign("y", "acc"),))
        row = Strided((Axis((("i", 1),), stride=4), Axis((("k", 1),), div=div)))
        accesses = {"x": (Mode.READ, row), "y": (Mode.WRITE, ELEMENT)}
        arrays = {"x": data(5, 4), "y": np.zeros(5, np.float32)}
        return emit(merge(single(nest, accesses, arrays, {"n": 5, "m": 4}))).text

    assert "nl_joined" not in text(4) and "nl_joined" in text("m")
    assert SHARED + "(" not in text("m", Dim("l", 1, DimKind.RED)) and SHARED + "(" in text("m", div=2)


# ------------------------------------------------------------------------------------ dividing work


def covered(call: Call, counts: list[int]) -> list[np.ndarray]:
    """How often each element of each row is worked on, by the rule of NL_EACH."""
    seen = [np.zeros(n, np.int64) for n in counts]
    jobs = call.jobs if call.jobs is not None else [(0, part, call.grid, 0) for part in range(call.grid)]
    assert len(jobs) == call.grid
    for row, part, parts, _ in jobs:
        assert part < parts
        n = counts[int(row) + call.row]
        seen[int(row) + call.row][int(part) * call.chunk : min(n, (int(part) + 1) * call.chunk)] += 1
    return seen


def map_work(counts: list[int], body: Nest | None = None, access: Strided | None = None) -> Work:
    """A launch of one map kernel over rows of `counts` elements; `access`: to `v`."""
    program = ring_of(len(counts))
    template = replace(program.templates[0], body=body) if body else program.templates[0]
    if access is not None:
        formals = tuple(replace(f, access=access) if f.name == "v" else f for f in template.formals)
        template = replace(template, formals=formals)
    (compiled, *_) = emit(replace(program, templates=(template, *program.templates[1:]))).kernels
    tables = write_tables(program, place(program, {}), 1, {})
    column = [f.name for f in template.formals].index("n")
    tables[0][:, column] = counts
    launch = Launch(0, 0, len(counts))
    return Work(template, compiled, program.tables[0], tables[0], launch, lambda name: 100, 8)


@pytest.mark.parametrize("counts", [[1], [1000], [3, 0, 257, 256], [5] * 40])
def test_every_element_is_worked_on_once(counts: list[int]) -> None:
    (call,) = calls_of(map_work(counts))
    assert call.block == BLOCK
    for seen in covered(call, counts):
        assert (seen == 1).all()


def test_grids_stay_below_the_limit() -> None:
    (call,) = calls_of(map_work([5_000_000_000]))
    assert call.grid <= MOST_BLOCKS
    assert call.grid * call.chunk >= 5_000_000_000 > (call.grid - 1) * call.chunk


def test_no_work_is_no_call() -> None:
    assert calls_of(map_work([0, 0])) == []


@pytest.mark.parametrize("div", [1, 2])
def test_rows_of_a_reduction_choose_by_themselves(div: int) -> None:
    """What a row gets depends on its own extents, so merging changes no bit. Terms that are neighbours in memory (`div`
    1) are read by a warp at least."""
    dims = (Dim("i", "n"), Dim("k", 4096, DimKind.RED))
    nest = Nest(dims, (), "add", expr("v"), "acc", (assign("ge", "acc"),))
    every = Strided((Axis((("k", 1),), div=div),))

    def calls_for(counts: list[int]) -> list[Call]:
        return calls_of(map_work(counts, nest, every))

    counts = [3, 1 << 18, 5000, 7]
    calls = calls_for(counts)
    assert sorted({c.group for c in calls}) == ([32, 256] if div == 1 else [1, 32, 256])
    for n in counts:
        (alone,) = calls_for([n])
        assert alone.group == group_size(n, 4096, div == 1)
    total = [np.zeros(n, np.int64) for n in counts]
    for call in calls:
        assert call.function.endswith(SHARED) == (call.group > 1 and div > 1)
        for a, b in zip(total, covered(call, counts), strict=True):
            a += b
    assert all((x == 1).all() for x in total)


def test_propagation_gives_blocks_by_synapses() -> None:
    program = ring_of(3)
    number = next(i for i, t in enumerate(program.templates) if "propagation" in t.name)
    sizes = {f"pop{i}->pop{(i + 1) % 3}.col": n for i, n in enumerate((0, 900, 100))}
    rows = program.tables[number]
    tables = write_tables(program, place(program, sizes), 1, sizes)
    elements = array_elements(sizes, {})
    compiled = emit(program).kernels[number]
    work = Work(program.templates[number], compiled, rows, tables[number], Launch(number, 0, 3), elements, 100)
    (call,) = calls_of(work)
    assert call.jobs is not None
    assert np.bincount(call.jobs[:, 0]).tolist() == [16, 16 + 47, 16 + 5]


# ------------------------------------------------------------------------------------- device tables


def test_tables_hold_addresses_and_narrow_reals() -> None:
    program = ring_of(2)
    tables = write_tables(program, place(program, {}), 1, {})
    bases = np.arange(1, len(Role) + 1, dtype=np.uint64) << np.uint64(40)
    template, table = program.templates[0], tables[0]
    own = device_table(template, table, bases)
    names = [f.name for f in template.formals]
    offset = place(program, {}).offsets["pop1.ge"]
    assert own[1, names.index("ge")] == bases[list(Role).index(Role.STATE)] + np.uint64(offset)
    at = names.index("decay_v")
    narrow = own[:, at].copy().view(np.float32)[::2]
    assert np.array_equal(narrow, table[:, at].copy().view(np.float64).astype(np.float32))
    assert own[:, names.index("n")].tolist() == table[:, names.index("n")].tolist()
    fill = next(i for i, t in enumerate(program.templates) if "fill" in t.name)
    column = [f.name for f in program.templates[fill].formals].index("col")
    assert (tables[fill][:, column] == np.uint64(NOT_PLACED)).all()
    assert (device_table(program.templates[fill], tables[fill], bases)[:, column] == 0).all()


# ------------------------------------------------------------------------------------------ schedule


def ready(name: str) -> KernelCall:
    return KernelCall(name, 1, 256, 0, 0, 1, 0, 1, name)


def test_steps_recorded_together_are_the_steps_one_by_one() -> None:
    plan = Plan((Timed((ready("a"),), 1, 0), Timed((ready("b"), ready("c")), 10, 0), Timed((ready("d"),), 3, 2)))
    for first in (1, 8, 30):
        together = [(c.function, first + ahead) for c, ahead, _ in calls_due(plan, first, 20)]
        apart = [(c.function, step) for step in range(first, first + 20) for c, _, _ in calls_due(plan, step, 1)]
        assert together == apart
        sparse = {(n, at) for n, at in launch_pattern(plan, first, 20)}
        assert {s for f, s in together if f == "b"} == {first + at for n, at in sparse if n == 1}
        assert {s % 10 for f, s in together if f == "b"} == {0}
        assert {s % 3 for f, s in together if f == "d"} == {2}


def test_launches_of_a_loop_are_recorded_step_by_step() -> None:
    """Each with the rows of its step; a step waits for what it conflicts with in the step before."""
    moved = replace(ready("b"), rows=100, by_step=(24, 0))
    apart = {"a": {0, 1}, "b": {0, 1, 2}, "c": {1, 2, 3}, "d": {2, 3}}
    calls = (moved if name == "b" else ready(name) for name in apart)
    timed = tuple(Timed((x,), 1, 0, frozenset(beside)) for x, beside in zip(calls, apart.values(), strict=True))
    plan, names = Plan(timed, loops=(Loop(1, 3, 3, "x"),)), "abcbcbcd"
    found = [(c.function, at) for c, _, at in calls_due(plan, 1, 1)]
    assert found == list(zip(names, (0, 0, 0, 1, 1, 2, 2, 0), strict=True))
    made = nodes(plan, 1, 2)
    assert [(x.launch.calls[0].label, x.at) for x in made] == 2 * found
    rows = [c.arguments(0, x.at)[0] for x in made for c in x.launch.calls if isinstance(c, KernelCall)]
    assert rows == 2 * [0, 100, 0, 124, 0, 148, 0, 0]
    assert [x.after for x in made[:8]] == [(), *((n,) for n in range(7))]
    assert [x.after for x in made[8:11]] == [(5,), (8, 6), (9, 7)]  # in the next step of the phase
    assert plan.steps == STEPS and replace(plan, loops=(Loop(1, 3, 300, "x"),)).steps == 1


def test_launches_wait_for_those_that_they_may_not_run_beside() -> None:
    """a -> b -> d and a -> c; c runs every 10 steps, and in the next step a waits for c (if it ran) and for d."""
    apart = {"a": {0, 1, 2, 3}, "b": {0, 1, 3}, "c": {0, 2}, "d": {0, 1, 3}}
    plan = Plan(tuple(Timed((ready(n),), 10 if n == "c" else 1, 0, frozenset(x)) for n, x in apart.items()))
    found = nodes(plan, 10, 2)
    assert [n.launch.calls[0].function for n in found] == ["a", "b", "c", "d", "a", "b", "d"]
    assert [set(n.after) for n in found] == [set(), {0}, {0}, {1}, {2, 3}, {4}, {5}]
    assert [n.ahead for n in found] == [0, 0, 0, 0, 1, 1, 1]
    assert found[1].stream == found[0].stream == found[3].stream != found[2].stream
    assert [set(n.after) for n in nodes(plan, 11, 1)] == [set(), {0}, {1}]


def test_the_longest_path_goes_on_with_a_stream_and_goes_first() -> None:
    """a -> side; a -> b -> c: the side stands between them, but b inherits the stream."""
    apart = {"a": {0, 1, 2, 3}, "side": {0, 1}, "b": {0, 2, 3}, "c": {0, 2, 3}}
    plan = Plan(tuple(Timed((ready(n),), 1, 0, frozenset(x)) for n, x in apart.items()))
    a, side, b, c = nodes(plan, 1, 1)
    assert a.stream == b.stream == c.stream != side.stream
    assert [n.slack for n in (a, side, b, c)] == [0, 1, 0, 0]


def test_every_two_launches_that_may_not_meet_are_ordered() -> None:
    """By the streams and events of a graph, for random conflicts."""
    random = np.random.default_rng(3)
    for _ in range(30):
        many = int(random.integers(1, 14))
        beside = np.triu(random.random((many, many)) < 0.25)
        apart = [frozenset(np.flatnonzero(row).tolist()) for row in beside | beside.T | np.eye(many, dtype=bool)]
        every = random.choice([1, 1, 2, 3], many)
        plan = Plan(tuple(Timed((ready(str(n)),), int(every[n]), 0, x) for n, x in enumerate(apart)))
        found = nodes(plan, 1, 5)
        ended: list[set[int]] = []
        last: dict[int, int] = {}
        for n, node in enumerate(found):
            waits = {*node.after, *({last[node.stream]} if node.stream in last else ())}
            ended.append(waits.union(*(ended[w] for w in waits)))
            last[node.stream] = n
            number = int(node.launch.calls[0].function)
            for m, earlier in enumerate(found[:n]):
                assert int(earlier.launch.calls[0].function) not in apart[number] or m in ended[n]


def test_few_patterns_occur() -> None:
    plan = Plan((Timed((ready("a"),), 1, 0), Timed((ready("b"),), 10, 0)))
    assert plan.steps % 10 == 0
    patterns = {launch_pattern(plan, 1 + k * plan.steps, plan.steps) for k in range(20)}
    assert len(patterns) == 1


def test_rare_launches_make_few_graphs() -> None:
    """Any periods, any beginning and end: every step once, the launches of a graph known by its key, few keys."""
    random = np.random.default_rng(5)
    for periods in ((1, 50), (1, 10, 250), (1, 7, 33, 1000), (37, 41, 43), (1, 2, 3, 5, 64), (1,)):
        plan = Plan(tuple(Timed((ready(str(n)),), every, every // 2) for n, every in enumerate(periods)))
        keys, step, alone = {}, 1, 0
        for count in (*random.integers(1, 400, 60).tolist(), 20_000):
            end = step + count
            for size in plan.parts(step, count):
                key = size, launch_pattern(plan, step, size)
                calls = [(c.function, ahead) for c, ahead, _ in calls_due(plan, step, size)]
                assert keys.setdefault(key, calls) == calls
                assert 1 <= size <= plan.steps
                step += size
                alone += size == 1
            assert step == end
        assert len(keys) < 64
        assert periods != (1,) or keys.keys() == {(size, ()) for size in (32, 16, 8, 4, 2, 1)}
        assert alone < step / 2 or periods == (37, 41, 43)


# ------------------------------------------------------------------------------------------- hazards


def test_launches_wait_where_one_needs_another() -> None:
    neuron = Touched({"v", "in"}, {"v", "in", "spikes"})
    record = Touched({"spikes", "used"}, {"used", "buffer"})
    deliver = Touched({"spikes", "row"}, added={"in"})
    trace = Touched({"v", "in"}, {"trace"})
    assert conflicts([neuron, record, deliver, deliver]) == [{0, 1, 2, 3}, {0, 1}, {0, 2}, {0, 3}]
    assert conflicts([neuron, record, deliver, trace]) == [{0, 1, 2, 3}, {0, 1}, {0, 2, 3}, {0, 2, 3}]


def test_launches_that_share_memory_wait_for_each_other() -> None:
    """Two WORK arrays lie in one place because one is read for the last time before the other is written."""
    program = program_of("lenet_digits", "reproducible")
    placement = place(program, {})
    shared = overlaps(program, placement)
    sizes = {a.name: a.physical_size * a.dtype.bytes for a in program.arrays}
    assert shared
    for name, others in shared.items():
        for other in others:
            a, b = placement.offsets[name], placement.offsets[other]
            assert a < b + sizes[other] and b < a + sizes[name]
            assert name in shared[other]
    train = next(p for p in program.phases if p.name == "train")
    touches, alone = (
        [touched(program.templates, program.tables, [x], {}, others) for x in train.launches] for others in (shared, {})
    )
    apart = conflicts(alone, touches)
    for n, own in enumerate(alone):  # exactly those that touch memory in common, and do not both read it
        for m, other in enumerate(alone[:n]):
            pairs = [(a, b) for a in own.names for b in other.names if a == b or b in shared.get(a, ())]
            changed = {*own.written, *other.written}
            met = any({a, b} & changed and (a in own.written or b in other.written) for a, b in pairs)
            assert (m in apart[n]) is (n in apart[m]) is met, (n, m)
    assert any(len(x) < len(apart) for x in apart) and all(n in x for n, x in enumerate(apart))
    both = [
        (shared[name], t.written) for t, own in zip(touches, alone, strict=True) for name in own.written & {*shared}
    ]
    assert both and all(others <= written for others, written in both)


@pytest.mark.parametrize(("size", "steps"), [(1000, 256), (1_000_000, 64)])
def test_buffers_of_spikes_hold_more_steps_than_on_a_cpu(size: int, steps: int, tmp_path: Path) -> None:
    """Where they stay below 256 MiB: the host asks less often whether there is room."""
    (tmp_path / "m.yaml").write_text(
        f"""\
language: 1
simulate: {{dt: 1 ms, duration: 1 s}}
populations: {{a: {{neuron: cell, size: {size}}}}}
neurons: {{cell: {{state: {{v: 0}}, update: [v = v + 0.3], spike: {{when: v > 1, reset: [v = 0]}}}}}}
record: [{{spikes: {{from: a}}}}]
"""
    )
    model = load_model(tmp_path / "m.yaml", {})
    for target, held in ((CudaBackend(), steps), (backend("cpu"), 64)):
        program = lower(model, target.capabilities).merged
        assert next(a.shape for a in program.arrays if a.name == "a'spikes'record") == (held * size, 2)

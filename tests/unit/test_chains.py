"""Chains (persistent RNNs): the merged launches, independence of samples, and the tables traversed by a device."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.kernels.launch_work import Words
from backends.cuda.persistent import rnn_plan as cuda_stages
from backends.cuda.persistent.rnn import FACTOR, FEED, NAME, READ, RECORDS, chained_templates
from backends.cuda.persistent.rnn_plan import Schedule, row_bytes, shapes_of, stages_of
from backends.cuda.persistent.rnn_table import Walk
from backends.cuda.persistent.rnn_table import walk as walk_of
from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.load_plan import device_table, launched_at_once
from backends.reference.load import ReferenceInstance
from compiler.frontend.load import load_model
from compiler.ir.level2.batch_independence import apart, chain_violations, product_of
from compiler.ir.level2.program import (
    ELEMENT,
    ArrayFormal,
    Axis,
    Dim,
    DimKind,
    Formal,
    Loop,
    Merged,
    Mode,
    Nest,
    Order,
    Phase,
    Strided,
    Template,
)
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType, Role
from compiler.ir.text import print_ir
from compiler.layout.plan_memory import lifetimes, place
from compiler.layout.write_tables import write_tables
from compiler.passes.pipeline.lower import lower
from compiler.passes.program.batch_launches import gather
from compiler.passes.program.decisions import Decision
from compiler.passes.program.persistent_rnn import chains
from compiler.strategies.clustered_rnn import MINE
from compiler.strategies.cost.devices import H200
from tests.chain_tables import Table, in_order
from tests.grids import diagonal
from tests.parse_ir import parse_ir
from tests.recurrent import Network, network
from tests.unroll_loops import unroll_loops

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    Network("rnn", 3, 5, batch=6),
    Network("gru", 3, 4, layers=2, batch=5),
    Network("lstm", 2, 4, bidirectional=True, batch=4, masked=True),
]
ROOM = 227 << 10


def capable(chains: bool) -> Capabilities:
    return CudaBackend(chains=chains).capabilities


def program_of(folder: Path, n: Network, chains: bool = True, **numerics: str) -> Merged:
    return lower(network(folder, n, **numerics), capable(chains), True).merged


def unrolled(folder: Path, n: Network, **numerics: str) -> Merged:
    """All launches of all steps, those of a loop as a chain of one step."""
    return unroll_loops(program_of(folder, n, **numerics))


def in_clusters(program: Merged, blocks: int) -> Merged:
    """Its chains in clusters of so many blocks."""
    over = {"spread": 1, "passes": 0, "cluster": blocks, "beside": ()}
    phases = [replace(p, loops=tuple(replace(x, **over) for x in p.loops)) for p in program.phases]  # type: ignore[arg-type]
    return replace(program, phases=tuple(phases))


def phase_of(program: Merged, name: str) -> Phase:
    return next(p for p in program.phases if p.name == name)


def trained(program: Merged, steps: int = 2) -> dict[str, np.ndarray]:
    """The weights after some steps on the reference."""
    instance = ReferenceInstance(program, 3)
    order = next(a for a in program.arrays if a.name == "train.order")
    instance.write("train.order", np.arange(order.physical_size, dtype=np.int32))
    instance.run("train", 1, steps)
    return {a.name: instance.read(a.name) for a in program.arrays if a.role is Role.WEIGHT}


def scheduled(program: Merged, phase: Phase, chain: Loop) -> Schedule:
    found = stages_of(program, phase, chain)
    assert found is not None
    return found


# ------------------------------------------------------------------------------------------- the passes


@pytest.mark.parametrize("n", SMALL, ids=str)
def test_moving_launches_changes_no_bit(tmp_path: Path, n: Network) -> None:
    plain, chained = program_of(tmp_path, n, False), program_of(tmp_path, n)
    before, after = (phase_of(x, "train") for x in (plain, chained))
    assert len(after.chains) == len(after.loops) == 2 * n.layers * (1 + n.bidirectional)
    launched = [sum(x.hi - x.lo for x in p.launches) for p in (before, after)]
    assert launched[0] == launched[1]
    assert len(after.launches) <= len(before.launches)
    expected, found = trained(plain), trained(chained)
    for name, values in expected.items():
        assert np.array_equal(values, found[name]), name


@pytest.mark.parametrize("n", SMALL, ids=str)
def test_each_sample_goes_its_own_way(tmp_path: Path, n: Network) -> None:
    """Samples that walk through a chain alone, one after the other, find what they would find side by side."""
    program = unrolled(tmp_path, n)
    phase = phase_of(program, "train")
    parts: list[tuple[tuple[str, ...], int]] = []
    single = []
    done = 0
    for chain in (*phase.chains, Loop(len(phase.launches), len(phase.launches), 1, "")):
        single.append(Phase(f"to_{chain.first}", phase.launches[done : chain.first]))
        parts.append(((single[-1].name,), 0))
        links = [Phase(f"at_{k}", (phase.launches[k],)) for k in range(chain.first, chain.last)]
        single += links
        parts.append((tuple(x.name for x in links), chain.samples))
        done = chain.last
    written = {
        x.name: [
            program.tables[t.index].arrays[f.name][launch.lo]
            for launch in x.launches
            for t in (program.templates[launch.template],)
            for f in t.formals
            if isinstance(f, ArrayFormal) and f.mode is not Mode.READ
        ]
        for x in single
    }
    instance = ReferenceInstance(replace(program, phases=(*program.phases, *single)), 3)
    order = next(a for a in program.arrays if a.name == "train.order")
    instance.write("train.order", np.arange(order.physical_size, dtype=np.int32))
    for names, samples in parts:
        for sample in range(max(samples, 1)):
            for name in names:
                before = {a: instance.read(a) for a in written[name]} if samples else {}
                instance.run(name, 1, 1)
                for a, values in before.items():
                    mine = np.array_split(instance.read(a), samples)[sample]
                    np.array_split(values, samples)[sample][:] = mine
                    instance.write(a, values)
    expected = trained(program, 1)
    for name, values in expected.items():
        assert np.array_equal(values, instance.read(name)), name


@pytest.mark.parametrize("n", [*SMALL, Network("gru", 4, 4, batch=3)], ids=str)
def test_each_point_of_a_stage_goes_its_own_way(tmp_path: Path, n: Network) -> None:
    """Outputs that go through the links of a stage alone, the last one first, find what they would find together."""
    program = unrolled(tmp_path, n)
    phase = phase_of(program, "train")
    links = [Phase(f"at_{k}", (x,)) for k, x in enumerate(phase.launches)]
    instance = ReferenceInstance(replace(program, phases=(*program.phases, *links)), 3)
    order = next(a for a in program.arrays if a.name == "train.order")
    instance.write("train.order", np.arange(order.physical_size, dtype=np.int32))
    done, most = 0, 0
    for chain in phase.chains:
        for k in range(done, chain.first):
            instance.run(f"at_{k}", 1, 1)
        for stage in in_order(scheduled(program, phase, chain)):
            most = max(most, stage.last - stage.first)
            for out in reversed(range(n.units)):
                for k in range(chain.first + stage.first, chain.first + stage.last):
                    rows, x = program.tables[phase.launches[k].template], phase.launches[k]
                    formals = program.templates[x.template].formals
                    written = {
                        rows.arrays[f.name][x.lo]
                        for f in formals
                        if isinstance(f, ArrayFormal) and f.mode is not Mode.READ
                    }
                    before = {a: instance.read(a) for a in written}
                    instance.run(f"at_{k}", 1, 1)
                    for a, values in before.items():
                        points = values.reshape(chain.samples, n.units)
                        points[:, out] = instance.read(a).reshape(chain.samples, n.units)[:, out]
                        instance.write(a, values)
        done = chain.last
    for k in range(done, len(links)):
        instance.run(f"at_{k}", 1, 1)
    assert most >= {"rnn": 1, "gru": 4, "lstm": 4}[n.kind]
    expected = trained(program, 1)
    for name, values in expected.items():
        assert np.array_equal(values, instance.read(name)), name


def test_what_nothing_reads_is_not_stored(tmp_path: Path) -> None:
    """Of gradients of the cells' sums all are operands of products of later steps, or of matrices' gradients; sums of
    gradients of a state are read in the next step's stage."""
    program = program_of(tmp_path, Network("lstm", 8, 9))
    shapes, phase = shapes_of(program), phase_of(program, "train")
    kept: dict[str, set[int]] = {}
    for chain in phase.chains:
        schedule = scheduled(program, phase, chain)
        for s in in_order(schedule):
            written = [(n, f) for n, part in enumerate(s.shape, s.first) for f in part.results]
            for r in shapes.stored[shapes.number[s.shape]]:
                step, n = schedule.links.at(written[r][0])
                kept.setdefault(schedule.links.each[n].arrays[written[r][1]].name, set()).add(step)
    assert not any(name.startswith("train/lstm_1.at.h.before.grad") for name in kept)
    assert kept["train/lstm_1.at.h"] == kept["train/lstm_1.at.memory"] == set(range(9))
    assert kept["train/lstm_1.at.cell.carried.grad"] == set(range(9))  # what gives the gradients of matrices


def test_both_ways_are_chains_of_their_own(tmp_path: Path) -> None:
    program = program_of(tmp_path, SMALL[2])
    phase = phase_of(program, "train")
    paths = []
    for chain in phase.chains:
        launches = phase.launches[chain.first : chain.last]
        paths.append({".backward." in program.tables[x.template].paths[x.lo] for x in launches})
    assert paths == [{False}, {True}, {True}, {False}]


def test_samples_that_meet_are_named(tmp_path: Path) -> None:
    program = program_of(tmp_path, SMALL[0])
    phase = phase_of(program, "train")
    (first, *_) = phase.chains

    def with_loop(**changes: object) -> list[str]:
        return list(chain_violations(program, replace(phase, loops=(replace(first, **changes),))))  # type: ignore[arg-type]

    assert not with_loop() and not with_loop(samples=3)  # 6 samples are 3 pairs
    assert any(v.endswith("has samples that meet in `train/rnn_1.at.state`") for v in with_loop(samples=4))
    assert "has a kernel that has no samples" in with_loop(first=first.last, last=len(phase.launches))[0]
    assert "is spread over 0 blocks" in with_loop(spread=0)[0]
    assert "pays as a chain, but is none" in with_loop(samples=0)[0]


ROW = {"n": 6, "o": 4, "w": 5, "by": 4, "flat": 24}


def number_of(x: int | str) -> int | None:
    return x if isinstance(x, int) else ROW.get(x)


@pytest.mark.parametrize(
    ("axes", "own"),
    [
        ((Axis((("n", 1),), stride="by"), Axis((("o", 1),))), True),
        ((Axis((("n", 1),)), Axis((("o", 1),), stride="n")), False),  # transposed
        ((Axis((("n", 1),), const=1, stride="by"), Axis((("o", 1),))), False),  # of the next sample
        ((Axis((("n", -1),), const=5, stride="by"), Axis((("o", 1),))), False),  # the other way round
        ((Axis((("n", 1),), stride="by"), Axis((("w", 1),))), False),  # one element too far
        ((Axis((("n", 1),), stride="by"), Axis((("w", 1),), extent="o")), True),  # which is not there
        ((Axis((("n", 1),), stride="by"), Axis((("w", 1),), const=-1)), False),  # one element before
        ((Axis((("n", 1),), stride="by"), Axis((("k", 1),))), False),  # through data
        ((Axis((("o", 1),)),), False),  # the same for all samples
    ],
)
def test_parts_of_samples(axes: tuple[Axis, ...], own: bool) -> None:
    formal = ArrayFormal("y", DType.F32, Mode.READ, Strided(axes))
    nest = Nest((Dim("n", "n"), Dim("o", "o"), Dim("w", "w", DimKind.RED)))
    template = Template(0, "t", "", (formal,), nest, Order.REPRODUCIBLE)
    assert apart(template, formal, number_of, 6, 24) == own
    assert not apart(template, formal, number_of, 5, 24)
    assert not apart(template, formal, number_of, 6, 48)


def test_parts_of_flat_maps() -> None:
    formal = ArrayFormal("y", DType.F32, Mode.WRITE, ELEMENT)
    nest = Nest((Dim("i", "flat"),))
    template = Template(0, "t", "", (formal,), nest, Order.REPRODUCIBLE)
    assert apart(template, formal, number_of, 6, 24)
    assert not apart(template, formal, number_of, 5, 24)


def test_what_is_added_up_over_samples_is_in_no_chain(tmp_path: Path) -> None:
    program = program_of(tmp_path, SMALL[0])
    for phase in program.phases:
        for chain in phase.chains:
            names = {program.templates[x.template].name for x in phase.launches[chain.first : chain.last]}
            assert not any("recurrent.grad" in name for name in names)


def test_chains_are_text_and_back(tmp_path: Path) -> None:
    phase = phase_of(program_of(tmp_path, SMALL[0]), "train")
    assert parse_ir(print_ir(phase)) == phase


def decided(folder: Path, n: Network, **numerics: str) -> list[Decision]:
    decisions = lower(network(folder, n, **numerics), capable(True)).decisions
    return [d for d in decisions if d.pass_name == "chains"]


def test_explain_says_why(tmp_path: Path) -> None:
    first, *_ = decided(tmp_path, Network("gru", 64, 20))
    assert first.subject == "train: gru_1.at.reset"
    assert first.verdict == "one walk of 4 kernels in 20 steps, sample by sample"
    assert re.fullmatch(r"3 matrices of 51 KB on chip, where that fits; about .* us", first.reason)
    first, *_ = decided(tmp_path, Network("lstm", 128, 20))
    assert first.verdict == "one walk of 4 kernels in 20 steps, in clusters of blocks"
    assert re.fullmatch(
        r"4 matrices of 264 KB in clusters of 4 blocks; about .* us, launch by launch .* us", first.reason
    )
    first, *_ = decided(tmp_path, Network("lstm", 512, 20))
    assert first.verdict == "one walk of 4 kernels in 20 steps, spread over blocks"
    assert re.fullmatch(r"4 matrices of 4128 KB over 32 blocks; about .* us, launch by launch .* us", first.reason)
    first, *_ = decided(tmp_path, Network("lstm", 1400, 5, batch=2))
    assert first.verdict == "launch by launch"
    assert first.reason == "4 matrices of 30713 KB do not fit into the 227 KB that a processor has at most"
    first, *_ = decided(tmp_path, Network("rnn", 128, 20, batch=20_000))
    assert first.verdict == "launch by launch"
    assert "as a chain" in first.reason


def test_a_chain_is_a_loop(tmp_path: Path) -> None:
    """The launches of a chain are those of a Scan, not what looks like one."""
    looped = lower(network(tmp_path, SMALL[1]), capable(False), True).merged
    made = chains(looped, CudaBackend().capabilities, {}).merged
    for before, phase, after in zip(looped.phases, made.phases, unroll_loops(made).phases, strict=True):
        assert [replace(x, samples=0, pays=False, spread=1, cluster=1) for x in phase.loops] == list(before.loops)
        assert all(x.samples == SMALL[1].batch for x in phase.loops)
        assert [x.name for x in phase.loops] == [x.name for x in after.chains]
    assert not any(p.chains for p in unroll_loops(looped).phases)


def test_other_models_have_none(tmp_path: Path) -> None:
    assert not decided(tmp_path, Network("rnn", 8, 1))  # a matrix that few products read
    assert not decided(tmp_path, Network("rnn", 8, 8), order="bitwise")
    for name in ("transformer", "lenet_digits", "cuba"):
        model = load_model(ROOT / "models" / f"{name}.yaml", {})
        assert not any(p.chains for p in lower(model, capable(True)).merged.phases)


def test_gradients_of_query_and_key_are_one_launch() -> None:
    """Of a layer of attention, whose launches are far apart; nothing else changes."""
    model = load_model(ROOT / "models" / "transformer.yaml", {})
    plain, batched = (lower(model, capable(x), True).merged for x in (False, True))
    assert replace(batched, tables=(), phases=()) == replace(plain, tables=(), phases=())
    for old, new in zip(plain.phases, batched.phases, strict=True):
        assert sum(x.hi - x.lo for x in old.launches) == sum(x.hi - x.lo for x in new.launches)
    table = {x.template: batched.tables[x.template].paths for x in phase_of(batched, "train").launches}
    paths = [table[x.template][x.lo : x.hi] for x in phase_of(batched, "train").launches]
    assert any({"query", "key"} <= {p.split(".")[1] for p in several if "weight.grad" in p} for several in paths)


def test_arrays_of_a_chain_live_at_the_same_time(tmp_path: Path) -> None:
    program = program_of(tmp_path, SMALL[0])
    phase = phase_of(program, "train")
    chain = phase.chains[0]
    whole = {a.name: a.within or a.name for a in program.arrays}
    ends = [whole[program.tables[x.template].arrays["y"][x.lo]] for x in phase.launches[chain.first : chain.last]]
    lives = lifetimes(replace(program, phases=(phase,)), set(ends))
    assert len({lives[name][0][0] for name in ends}) == 1
    without = lifetimes(replace(program, phases=(replace(phase, loops=()),)), set(ends))
    assert len({without[name][0][0] for name in ends}) == len(set(ends))


def test_what_does_not_wait_is_one_launch(tmp_path: Path) -> None:
    """The gradients of a layer's matrices are sums over all steps, and those of equal kernels one launch."""
    lowered = lower(network(tmp_path, Network("lstm", 8, 20)), capable(True), True)
    phase = phase_of(lowered.merged, "train")
    paths = [(x, lowered.merged.tables[x.template].paths[x.lo : x.hi]) for x in phase.launches]
    assert sum("recurrent.grad" in path for _, found in paths for path in found) == 4
    assert max(x.hi - x.lo for x, found in paths if any("recurrent.grad" in path for path in found)) > 4
    assert [d.verdict for d in lowered.decisions if d.pass_name == "gather"] == [
        f"{len(p.launches)} launches" for p in lowered.merged.phases if p.chains
    ]
    twice = replace(lowered.merged, phases=(*lowered.merged.phases, replace(phase, name="again")))
    assert gather(twice) == (twice, [])
    launched = [x for p in lowered.merged.phases for x in p.launches]
    rows = [(x.template, row) for x in launched for row in range(x.lo, x.hi)]
    assert len(set(rows)) == len(rows) == sum(t.count for t in lowered.merged.tables)


# -------------------------------------------------------------------------------------------- the text


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Network("gru", 5, 9, batch=8), Network("gru", 100, 31, batch=64)),
        pytest.param(
            Network("lstm", 5, 9, layers=2, batch=8), Network("lstm", 96, 17, layers=2), marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_the_text_knows_no_numbers(tmp_path: Path, a: Network, b: Network) -> None:
    texts = [emit(in_clusters(program_of(tmp_path, n), 1)).text for n in (a, b)]
    assert f" {NAME}(" in texts[0]
    assert texts[0] == texts[1]


def test_what_a_chain_has_written_is_read_again(tmp_path: Path) -> None:
    """A pointer that nothing else is said to change is read through a cache that does not see changes."""
    program = program_of(tmp_path, SMALL[1])
    lines = emit(program).text.split("\n")
    function = 0
    restricted: set[int] = set()
    for line in lines:
        if found := re.match(r"(?:NL_FN|NL_PART) void k(\d+)_", line):
            function = int(found[1])
        if "__restrict__" in line:
            restricted.add(function)
    assert restricted
    assert not restricted & set(chained_templates(program))


@pytest.mark.nvrtc
@pytest.mark.slow
def test_chains_compile_in_float64(tmp_path: Path) -> None:
    program = program_of(tmp_path, SMALL[1], precision="float64")
    code = compile_text(emit(program), "chains", False, "sm_90").beside[-1]
    assert NAME.encode() in code.read_bytes()
    listing = code.with_suffix(".ptx").read_text()
    kernel = listing[listing.index(f".entry {NAME}(") :]
    assert "ld.global.nc" not in kernel[: kernel.find(".entry", 10)]


# ------------------------------------------------------------------------------------------ the tables


def device_words(program: Merged) -> tuple[list[Words], dict[int, str]]:
    """The tables of a device whose arenas are far apart, and the arrays by their addresses there."""
    placement = place(program, {}, 1 << 30)
    bases = np.array([(k + 1) << 40 for k, _ in enumerate(Role)], np.uint64)
    tables = write_tables(program, placement, 3, {})
    words = [device_table(t, x, bases) for t, x in zip(program.templates, tables, strict=True)]
    base = dict(zip(Role, bases.tolist(), strict=True))
    parts_last = sorted(program.arrays, key=lambda a: -a.physical_size)  # where a whole begins, its first part does
    return words, {base[a.role] + placement.offsets[a.name]: a.name for a in parts_last}


def is_read(f: Formal) -> bool:
    return isinstance(f, ArrayFormal) and f.mode is not Mode.WRITE


def walk(program: Merged, phase: Phase, chain: Loop, words: list[Words], processors: int, room: int) -> Walk | None:
    return walk_of(program, emit(program).kernels, phase, chain, words, shapes_of(program), processors, room)


@pytest.mark.parametrize(
    ("n", "precision"),
    diagonal(
        {
            str(x): x
            for x in [
                Network("gru", 20, 4, batch=70),
                Network("lstm", 33, 4, batch=4),
                Network("lstm", 24, 4, batch=140),
                Network("rnn", 40, 4, batch=9),
                Network("rnn", 1, 4, batch=9),
            ]
        },
        ["float32", "float64"],
    ),
)
def test_tables_say_what_the_products_are(tmp_path: Path, n: Network, precision: str) -> None:
    """The sums that a walk makes from its tables are those of the products that its links are rows of."""
    program = unrolled(tmp_path, n, precision=precision)
    words, names = device_words(program)
    shapes, real, kernels = shapes_of(program), program.precision, emit(program).kernels
    unit = 16 // real.bytes
    rng = np.random.default_rng(2)
    arrays = {a.name: rng.standard_normal(a.shape).astype(real.numpy) for a in program.arrays if a.physical_size > 0}
    fed, mine = 0, 0
    for phase in program.phases:
        for chain in phase.chains:
            found = walk(program, phase, chain, words, 132, ROOM)
            assert found is not None
            assert (found.blocks - 1) * found.samples < n.batch <= found.blocks * found.samples
            table = Table.of(found)
            head, heads = table.head, table.stages
            stages = in_order(scheduled(program, phase, chain))
            assert (head["samples"], head["stages"]) == (n.batch, len(stages))
            assert head["records"] + RECORDS * head["record"] < found.shared <= ROOM
            assert head["records"] % 16 == head["record"] % 16 == 0  # they are copied by 16 bytes
            chip = np.full(head["values"], np.nan, real.numpy)
            for m in table.matrices:
                padded = np.zeros((-(-m["rows"] // unit) * unit, m["pitch"]), real.numpy)
                flat = arrays[names[int(m["from"])]].reshape(-1)
                for row in range(m["rows"]):
                    padded[row, : m["columns"]] = flat[row * m["by_row"] :][: m["columns"]]
                chip[m["at"] : m["at"] + padded.size] = padded.reshape(-1)
            assert not np.isnan(chip).any()  # every element has a place, and only one
            slots: dict[int, str] = {}
            layouts: set[object] = set()  # of what threads have in registers
            for s, head_of, row in zip(stages, heads, table.rest, strict=True):
                launches = phase.launches[chain.first + s.first : chain.first + s.last]
                at, used, written = 0, set[str](), set[str]()
                for x, part in zip(launches, s.shape, strict=True):
                    template, table = program.templates[x.template], program.tables[x.template]
                    columns = list(kernels[x.template].columns)
                    own = row[at : at + 8 * len(columns)].view(np.uint64)
                    assert np.array_equal(own, words[x.template][x.lo][columns])
                    at += row_bytes(len(columns))
                    product, known = product_of(template), {f for f, _ in part.known}
                    plain = {f.name for f in template.formals if is_read(f)} - known
                    used |= {table.arrays[f][x.lo] for f in plain if not product or f != product.values}
                    written |= {
                        table.arrays[f.name][x.lo]
                        for f in template.formals
                        if isinstance(f, ArrayFormal) and f.mode is not Mode.READ
                    }
                assert head_of["rows"] == at
                reads = row[at:][: head_of["reads"] * READ.itemsize].view(READ)
                at += reads.nbytes
                factors = row[at:][: head_of["products"] * FACTOR.itemsize].view(FACTOR)
                at += factors.nbytes
                tables = [(program.templates[x.template], program.tables[x.template].arrays, x.lo) for x in launches]
                wanted = [bound[p.values][lo] for t, bound, lo in tables if (p := product_of(t))]
                made = [bound[f][lo] for (_, bound, lo), p in zip(tables, s.shape, strict=True) for f in p.results]
                assert len(factors) == len(wanted) and head_of["fresh"] == factors["fresh"].sum()
                for r in reads:
                    assert r["bytes"] == arrays[names[int(r["from"])]].nbytes // n.batch
                fresh = {x for x, f in zip(wanted, factors, strict=True) if f["fresh"]}
                assert {names[int(r["from"])] for r in reads} == {
                    x for x in used | fresh if arrays[x].shape[0] == n.batch
                }
                assert (head_of["shape"], head_of["outs"]) == (shapes.number[s.shape], n.units)
                assert 1 << int(head_of["bits"] + head_of["split"] + head_of["beside"]) <= 256
                passes = -(-len(factors) >> int(head_of["beside"]))
                if head_of["mine"]:
                    here = factors[["at", "by_out", "by_term", "terms", "pitch"]].tolist()
                    layouts.add((*(int(head_of[k]) for k in ("bits", "split", "beside", "outs")), *here))
                    assert passes == 1 and head_of["outs"] <= 1 << int(head_of["bits"])
                    assert factors["pitch"].max() <= MINE * unit << int(head_of["split"])
                assert passes << int(head_of["beside"] + head_of["split"] + head_of["bits"]) <= head["turn"]
                for f, name in zip(factors, wanted, strict=True):
                    if f["fresh"]:
                        slots[int(f["slot"])] = name
                for f, name, product, x in zip(
                    factors,
                    wanted,
                    [p for x in launches if (p := product_of(program.templates[x.template]))],
                    [x for x in launches if product_of(program.templates[x.template])],
                    strict=True,
                ):
                    assert slots[int(f["slot"])] == name == names[int(f["values"])]  # what is not brought is there
                    assert f["slot"] + found.samples * f["pitch"] <= head["sums"] - head["values"]
                    assert f["by_sample"] * n.batch == arrays[name].size and f["by_sample"] == f["terms"]
                    assert f["terms"] <= f["pitch"] == -(-f["terms"] // unit) * unit
                    out, term = np.ix_(np.arange(head_of["outs"]), np.arange(f["terms"]))
                    w = chip[f["at"] + out * f["by_out"] + term * f["by_term"]]
                    matrix = arrays[program.tables[x.template].arrays[product.matrix][x.lo]]
                    np.testing.assert_array_equal(w, matrix if product.by_out else matrix.T)
                slots = {k: name for k, name in slots.items() if name not in written}
                results = sorted(shapes.fed[shapes.number[s.shape]])
                for r, feed in zip(results, row[at:][: len(results) * FEED.itemsize].view(FEED), strict=True):
                    if feed["slot"] >= 0:
                        fed += 1
                        assert int(feed["slot"]) not in {int(f["slot"]) for f in factors}
                        assert feed["slot"] + found.samples * feed["pitch"] <= head["sums"] - head["values"]
                        assert feed["pitch"] == head_of["outs"]
                        slots[int(feed["slot"])] = made[r]
            assert len(layouts) <= 1
            mine += int(heads["mine"].sum())
    assert (fed > 0) == (n.units % unit == 0)
    assert mine > 0 or (n.kind, real) == ("lstm", DType.F64)  # too many terms for a thread's registers


def test_products_are_summed_side_by_side(tmp_path: Path) -> None:
    for n, most, ways in (
        (Network("lstm", 24, 4), 4, 4),
        (Network("gru", 128, 4), 3, 2),
        (Network("rnn", 300, 4), 1, 1),
    ):
        program = in_clusters(program_of(tmp_path, n), 1)
        words, _ = device_words(program)
        phase = phase_of(program, "train")
        for chain in phase.chains:
            found = walk(program, phase, chain, words, 132, 1 << 20)
            assert found is not None
            stages = Table.of(found).stages
            assert (stages["products"].max(), 1 << stages["beside"].max()) == (most, ways)


def launched(program: Merged) -> Merged:
    """Without chains that pay."""
    phases = [replace(p, loops=tuple(replace(x, pays=False, spread=1) for x in p.loops)) for p in program.phases]
    return replace(program, phases=tuple(phases))


def test_what_does_not_pay_or_fit_is_launched_one_by_one(tmp_path: Path) -> None:
    large = launched(program_of(tmp_path, Network("lstm", 128, 4)))
    small = program_of(tmp_path, Network("lstm", 24, 4))
    for program, room, walks in ((large, ROOM, False), (small, ROOM, True), (small, 10_000, False)):
        device = SimpleNamespace(room=lambda name, room=room: room, target=H200)
        phase = phase_of(program, "train")
        assert {x.pays for x in phase.loops} == {program is small}
        kernels = emit(program).kernels
        parts = launched_at_once(device, program, kernels, phase, device_words(program)[0], shapes_of(program))  # type: ignore[arg-type]
        assert [len(x.launches) for x in parts if x.walk is not None] == [
            c.last - c.first for c in phase.chains if walks
        ]
        assert [y for x in parts for y in x.launches] == list(phase.launches)
        assert [x.steps for x in parts if x.loop is not None] == [
            4 for x in phase.loops for _ in range(x.first, x.last) if not walks
        ]


def test_what_is_not_point_by_point_is_launched_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(tmp_path, Network("gru", 24, 4))
    monkeypatch.setattr(cuda_stages, "MOST", 0)
    phase = phase_of(program, "train")
    assert all(stages_of(program, phase, c) is None for c in phase.chains)
    device = SimpleNamespace(room=lambda name: ROOM, target=H200)
    kernels = emit(program).kernels
    parts = launched_at_once(device, program, kernels, phase, device_words(program)[0], shapes_of(program))  # type: ignore[arg-type]
    assert not any(x.walk for x in parts)
    assert f" {NAME}(" in emit(program).text


def test_samples_are_spread_over_the_processors(tmp_path: Path) -> None:
    program = program_of(tmp_path, Network("gru", 20, 4, batch=70))
    words, _ = device_words(program)
    phase = phase_of(program, "train")
    shapes = {}
    for processors, room in ((132, ROOM), (20, ROOM), (1, ROOM), (1, 17_000), (132, 6_000)):
        found = walk(program, phase, phase.chains[0], words, processors, room)
        shapes[processors, room] = None if found is None else (found.blocks, found.samples)
    assert shapes[132, ROOM] == (70, 1)
    assert shapes[20, ROOM] == (18, 4)
    assert shapes[1, ROOM] == (1, 70)
    fewer = shapes[1, 17_000]
    assert fewer is not None and 1 < fewer[0] < 70
    assert shapes[132, 6_000] is None

"""Chains that are spread over blocks: when they are, and the tables traversed by a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from backends.cuda.emit.emit import emit
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.persistent import rnn, spread
from backends.cuda.persistent.rnn_plan import shapes_of
from backends.cuda.persistent.spread_table import spread_walk
from backends.cuda.run.load_plan import in_turn, launched_at_once
from compiler.ir.level2.batch_independence import chain_violations, product_of
from compiler.ir.level2.dependence import Touched, touched
from compiler.ir.level2.program import ArrayFormal, Loop, Merged, Mode, Phase
from compiler.layout.plan_memory import overlaps, place
from compiler.passes.pipeline.lower import lower
from compiler.strategies import clustered_rnn
from compiler.strategies.spread_rnn import EIGHT
from tests.chain_tables import Table, in_order
from tests.grids import diagonal
from tests.recurrent import Network, network
from tests.unit.test_chains import H200, ROOM, capable, device_words, phase_of, program_of, scheduled, unrolled


def panels_of(table: Table, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The panels of a stage, and the numbers of their products."""
    stage, row = table.stages[n], table.rest[n]
    at = stage["rows"] + stage["reads"] * rnn.READ.itemsize
    panels = row[at:][: stage["panels"] * spread.PANEL.itemsize].view(spread.PANEL)
    return panels, row[at + panels.nbytes :][: 4 * stage["products"]].view(np.int32)


def chip(table: Table, member: int, flat: dict[int, np.ndarray], real: np.dtype) -> np.ndarray:
    """The matrices that a block keeps."""
    found = np.full(table.head["sums"], np.nan, real)
    for m in table.matrices:
        lines = np.zeros((1 << m["bits"], m["pitch"]), real)
        first = member << m["bits"]
        for row in range(min(m["outs"] - first, 1 << m["bits"])):
            place = (first + row) * m["by_out"] + np.arange(m["terms"]) * m["by_term"]
            lines[row, : m["terms"]] = flat[int(m["from"])][place]
        assert np.isnan(found[m["at"] : m["at"] + lines.size]).all()  # a place of its own
        found[m["at"] : m["at"] + lines.size] = lines.reshape(-1)
    assert not np.isnan(found).any()
    return found


def threads(stage: np.void, panels: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(panel, way, line, sample, of how many lines of samples) of each thread, in turn."""
    down = stage["tiles"] // stage["across"]
    each = BLOCK // stage["side"]
    for begin in range(0, panels, stage["side"]):
        for t in range(BLOCK):
            way, tile = divmod(t % each, stage["tiles"])
            panel = begin + t // each
            if t // each < stage["side"] and panel < panels and way < stage["ways"]:
                yield panel, way, tile % stage["across"], tile // stage["across"], down


def summed(
    table: Table, n: int, kept: np.ndarray, values: dict[int, np.ndarray], samples: int, each: int, unit: int
) -> np.ndarray:
    """The sums of a stage as the threads of a block make them: (product, sample, output)."""
    stage = table.stages[n]
    panels, products = panels_of(table, n)
    parts = stage["ways"] // stage["fold"]
    sums, many = (np.zeros(stage["products"] * parts * stage["part"]) for _ in range(2))
    for panel, way, row, sample, down in threads(stage, len(panels)):
        f = panels[panel]
        units = -(-f["terms"] // unit)
        chunks = [(c, u) for c in range(stage["chunks"]) for u in range(way, stage["chunk"], stage["ways"])]
        mine = [c * stage["chunk"] + u for c, u in chunks if c * stage["chunk"] + u < units]
        terms = np.array([u * unit + k for u in mine for k in range(unit)], int)
        x = np.zeros((each, units * unit))
        x[:samples, : f["terms"]] = values[int(f["values"])]
        for i in range(EIGHT):
            line = row + i * stage["across"]
            if line >= f["rows"]:
                continue
            w = kept[f["at"] + line * f["pitch"] + terms]
            part = products[f["first"] + (line >> stage["bits"])] * parts + way // stage["fold"]
            place = part * stage["part"]
            for s in range(sample, each, down):
                at = place + (s << stage["bits"]) + (line & (1 << stage["bits"]) - 1)
                assert s < sample + EIGHT * down
                sums[at] += w @ x[s, terms]
                many[at] += 1
    assert set(many) <= {0, stage["fold"]}  # threads of its own, of one warp
    whole = sums.reshape(stage["products"], parts, stage["part"]).sum(1)
    return whole[:, : samples << stage["bits"]].reshape(stage["products"], samples, 1 << stage["bits"])


def expected(program: Merged, phase: Phase, launches: range, arrays: dict[str, np.ndarray]) -> Iterator[np.ndarray]:
    for k in launches:
        x = phase.launches[k]
        template, rows = program.templates[x.template], program.tables[x.template]
        if (product := product_of(template)) is not None:
            matrix = arrays[rows.arrays[product.matrix][x.lo]].astype(float)
            yield arrays[rows.arrays[product.values][x.lo]].astype(float) @ (matrix.T if product.by_out else matrix)


@pytest.fixture(autouse=True)
def no_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices that the blocks of a cluster could have are spread, too."""
    monkeypatch.setattr(clustered_rnn, "sizes", lambda *_: [])


SPREAD = [
    (Network("gru", 20, 4, batch=21), 3, 9),
    (Network("lstm", 33, 4, batch=4), 9, 132),
    (Network("lstm", 16, 4, batch=40), 2, 4),
    (Network("rnn", 40, 4, batch=9), 2, 2),
]


@pytest.mark.parametrize(("case", "precision"), diagonal(SPREAD, ["float32", "float64"]))
def test_tables_say_what_the_products_are(tmp_path: Path, case: tuple[Network, int, int], precision: str) -> None:
    """The sums that blocks make from a table are those of the products that its links are rows of."""
    n, members, processors = case
    program = unrolled(tmp_path, n, precision=precision)
    words, names = device_words(program)
    real, unit = program.precision.numpy, 16 // program.precision.bytes
    rng = np.random.default_rng(2)
    arrays = {a.name: rng.standard_normal(a.shape).astype(real) for a in program.arrays if a.physical_size > 0}
    flat = {at: arrays[name].reshape(-1) for at, name in names.items() if name in arrays}
    kernels = emit(program).kernels
    for phase in program.phases:
        for chain in phase.chains:
            over = replace(chain, spread=members)
            found = spread_walk(program, kernels, phase, over, words, shapes_of(program), processors, ROOM)
            assert found is not None and found.function == spread.NAME
            groups = -(-n.batch // found.samples)
            assert found.blocks == members * groups <= processors and found.counters >= 32 * (1 + groups)
            table, schedule = Table.of(found), scheduled(program, phase, chain)
            stages = in_order(schedule)
            assert (table.head["samples"], table.head["members"], len(table.stages)) == (n.batch, members, len(stages))
            assert table.head["records"] + 2 * table.head["record"] < found.shared <= ROOM
            kept = [chip(table, member, flat, real) for member in range(members)]
            for k, (s, stage) in enumerate(zip(stages, table.stages, strict=True)):
                launches = range(chain.first + s.first, chain.first + s.last)
                room(table, stage, found.samples, program.precision.bytes)
                assert not stage["meets"] and not results(program, phase, launches) & {
                    x for x, _ in s.values(schedule.links)
                }
                products = list(expected(program, phase, launches, arrays))
                for group in range(groups):
                    mine = slice(group * found.samples, (group + 1) * found.samples)
                    values = {at: x.reshape(n.batch, -1)[mine] for at, x in flat.items() if x.size % n.batch == 0}
                    for member, matrices in enumerate(kept):
                        first = member << stage["bits"]
                        if not products or first >= s.outs:
                            continue
                        samples = min(found.samples, n.batch - group * found.samples)
                        sums = summed(table, k, matrices, values, samples, found.samples, unit)
                        for p, whole in enumerate(products):
                            part = whole[mine, first : first + (1 << stage["bits"])]
                            np.testing.assert_allclose(sums[p][:, : part.shape[1]], part, rtol=1e-4, atol=1e-4)


def test_blocks_meet_before_they_write_what_others_multiply(tmp_path: Path) -> None:
    """A state that is written where the one before it was."""
    program = unrolled(tmp_path, Network("rnn", 40, 4, batch=9))
    words = device_words(program)[0]
    phase = phase_of(program, "eval")
    (chain,) = phase.chains
    x = phase.launches[chain.first + 1]
    template = program.templates[x.template]
    product = product_of(template)
    assert product is not None
    formals = [f.name for f in template.formals]
    words[x.template][x.lo, formals.index("y")] = words[x.template][x.lo, formals.index(product.values)]
    over = replace(chain, spread=2)
    found = spread_walk(program, emit(program).kernels, phase, over, words, shapes_of(program), 2, ROOM)
    assert found is not None
    assert [bool(stage["meets"]) for stage in Table.of(found).stages] == [False, True, False, False]


def test_matrices_that_no_block_can_have_are_spread(tmp_path: Path) -> None:
    """Where that is faster than the launches; smaller ones stay in every block."""
    for n, many in ((Network("lstm", 128, 4), 16), (Network("lstm", 512, 4), 32), (Network("lstm", 96, 4), 1)):
        program = program_of(tmp_path, n)
        loops = [x for p in program.phases for x in p.loops]
        assert loops and all(x.pays and x.spread == many for x in loops)
        text = emit(program).text
        assert (f" {spread.NAME}(" in text) == (many > 1) != (f" {rnn.NAME}(" in text)
    program = program_of(tmp_path, Network("rnn", 400, 4))
    forwards = [p.loops[0] for p in program.phases if p.loops]
    assert len(forwards) == 2 and not any(x.pays for x in forwards)  # a launch of each step is fast, too


@pytest.mark.parametrize(
    ("units", "numerics", "passes"),
    [
        (1024, {}, 3),
        (1024, {"products": "tf32"}, 1),
        (1024, {"products": "exact"}, 0),
        (1024, {"precision": "float64"}, 0),
        (512, {}, 0),
    ],
)
def test_matrix_units_sum_large_matrices(tmp_path: Path, units: int, numerics: dict[str, str], passes: int) -> None:
    """Where that is faster, for float32's products, which they make of three; they share a kernel in all phases."""
    model = network(tmp_path, Network("lstm", units, 4))
    lowered = lower(replace(model, numerics=replace(model.numerics, **numerics)), capable(True))
    merged = lowered.merged
    verdicts = [d.verdict for d in lowered.decisions if d.pass_name == "chains"]
    assert verdicts and all(v.endswith("over blocks, sums on matrix units") == (passes > 0) for v in verdicts)
    spreads = [x for p in merged.phases for x in p.loops if x.spread > 1]
    assert {x.passes for x in spreads} <= {passes} and (spreads or not passes)
    assert ("nl_unit_sums" in emit(merged).text) == (passes > 0)


def test_panels_are_divided_among_blocks(tmp_path: Path) -> None:
    """In a gradient each block reads the values of one gate, not of all four, and gives the sums to those that have
    their points: each product of the matrix and each sum is made once."""
    program = lower(network(tmp_path, Network("lstm", 1024, 4)), capable(True)).merged
    words, kernels, shapes = device_words(program)[0], emit(program).kernels, shapes_of(program)
    phase = phase_of(program, "train")
    walks = [spread_walk(program, kernels, phase, x, words, shapes, H200.processors, ROOM) for x in phase.chains]
    forwards, backwards = (Table.of(x) for x in walks if x is not None)
    assert not any(s["divided"] for s in forwards.stages) and forwards.head["given"] == 0
    n = next(n for n, s in enumerate(backwards.stages) if s["panels"])
    head, (panels, _) = backwards.stages[n], panels_of(backwards, n)
    assert head["divided"] == 2 and head["meets"] and sorted(panels["number"]) == [0, 1, 2, 3]
    assert [m["panel"] for m in backwards.matrices] == [0, 1, 2, 3]
    assert len({int(m["at"]) for m in backwards.matrices}) == 1
    members = int(backwards.head["members"])
    rows = 1 << int(backwards.matrices[0]["bits"])
    assert rows == 4 << int(head["bits"]) and members // 4 * rows == 1024
    assert backwards.head["given"] == 4 * members * 64 << int(head["bits"])


def test_threads_of_a_warp_join_their_sums(tmp_path: Path) -> None:
    """So that no sum has more parts than a block has warps, where a warp has whole tiles."""
    program = program_of(tmp_path, Network("lstm", 128, 4))
    words, kernels, shapes = device_words(program)[0], emit(program).kernels, shapes_of(program)
    for phase in program.phases:
        for chain in phase.chains:
            found = spread_walk(program, kernels, phase, chain, words, shapes, H200.processors, ROOM)
            assert found is not None
            for stage in Table.of(found).stages:
                assert not stage["panels"] or stage["ways"] // stage["fold"] <= BLOCK // 32 < stage["ways"]


def test_directions_run_at_the_same_time(tmp_path: Path) -> None:
    """Each on a part of the processors, as long as they are not other layers' steps; their arrays share no memory."""
    n = Network("lstm", 128, 4, layers=2, bidirectional=True)
    program = program_of(tmp_path, n)
    words, kernels, shapes = device_words(program)[0], emit(program).kernels, shapes_of(program)
    shared = overlaps(program, place(program, {}))
    assert shared
    for phase in program.phases:
        names = [x.beside for x in phase.loops]
        assert len(names) == (4 if phase.name == "eval" else 8 if phase.name == "train" else 0)
        assert all(len(x) == 2 and names.count(x) == 2 for x in names)
        for chain in phase.loops:
            found = spread_walk(program, kernels, phase, chain, words, shapes, H200.processors, ROOM)
            assert found is not None and found.blocks <= H200.processors // 2 < found.blocks + chain.spread
            (other,) = (x for x in phase.loops if x.name in chain.beside and x is not chain)
            own, its = (touched_by(program, phase, x) for x in (chain, other))
            assert not own.needs(its) and not its.needs(own)
            assert not {y for x in own.names for y in shared.get(x, ())} & its.names - own.names
        if len(phase.loops) > 1:
            assert not list(chain_violations(program, phase))
            first, *rest = phase.loops
            for beside in ((), (first.name, "none"), tuple(x for x in first.beside if x != first.name)):
                wrong = replace(phase, loops=(replace(first, beside=beside), *rest))
                assert any("does not know it" in v for v in chain_violations(program, wrong)), beside
    alone = program_of(tmp_path, replace(n, bidirectional=False))
    assert not any(x.beside for p in alone.phases for x in p.loops)


def touched_by(program: Merged, phase: Phase, loop: Loop) -> Touched:
    return touched(program.templates, program.tables, phase.launches[loop.first : loop.last], {})


def test_chains_that_wait_for_blocks_run_in_turn(tmp_path: Path) -> None:
    """But for those that have the processors divided: blocks that wait for others always have these on a processor."""
    program = program_of(tmp_path, Network("gru", 256, 3, layers=2, bidirectional=True))
    device = SimpleNamespace(room=lambda name: ROOM, target=H200)
    kernels, shapes = emit(program).kernels, shapes_of(program)
    phase = phase_of(program, "train")
    units = launched_at_once(device, program, kernels, phase, device_words(program)[0], shapes)  # type: ignore[arg-type]
    chains = [n for n, x in enumerate(units) if x.walk is not None]
    assert len(chains) == 8
    for n, apart in enumerate(in_turn(units, [frozenset({n}) for n in range(len(units))])):
        chain = units[n].chain
        expected = {m for m in chains if units[m].chain.name not in chain.beside} if chain is not None else set()
        assert apart == {n} | expected and len(expected) in (0, 6)


def test_a_device_with_fewer_processors_launches(tmp_path: Path) -> None:
    program = program_of(tmp_path, Network("lstm", 128, 4))
    words, kernels, shapes = device_words(program)[0], emit(program).kernels, shapes_of(program)
    phase = phase_of(program, "train")
    made = {}
    for processors, room in ((132, ROOM), (16, ROOM), (15, ROOM), (132, 20_000)):
        found = spread_walk(program, kernels, phase, phase.chains[0], words, shapes, processors, room)
        made[processors, room] = None if found is None else (found.blocks, found.samples)
    assert made == {(132, ROOM): (128, 8), (16, ROOM): (16, 64), (15, ROOM): None, (132, 20_000): None}


@pytest.mark.parametrize("n", [Network("gru", 128, 9, batch=8), Network("lstm", 130, 9)], ids=str)
def test_the_text_knows_no_numbers(tmp_path: Path, n: Network) -> None:
    text = emit(spreaded(program_of(tmp_path, replace(n, units=200, steps=17)))).text
    assert emit(spreaded(program_of(tmp_path, n))).text == text


def spreaded(program: Merged) -> Merged:
    phases = [replace(p, loops=tuple(replace(x, spread=2) for x in p.loops)) for p in program.phases]
    return replace(program, phases=tuple(phases))


def room(table: Table, stage: np.void, each: int, real_bytes: int) -> None:
    """What a stage has on chip lies apart, but sums where values were, if all panels are summed at once."""
    end = table.head["records"] // real_bytes
    sums = table.head["sums"] + stage["products"] * (stage["ways"] // stage["fold"]) * stage["part"]
    values = table.head["values"] + stage["depth"] * stage["side"] * each * stage["line"]
    assert sums <= (end if stage["panels"] <= stage["side"] else table.head["values"]) and values <= end
    assert not table.head["values"] * real_bytes % 16 and not table.head["records"] % 16
    assert stage["line"] * real_bytes >= 16 * stage["chunk"] or not stage["panels"]


def results(program: Merged, phase: Phase, launches: range) -> set[str]:
    """The arrays that launches write."""
    rows = [(phase.launches[k].lo, phase.launches[k].template) for k in launches]
    return {
        program.tables[t].arrays[f.name][lo]
        for lo, t in rows
        for f in program.templates[t].formals
        if isinstance(f, ArrayFormal) and f.mode is not Mode.READ
    }

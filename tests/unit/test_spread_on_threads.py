"""The kernels of chains on threads of the host: results, races, accesses out of bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.emit.emit import emit
from backends.cuda.persistent import rnn, spread
from backends.cuda.persistent.rnn_plan import shapes_of
from backends.cuda.persistent.rnn_table import Walk
from backends.cuda.persistent.rnn_table import walk as chain_walk
from backends.cuda.persistent.spread_table import spread_walk
from backends.reference.load import ReferenceInstance
from compiler.ir.level2.batch_independence import product_of
from compiler.ir.level2.program import Loop, Merged, Phase
from compiler.ir.space import Role
from compiler.layout.plan_memory import Placement, place
from compiler.layout.write_tables import device_table, write_tables
from compiler.strategies import spread_rnn
from compiler.strategies.cost import cuda as cost
from tests.chain_tables import Table, in_order
from tests.cuda_threads import APART, FIRST, Launched, built, run
from tests.recurrent import Network
from tests.unit.test_chains import ROOM, phase_of, program_of, scheduled, unrolled

BASES = {role: FIRST + k * APART for k, role in enumerate(Role)}
TABLE, COUNTERS = (FIRST + (len(BASES) + k) * APART for k in range(2))


@dataclass(frozen=True)
class Case:
    """A network, blocks that have the same samples (1: chains are not spread), and blocks in all; the phase; `passes`:
    see Loop; `divided`: panels of a stage are divided among blocks; `cluster`: blocks that have the same samples as a
    cluster."""

    n: Network
    members: int
    blocks: int
    phase: str = "train"
    precision: str = "float32"
    ahead: int = spread_rnn.DEPTH
    passes: int = 0
    divided: bool = False
    cluster: int = 1

    @property
    def together(self) -> int:
        """Blocks with the same samples."""
        return max(self.members, self.cluster)


class Kernels:
    """Compiled kernels by text and sanitizers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[tuple[str, str], Path] = {}

    def of(self, text: str, name: str, sanitizers: str) -> Path:
        if (text, sanitizers) not in self.made:
            folder = self.folder / str(len(self.made))
            folder.mkdir()
            self.made[text, sanitizers] = built(folder, text, name, sanitizers)
        return self.made[text, sanitizers]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return Kernels(tmp_path_factory.mktemp("kernels"))


class Host:
    """A program whose chains are spread, with its text compiled, and the reference beside it; `steps`: those of a
    chain, unless all are one."""

    def __init__(
        self, folder: Path, case: Case, kernels: Kernels, sanitizers: str, without: str = "", steps: bool = True
    ) -> None:
        program = (program_of if steps else unrolled)(folder, case.n, precision=case.precision)
        over = {"spread": case.members, "passes": case.passes, "cluster": case.cluster}
        phases = [replace(p, loops=tuple(replace(x, **over) for x in p.loops)) for p in program.phases]
        self.program: Merged = replace(program, phases=tuple(phases))
        self.phase = phase_of(self.program, case.phase)
        self.case, self.emitted, self.shapes = case, emit(self.program), shapes_of(self.program)
        text = next(x.text for x in self.emitted.parts if x.name == "chains")
        left = "        if (busy) " if without.endswith("if (busy) ") else ""
        assert without in text
        self.image = folder / "image"
        name = rnn.name_of(case.cluster) if case.members == 1 else spread.NAME
        self.kernel = kernels.of(text.replace(without, left, 1) if without else text, name, sanitizers)
        self.placement: Placement = place(self.program, {}, 1 << 30)
        tables = write_tables(self.program, self.placement, 3, {})
        bases = np.array(list(BASES.values()), np.uint64)
        self.words = [device_table(t, x, bases) for t, x in zip(self.program.templates, tables, strict=True)]
        single = [Phase(f"at_{k}", (x,)) for k, x in enumerate(self.phase.launches)]
        for x in self.phase.loops:
            whole = replace(x, first=0, last=x.last - x.first)
            single[x.first] = Phase(f"at_{x.first}", self.phase.launches[x.first : x.last], (whole,))
        self.reference = ReferenceInstance(replace(self.program, phases=(*self.program.phases, *single)), 3)
        for a in self.program.arrays:
            if a.name in ("train.order", "eval.order"):
                self.reference.write(a.name, np.arange(a.physical_size, dtype=np.int32).reshape(a.shape))

    def walk(self, chain: Loop) -> Walk:
        make = spread_walk if self.case.members > 1 else chain_walk
        kernels, many = self.emitted.kernels, self.case.blocks + (self.case.cluster > 1)  # not all may be in clusters
        made = make(self.program, kernels, self.phase, chain, self.words, self.shapes, many, ROOM)
        assert made is not None and made.blocks == self.case.blocks
        return made

    def memory(self, walk: Walk) -> dict[int, bytes]:
        """Of the device before a chain."""
        arenas = {role: bytearray(size) for role, size in self.placement.arena_bytes.items() if size}
        for a in self.program.arrays:
            if a.physical_size > 0:
                values = np.ascontiguousarray(self.reference.read(a.name)).tobytes()
                at = self.placement.offsets[a.name]
                arenas[a.role][at : at + len(values)] = values
        found = {BASES[role]: bytes(content) for role, content in arenas.items()}
        return found | {TABLE: walk.table.tobytes(), COUNTERS: bytes(4 * walk.counters)}

    def chains(self, late: bool) -> list[Table]:
        """Each chain on threads, from what the reference has before it; its results are those of the reference."""
        done, tables = 0, []
        for chain in self.phase.chains:
            self.steps(done, chain.first)
            walk = self.walk(chain)
            launch = Launched(walk.blocks, walk.threads, TABLE, walk.samples, COUNTERS, walk.shared)
            after = run(self.kernel, self.image, launch, self.memory(walk), late)
            groups = self.case.blocks // self.case.together
            assert not any(after[COUNTERS][: 4 * spread.COUNTERS * (1 + groups)])  # ready for the next launch
            self.steps(chain.first, chain.first + 1)
            done = chain.last
            self.compare(chain, after)
            tables.append(Table.of(walk))
        return tables

    def steps(self, first: int, last: int) -> None:
        for k in range(first, last):
            self.reference.run(f"at_{k}", 1, 1)

    def compare(self, chain: Loop, after: dict[int, bytes]) -> None:
        roles = {a.name: a.role for a in self.program.arrays}
        schedule = scheduled(self.program, self.phase, chain)
        real = self.program.precision.numpy
        error = 1e-2 if self.case.passes == 1 else 1e-5 if self.program.precision.bytes == 4 else 1e-12
        for s in in_order(schedule):
            for r in self.shapes.stored[self.shapes.number[s.shape]]:
                name, first = s.results(schedule.links)[r]
                wanted = np.asarray(self.reference.read(name)).reshape(-1)[first:][: chain.samples * s.outs]
                at = self.placement.offsets[name] + first * wanted.itemsize
                found = np.frombuffer(after[BASES[roles[name]]], real, wanted.size, at)
                np.testing.assert_allclose(found, wanted, rtol=error, atol=error * np.abs(wanted).max(), err_msg=name)


CASES = [
    Case(Network("gru", 12, 3, batch=17), 2, 2),
    Case(Network("gru", 12, 7, batch=9), 2, 2, "eval"),  # steps that share a record
    Case(Network("lstm", 12, 10, batch=5), 1, 1),
    Case(Network("lstm", 33, 3, batch=19, masked=True), 3, 6),  # two groups; values that are not whole units
    Case(Network("lstm", 72, 2, batch=64), 2, 2),  # values in several chunks
    Case(Network("lstm", 72, 2, batch=64), 2, 2, ahead=2),
    Case(Network("gru", 18, 2, batch=9), 3, 3, precision="float64"),
    Case(Network("gru", 20, 7, batch=17), 2, 2, passes=3),
    Case(Network("lstm", 72, 2, batch=80), 3, 3, passes=3, ahead=2),  # several tiles of each warp, and of each panel
    Case(Network("lstm", 140, 2, batch=8), 5, 5, "eval", passes=1),
    Case(Network("lstm", 40, 3, batch=19), 4, 8, passes=3, divided=True),
    Case(Network("gru", 20, 10, batch=7), 1, 6, cluster=3),  # several samples of a block; a part of its outputs
    Case(Network("lstm", 24, 10, batch=3), 1, 6, cluster=2),
    Case(Network("lstm", 30, 3, batch=5, masked=True), 1, 4, "eval", precision="float64", cluster=4),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_chains_on_threads(tmp_path: Path, kernels: Kernels, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = spread_rnn.arranged
    monkeypatch.setattr(
        spread_rnn, "arranged", lambda *x: (a for a in usual(*x) if a.chunks == 0 or a.depth == case.ahead)
    )
    monkeypatch.setattr(cost, "SPREAD_GIVEN_US", 0.0 if case.divided else 1e9)
    for late in (False, True):
        tables = Host(tmp_path, case, kernels, "address,undefined").chains(late)
    assert all((t.lines < len(t.stages)) == (case.n.steps > 3) for t in tables)
    if case.members > 1:
        assert any(s["divided"] for t in tables for s in t.stages) == case.divided
        assert {int(s["depth"]) for t in tables for s in t.stages if s["panels"]} == {case.ahead}
        if not case.passes:
            assert any(s["chunks"] > case.ahead for t in tables for s in t.stages) == (case.n.batch == 64)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES[:4], CASES[-1]], ids=str)
def test_threads_do_not_race(tmp_path: Path, kernels: Kernels, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "SPREAD_GIVEN_US", 0.0 if case.divided else 1e9)
    Host(tmp_path, case, kernels, "thread").chains(late=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "without"),
    [
        (CASES[0], "        if (n + 1 < c.stages) nl_meet(arrived, met += c.members);\n"),
        (CASES[0], "        __syncthreads();\n        if (busy) "),
    ],
)
def test_what_keeps_threads_apart_is_needed(tmp_path: Path, kernels: Kernels, case: Case, without: str) -> None:
    with pytest.raises(AssertionError, match=r"data race|Not equal to tolerance"):
        Host(tmp_path, case, kernels, "thread", without).chains(late=False)


@pytest.mark.slow
def test_results_that_take_the_place_of_values_do_not_race(tmp_path: Path, kernels: Kernels) -> None:
    """Blocks meet before they write what others multiply."""
    meeting = "        if (l.meets) nl_meet(arrived, met += c.members);\n"
    for without in ("", meeting):
        host = Host(tmp_path, Case(Network("rnn", 40, 4, batch=9), 2, 2, "eval"), kernels, "thread", without, False)
        (chain,) = host.phase.chains
        x = host.phase.launches[chain.first + 1]
        template = host.program.templates[x.template]
        product, formals = product_of(template), [f.name for f in template.formals]
        assert product is not None
        host.words[x.template][x.lo, formals.index("y")] = host.words[x.template][x.lo, formals.index(product.values)]
        host.steps(0, chain.first)
        walk = host.walk(chain)
        launch = Launched(walk.blocks, walk.threads, TABLE, walk.samples, COUNTERS, walk.shared)
        if without:
            with pytest.raises(AssertionError, match="data race"):
                run(host.kernel, host.image, launch, host.memory(walk), late=False)
        else:
            run(host.kernel, host.image, launch, host.memory(walk), late=False)

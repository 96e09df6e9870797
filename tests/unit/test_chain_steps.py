"""Steps of chains: stages and records that repeat, and what lies where in each step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.emit.emit import emit
from backends.cuda.persistent import spread
from backends.cuda.persistent.rnn_plan import Stage, shapes_of, stages_of
from backends.cuda.persistent.rnn_stages import ReadChain, ReadStage
from backends.cuda.persistent.rnn_table import Walk, walk
from backends.cuda.persistent.spread_table import spread_walk
from compiler.ir.level2.batch_independence import links_of, meetings
from compiler.ir.level2.program import Merged
from compiler.ir.space import Role
from compiler.passes.program.keep_steps import keep_steps
from tests.chain_tables import Table, in_order
from tests.recurrent import Network
from tests.unit.test_chains import ROOM, SMALL, device_words, phase_of, program_of, scheduled
from tests.unroll_loops import unroll_loops

FIRST = 1 << 40
"""The first address of a device (device_words)."""


def test_a_step_is_a_stage(tmp_path: Path) -> None:
    """However long the sequence, its steps have few shapes, and only the first and last ones are looked at."""
    for kind, most in (("rnn", 2), ("gru", 4), ("lstm", 5)):
        few, many = (program_of(tmp_path, Network(kind, 8, steps)) for steps in (9, 20))
        assert list(shapes_of(few).number) == list(shapes_of(many).number)
        made = [[scheduled(x, p, c) for p in x.phases for c in p.chains] for x in (few, many)]
        assert max(s.last - s.first for schedule in made[1] for s in in_order(schedule)) == most
        for short, long in zip(*made, strict=True):
            assert (short.head, short.cycle, short.by) == (long.head, long.cycle, long.by)
            assert len(in_order(long)) <= 21 and long.times == short.times + 11
            assert len([*short.different()]) == len([*long.different()]) <= 12


def _without_moves(walk: Walk, table: Table) -> int:
    """Its shared memory; where matrices are spread, the moves of two records have a place there, too."""
    moves = int(table.head["line"] - table.head["record"])
    return walk.shared - (2 * moves if walk.function == spread.NAME else 0)


def renamed(one: Walk, other: Walk) -> bool:
    """Whether the matrices and stages of two tables are the same but for addresses, of which each is another one."""
    tables = [Table.of(x) for x in (one, other)]
    parts = ((t.matrices, t.stages, t.rest) for t in tables)
    a, b = (np.concatenate([np.frombuffer(x.tobytes(), np.uint64) for x in part]) for part in parts)
    places = a >= FIRST
    pairs = {*zip(a[places].tolist(), b[places].tolist(), strict=True)}
    one_by_one = len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs})
    return (
        _without_moves(one, tables[0]) == _without_moves(other, tables[1])
        and one_by_one
        and np.array_equal(places, b >= FIRST)
        and np.array_equal(a[~places], b[~places])
    )


@pytest.mark.parametrize(
    "n",
    [
        Network("lstm", 8, 12),
        Network("gru", 5, 13, batch=3),
        Network("rnn", 3, 9, layers=2, bidirectional=True, batch=7),
        Network("lstm", 3, 3, batch=4),
        Network("gru", 4, 1, batch=4),
    ],
    ids=str,
)
def test_steps_repeat_as_if_all_were_there(tmp_path: Path, n: Network) -> None:
    """Stages, their shapes, and the tables of both kernels are those of a program with the launches of all steps."""
    program = program_of(tmp_path, n)
    plain = unroll_loops(program)
    kernels = emit(program).kernels
    shapes, expected = shapes_of(program), shapes_of(plain)
    assert (shapes.number, shapes.stored, shapes.fed) == (expected.number, expected.stored, expected.fed)
    words, plain_words = device_words(program)[0], device_words(plain)[0]
    for phase, unrolled_phase in zip(program.phases, plain.phases, strict=True):
        for chain, whole in zip(phase.chains, unrolled_phase.chains, strict=True):
            assert (chain.steps, whole.steps) == (n.steps, 1)
            steps = scheduled(program, phase, chain), scheduled(plain, unrolled_phase, whole)
            assert in_order(steps[0]) == in_order(steps[1])
            found = walk(program, kernels, phase, chain, words, shapes, 2, ROOM)
            other = walk(plain, kernels, unrolled_phase, whole, plain_words, expected, 2, ROOM)
            assert found is not None and other is not None and renamed(found, other)
            over, beside = (replace(x, spread=2) for x in (chain, whole))
            spread = spread_walk(program, kernels, phase, over, words, shapes, 4, ROOM)
            other = spread_walk(plain, kernels, unrolled_phase, beside, plain_words, expected, 4, ROOM)
            assert spread is not None and other is not None and renamed(spread, other)


def test_records_of_most_steps_are_those_of_others_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many are made, and stored, for 20 steps as for 90."""
    read, made = ReadChain.read, [0]

    def counted(self: ReadChain, stage: Stage) -> ReadStage:
        made[-1] += 1
        return read(self, stage)

    monkeypatch.setattr(ReadChain, "read", counted)
    sizes: dict[int, list[int]] = {20: [], 90: []}
    for steps in sizes:
        program = program_of(tmp_path, Network("gru", 8, steps))
        words, shapes, kernels = device_words(program)[0], shapes_of(program), emit(program).kernels
        phase = phase_of(program, "train")
        for chain in phase.chains:
            found = walk(program, kernels, phase, chain, words, shapes, 132, ROOM)
            assert found is not None and len(Table.of(found).stages) == len(in_order(scheduled(program, phase, chain)))
            sizes[steps].append(found.table.nbytes)
        made.append(0)
    assert 0 < made[0] == made[1] and sizes[20] == sizes[90]


def test_what_a_last_step_makes_for_nobody_is_in_no_chain(tmp_path: Path) -> None:
    """The gradients of the states before all steps: three products of a gru, whose launches would make them."""
    program = program_of(tmp_path, Network("gru", 3, 4))
    phase = phase_of(program, "train")
    forwards, backwards = (scheduled(program, phase, c).links for c in phase.chains)
    assert len(forwards) == 4 * len(forwards.each)
    missing = [backwards.each[n] for n in range(len(backwards.each)) if n not in backwards.last]
    assert [x.product is not None for x in missing] == [True] * 3
    assert len(backwards) == 4 * len(backwards.each) - 3


def test_samples_of_different_steps_do_not_meet(tmp_path: Path) -> None:
    """What a step reads of another one are the same samples, or none of those that it writes."""
    program = program_of(tmp_path, SMALL[0])
    phase = phase_of(program, "train")
    (chain, *_) = phase.chains
    (state,) = (a for a in program.arrays if a.name == "train/rnn_1.at.state")

    def changed(**changes: int) -> Merged:
        arrays = tuple(replace(a, **changes) if a is state else a for a in program.arrays)  # type: ignore[arg-type]
        return replace(program, arrays=arrays)

    def met(**changes: int) -> set[str]:
        return meetings(changed(**changes), links_of(phase.launches[chain.first : chain.last]), chain)

    rows = state.physical_size // 6
    assert not met() and not met(first=2 * state.first)  # it is read two steps later
    assert met(first=state.first + rows) == met(by_step=state.by_step + rows) == {"train/rnn_1.at.h.before"}
    assert not met(first=state.first * 9)  # it is read in no step
    assert stages_of(changed(by_step=2 * state.by_step), phase, chain) is None  # steps are not alike


def test_no_step_takes_the_place_of_another(tmp_path: Path) -> None:
    """What steps of a chain write lies apart; all other names stay."""
    program, plain = (program_of(tmp_path, SMALL[1], chains) for chains in (True, False))
    arrays = {a.name: a for a in program.arrays}
    assert {a.name for a in plain.arrays} < arrays.keys()
    kept = {a.name for a in program.arrays if a.name.endswith(".steps")} - {a.name for a in plain.arrays}
    assert kept and all(arrays[name].role is Role.WORK for name in kept)
    for phase in program.phases:
        for chain in phase.chains:
            places = set[tuple[str, int]]()
            links = scheduled(program, phase, chain).links
            for step in range(chain.steps):
                for a in (a for x in links.each for a in x.written()):
                    assert (a.within, a.first_at(step)) not in places
                    places.add((a.within, a.first_at(step)))
    assert keep_steps(plain) is plain  # no chain pays

"""spread_table: the table of a chain whose matrices are spread over blocks.

Assumes: legal chains (ir/level2/batch_independence.py); tables with device addresses.
Guarantees: all size-dependent data is in the table: the matrices, of which each block keeps its rows, and stages
(rnn_plan.py) with the rows of their links. Blocks with the same samples have a barrier after each stage, and before the
results of one that writes what its products multiply. The order of a sum follows from extents, samples and processors.
Does not: run a chain whose matrices do not fit: its launches then run one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

import backends.cuda.persistent.rnn as rnn
import backends.cuda.persistent.spread as spread
import compiler.ir.level2.program as l2
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.kernels.launch_work import Words
from backends.cuda.persistent.rnn_plan import Shapes
from backends.cuda.persistent.rnn_records import Records, table_of
from backends.cuda.persistent.rnn_stages import Factors, Held, ReadChain, ReadStage
from backends.cuda.persistent.rnn_table import Walk
from backends.kernel_ir.descriptor import Compiled
from compiler.strategies.spread_rnn import Arrangement, Division, Panel, Stage, fitting

_ARRANGED: Final = (
    *("side", "tiles", "across", "ways", "part", "chunk", "chunks"),
    *("line", "depth", "fold", "columns", "divided"),
)
"""What a stage has of its Arrangement."""


@dataclass(frozen=True)
class _Panel:
    """Products (by their numbers in the stage) that multiply the same values."""

    numbers: tuple[int, ...]
    factors: tuple[Factors, ...]

    @property
    def terms(self) -> int:
        return self.factors[0].terms

    @property
    def matrices(self) -> tuple[object, ...]:
        return tuple((f.matrix, f.by_out) for f in self.factors)


def _panels(x: ReadStage) -> list[_Panel]:
    found: dict[Held, list[int]] = {}
    for n, f in enumerate(x.factors):
        found.setdefault(f.values, []).append(n)
    return [_Panel(tuple(n), tuple(x.factors[k] for k in n)) for n in found.values()]


def _stage(x: ReadStage) -> Stage:
    return Stage(x.stage.outs, tuple(Panel(len(p.numbers), p.terms) for p in _panels(x)))


def _kind(x: ReadStage) -> tuple[int, frozenset[tuple[object, ...]]]:
    """Equal for stages of equal panels, in any order."""
    return x.stage.outs, frozenset(p.matrices for p in _panels(x))


class _Packer:
    """Fills in the table of one chain."""

    def __init__(self, real_bytes: int, division: Division) -> None:
        self.real_bytes, self.division = real_bytes, division
        self.unit = 16 // real_bytes
        self.matrices: dict[object, tuple[int, npt.NDArray[np.void]]] = {}
        self.kept = 0

    def _keep(self, x: ReadStage, panels: Sequence[_Panel], pitch: int, divided: int) -> int:
        """Where the lines of a panel, or of those that are `divided` among blocks, begin on chip."""
        bits = self.division.bits(x.stage.outs) + divided
        key = tuple(p.matrices for p in panels), bits, pitch
        if key not in self.matrices:
            factors = [(n, f) for n, p in enumerate(panels) for f in p.factors]
            rows = np.zeros(len(factors), spread.KEPT)
            at, size = self.kept, pitch << bits
            for row, (n, f) in zip(rows, factors, strict=True):
                by = (f.matrix[3], 1) if f.by_out else (1, f.matrix[3])
                row["from"], (row["by_out"], row["by_term"]) = f.matrix[0], by
                row["outs"], row["terms"], row["bits"] = f.outs, f.terms, bits
                row["panel"], row["divided"] = n, divided
                row["pitch"] = pitch
            rows["at"] = at if divided else at + size * np.arange(len(rows))
            self.kept += size if divided else size * len(rows)
            self.matrices[key] = at, rows
        return self.matrices[key][0]

    def _meets(self, x: ReadStage) -> bool:
        """Whether a stage writes what its products multiply."""
        size = self.division.samples * x.stage.outs * self.real_bytes
        ends = [(f.values.at, self._end(f.values)) for f in x.factors]
        return any(begin < at + size and at < end for at in x.results() for begin, end in ends)

    def _end(self, x: Held) -> int:
        return x.at + ((self.division.samples - 1) * x.by_sample + x.terms) * self.real_bytes

    def _whole(self, panels: Sequence[_Panel]) -> int:
        """The terms of all panels, where their values are read in units of 16 bytes, aligned in all steps, else 0."""
        terms = {p.terms for p in panels}
        values = [p.factors[0].values for p in panels]
        apart = any((x.at | x.by_step) % 16 or (x.by_sample | x.terms) % self.unit for x in values)
        return 0 if apart or len(terms) != 1 else terms.pop()

    def _near(self, x: ReadStage) -> npt.NDArray[np.void]:
        """What the links read at their points."""
        whole = x.stage.outs * self.real_bytes
        values = {f.values.at for f in x.factors}
        return np.array([(a, b) for a, b in x.reads(values).items() if b == whole and a not in values], rnn.READ)

    def record(self, x: ReadStage, a: Arrangement) -> npt.NDArray[np.uint8]:
        panels = _panels(x)
        head, made = np.zeros(1, spread.STAGE), np.zeros(len(panels), spread.PANEL)
        products = np.zeros(-(-len(x.factors) // 4) * 4, np.int32)
        first = 0
        for row, p in zip(made, panels, strict=True):
            values = p.factors[0].values
            pitch = a.pitch(-(-values.terms // self.unit)) * self.unit
            row["values"], row["by_sample"], row["terms"] = values.at, values.by_sample, values.terms
            row["at"], row["pitch"] = self._keep(x, panels if a.divided else [p], pitch, a.divided), pitch
            row["rows"], row["first"] = len(p.numbers) << self.division.bits(x.stage.outs) + a.divided, first
            if a.divided:
                row["number"] = p.numbers[0]
                continue
            products[first : first + len(p.numbers)] = p.numbers
            first += len(p.numbers)
        rows, near = x.packed(), self._near(x)
        head["shape"], head["outs"], head["bits"] = x.what, x.stage.outs, self.division.bits(x.stage.outs)
        head["panels"], head["products"] = len(panels), len(x.factors)
        head["meets"], head["rows"], head["reads"] = self._meets(x) or a.divided > 0, rows.nbytes, len(near)
        head["wide"], head["terms"] = min(a.chunk - 1, 31).bit_length(), self._whole(panels)
        for name in _ARRANGED:
            head[name] = getattr(a, name)
        return np.concatenate([y.view(np.uint8) for y in (head, rows, near, made, products)])


def _given(stage: Stage, a: Arrangement, division: Division) -> int:
    """Reals of the sums that the blocks of a group give to each other, for all of their points."""
    return stage.products * (division.each << division.bits(stage.outs)) * division.members if a.divided else 0


def spread_walk(
    program: l2.Merged,
    kernels: Compiled,
    phase: l2.Phase,
    chain: l2.Loop,
    tables: Sequence[Words],
    shapes: Shapes,
    processors: int,
    room: int,
) -> Walk | None:
    """A chain that is spread over blocks as one launch, from the tables with device addresses; None where it has no
    stages, or what a block needs does not fit into `room` bytes of shared memory."""
    schedule = shapes.of[phase.name, chain.first]
    division = Division.of(chain.spread, chain.samples, processors, chain.abreast)
    if schedule is None or division is None:
        return None
    read = ReadChain(program, kernels, schedule, tables, shapes)
    real_bytes = program.precision.bytes
    kinds: dict[object, Stage] = {}
    for x, _ in read.different():
        kinds.setdefault(_kind(x), _stage(x))
    stages = [*kinds.values()]

    def records(way: Callable[[ReadStage], Arrangement]) -> tuple[_Packer, Records]:
        packer = _Packer(real_bytes, division)
        made = table_of(read, lambda x, _: packer.record(x, way(x)), lambda _: len(packer.matrices), lambda _: None)
        return packer, made

    packer, made = records(lambda _: Arrangement())
    beside = 2 * made.turns[-1] + spread.SPARE * BLOCK
    places = 8 * division.each * max(len(s.panels) for s in stages)
    found = fitting(stages, division, packer.unit, (room - beside - places) // real_bytes, chain.passes > 0)
    if found is None:
        return None
    ways, area = found
    way = dict(zip(kinds, ways, strict=True))
    packer, made = records(lambda x: way[_kind(x)])
    end = packer.kept + area.end
    head = np.zeros(1, spread.SPREAD)
    kept = [rows for _, rows in packer.matrices.values()]
    head["samples"], head["members"] = chain.samples, division.members
    head["matrices"], head["stages"], head["record"] = sum(map(len, kept)), made.stages, made.size
    head["end"], head["many"], head["times"], head["line"] = made.turns
    head["sums"], head["values"] = packer.kept, packer.kept + area.values
    head["records"] = end * real_bytes
    shared = end * real_bytes + beside + 8 * division.each * max(x.side for x in ways)
    groups = division.blocks // division.members
    head["given"] = max(_given(s, x, division) for s, x in zip(stages, ways, strict=True))
    whole = np.concatenate([x.view(np.uint8).reshape(-1) for x in (head, *kept, made.lines)])
    counters = spread.COUNTERS * (1 + groups) + groups * int(head["given"][0]) * real_bytes // 4
    return Walk(division.blocks, division.each, whole, shared, spread.NAME, BLOCK, counters)

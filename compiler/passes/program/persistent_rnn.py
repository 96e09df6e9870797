"""persistent_rnn: all steps of a recurrent layer as one launch that keeps its weights on chip (a chain).

One by one, every step of a Scan is a few launches, each of which depends on the previous one and reads the weights
again. But samples are independent: a thread block can process a few of them through all steps and keep the matrices in
on-chip memory (Diamos et al. 2016, "Persistent RNNs: stashing recurrent weights on-chip").

Assumes: a merged program with row-major tensors, whose rows know the Scan that they are a step of (l2.Rows).
Guarantees: a chain is the launches of a Scan, where samples do not meet in them
(ir/level2/batch_independence.py); rows between chains that become adjacent are one launch again. A phase without chains
is unchanged. Only whether a chain pays, and whether its matrices are spread over blocks
(compiler/strategies/spread_rnn.py), depends on sizes, not what a chain is.
Does not: reorder launches; consider the memory of a device: a backend may run a chain's launches one by one, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

import compiler.ir.level2.program as l2
from compiler.ir.level2.batch_independence import Product, chain_violations, extent_of, padded, product_of
from compiler.ir.level2.dependence import joined, parts_of
from compiler.ir.level2.target import Target
from compiler.passes.program.decisions import Decision
from compiler.strategies import spread_rnn
from compiler.strategies.cost import cuda as cost
from compiler.strategies.forks import Fork, problem_of, taken
from compiler.strategies.pins import Pins

CHAIN, SPREAD, LAUNCHES = "chain", "spread", "launches"
"""The ways of a fork (compiler/strategies/forks.py)."""
LEAST: Final = 4
"""Launches of a chain, at least."""


@dataclass
class Chained:
    """The program with its chains; `unrolled`: the phases that have steps of Scans; `forks`: where a chain may also run
    launch by launch."""

    merged: l2.Merged
    decisions: list[Decision] = field(default_factory=list)
    unrolled: frozenset[str] = frozenset()
    forks: list[Fork] = field(default_factory=list)


def chains(merged: l2.Merged, device: Target, pins: Pins) -> Chained:
    found = Chained(merged)
    if merged.order is not l2.Order.BITWISE:
        phases = tuple(_chained(merged, phase, device, pins, found) for phase in merged.phases)
        found.unrolled = frozenset(p.name for p in merged.phases if any(_scans(merged, x) for x in p.launches))
        found.merged = replace(merged, phases=phases)
    return found


def _scans(merged: l2.Merged, x: l2.Launch) -> tuple[str, ...]:
    """The Scan of each row of a launch; none, if no row has one."""
    scans = merged.tables[x.template].scans[x.lo : x.hi]
    return scans if any(scans) else ()


def _chained(merged: l2.Merged, phase: l2.MergedPhase, device: Target, pins: Pins, made: Chained) -> l2.MergedPhase:
    rows = [
        (scan, number, replace(x, lo=row, hi=row + 1))
        for number, x in enumerate(phase.launches)
        for row, scan in enumerate(_scans(merged, x) or ("",) * (x.hi - x.lo), x.lo)
    ]
    parts = parts_of(merged.arrays)
    launches: list[l2.Launch] = []
    loose: list[l2.Launch] = []
    found: list[l2.Chain] = []

    def rejoined() -> list[l2.Launch]:
        return [*launches, *joined(merged.templates, merged.tables, loose, parts)]

    for scan, run in groupby(rows, key=lambda row: row[0]):
        step = list(run)
        links = [x for _, _, x in step]
        if not scan or (samples := _samples(merged, phase, links)) == 0:
            loose += links
            continue
        launches, loose = rejoined(), []
        sums = _sums(merged, links)
        over = spread_rnn.best(sums.stages, samples, merged.precision.bytes, device)
        fork = _ways(merged, f"{phase.name}/{scan}", links, len({n for _, n, _ in step}), samples, device, sums, over)
        way, why = taken(fork, pins)
        if len(fork.ways) > 1:
            made.forks.append(fork)
        members = over.members if over is not None and way == SPREAD else 1
        found.append(l2.Chain(len(launches), len(launches) + len(links), samples, way != LAUNCHES, members))
        made.decisions.append(Decision("chains", _subject(merged, phase, links), _verdict(way, len(links)), why))
        launches += links
    return l2.MergedPhase(phase.name, tuple(rejoined()), tuple(found)) if found else phase


def _products(merged: l2.Merged, links: Sequence[l2.Launch]) -> dict[int, Product | None]:
    """By template."""
    return {t: product_of(merged.templates[t]) for t in {x.template for x in links}}


def _samples(merged: l2.Merged, phase: l2.MergedPhase, links: Sequence[l2.Launch]) -> int:
    """The samples of a chain of these links; 0, if they are none."""
    products = _products(merged, links)
    first, product = next(((x, p) for x in links if (p := products[x.template]) is not None), (None, None))
    if first is None or product is None or len(links) < LEAST:
        return 0
    template = merged.templates[first.template]
    samples = extent_of(template, merged.tables[first.template], first.lo, product.sample)
    alone = l2.MergedPhase(phase.name, tuple(links), (l2.Chain(0, len(links), samples),))
    return 0 if any(chain_violations(merged, alone)) else samples


@dataclass(frozen=True)
class _Sums:
    """What the products of a chain add up: outputs and terms by matrix; terms of a sample; bytes of the matrices on
    chip; the stages with products, and how often each is run."""

    sides: dict[str, tuple[int, int]]
    terms: int
    stored: int
    stages: list[tuple[spread_rnn.Stage, int]]


def _sums(merged: l2.Merged, links: Sequence[l2.Launch]) -> _Sums:
    sides: dict[str, tuple[int, int]] = {}
    terms = 0
    products = _products(merged, links)
    stages = Counter[_Stage]()
    panels: dict[tuple[str, int], list[str]] = {}
    written = set[str]()

    def close() -> None:
        if panels:
            stages[tuple(sorted((terms, tuple(matrices)) for (_, terms), matrices in panels.items()))] += 1
        panels.clear()
        written.clear()

    for x in links:
        template, rows = merged.templates[x.template], merged.tables[x.template]
        if (product := products[x.template]) is not None:
            out, term = (extent_of(template, rows, x.lo, dim) for dim in (product.out, product.term))
            matrix, values = (rows.arrays[f][x.lo] for f in (product.matrix, product.values))
            sides[matrix] = out, term
            terms += out * term
            if values in written or not panels:  # a stage begins with products
                close()
            panels.setdefault((values, term), []).append(matrix)
        formals = (f for f in template.formals if isinstance(f, l2.ArrayFormal) and f.mode is not l2.Mode.READ)
        written |= {rows.arrays[f.name][x.lo] for f in formals}
    close()
    stored = 0
    for out, term in sides.values():
        rows_, columns = padded(out, term, merged.precision.bytes)
        stored += rows_ * columns * merged.precision.bytes
    return _Sums(sides, terms, stored, [(_stage(x, sides), many) for x, many in stages.items()])


_Stage = tuple[tuple[int, tuple[str, ...]], ...]
"""The panels of a stage: terms and matrices."""


def _stage(panels: _Stage, sides: Mapping[str, tuple[int, int]]) -> spread_rnn.Stage:
    outs = max(sides[m][0] for _, matrices in panels for m in matrices)
    return spread_rnn.Stage(outs, tuple(spread_rnn.Panel(len(matrices), terms) for terms, matrices in panels))


def _subject(merged: l2.Merged, phase: l2.MergedPhase, links: Sequence[l2.Launch]) -> str:
    """What a decision calls a chain."""
    path = merged.tables[links[0].template].paths
    begin = path[links[0].lo] if path else merged.templates[links[0].template].name
    return f"{phase.name}: {begin}"


def _verdict(way: str, links: int) -> str:
    if way == SPREAD:
        return f"one walk of {links} kernels, spread over blocks"
    return f"one walk of {links} kernels, sample by sample" if way == CHAIN else "launch by launch"


def _ways(
    merged: l2.Merged,
    scan: str,
    links: Sequence[l2.Launch],
    alone: int,
    samples: int,
    device: Target,
    sums: _Sums,
    over: spread_rnn.Spread | None,
) -> Fork:
    """The ways of a chain, the one of the rules first, where its links `alone` are so many launches. Matrices are
    spread over blocks (`over`) only where a block cannot have them, or where that takes longer than the launches."""
    waits, works, processors = cost.waits(device), cost.works(device), device.processors
    chained = len(links) * cost.LINK_US * waits + -(-samples // processors) * sums.terms / cost.LINK_TERMS * works
    launched = alone * cost.LAUNCH_US * waits + samples * sums.terms / (processors * cost.LAUNCH_TERMS) * works
    what = f"{len(sums.sides)} {'matrices' if len(sums.sides) > 1 else 'matrix'} of {-(-sums.stored // 1024)} KB"
    room, launches = f"the {device.shared_block >> 10} KB that a processor has at most", f"{launched:.0f} us"
    times = {LAUNCHES: launched}
    reasons = {LAUNCHES: f"about {launches}"}
    if sums.stored <= device.shared_block:
        times[CHAIN] = chained
        reasons[CHAIN] = f"{what} on chip, where that fits; about {chained:.0f} us, launch by launch {launches}"
        reasons[LAUNCHES] += f", as a chain {chained:.0f} us"
    elif over is None:
        reasons[LAUNCHES] = f"{what} do not fit into {room}"
    if over is not None and times.get(CHAIN, launched) >= launched:
        times[SPREAD] = over.microseconds
        spread = f"{what} over {over.members} blocks; about {over.microseconds:.0f} us"
        reasons[SPREAD] = f"{spread}, launch by launch {launches}"
        reasons[LAUNCHES] += f", spread over {over.members} blocks {over.microseconds:.0f} us"
    rule = next((w for w in (CHAIN, SPREAD) if times.get(w, launched) < launched), LAUNCHES)
    ways = (rule, *(w for w in times if w != rule))
    problem = problem_of(len(links), samples, sorted(sums.sides.values()), sums.terms)
    return Fork(f"{scan}.{CHAIN}", problem, ways, reasons[rule])

"""persistent_rnn: all steps of a recurrent layer as one launch that keeps its weights on chip (a chain).

One by one, every step of a Scan is a few launches, each of which depends on the previous one and reads the weights
again. But samples are independent: a thread block can process a few of them through all steps and keep the matrices in
on-chip memory (Diamos et al. 2016, "Persistent RNNs: stashing recurrent weights on-chip").

Assumes: a merged program with row-major tensors.
Guarantees: a loop in whose launches samples do not meet (ir/level2/batch_independence.py) knows it, whether a chain
pays, and whether its matrices are divided among the blocks of a cluster (compiler/strategies/clustered_rnn.py), or
spread over blocks (compiler/strategies/spread_rnn.py), on all processors or beside loops that it does not need: only
these depend on sizes, not what a chain is. Nothing else changes.
Does not: reorder launches; consider the memory of a device: a backend may run a chain's launches one by one, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import compiler.ir.level2.batch_independence as independence
import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import Touched, levels, of_unit, parts_of
from compiler.ir.level2.target import Capabilities, Target
from compiler.passes.program.decisions import Decision
from compiler.strategies import clustered_rnn, spread_rnn
from compiler.strategies.clustered_rnn import Clustered
from compiler.strategies.cost import cuda as cost
from compiler.strategies.forks import Fork, problem_of, taken
from compiler.strategies.pins import Pins

CHAIN, CLUSTER, SPREAD, LAUNCHES = "chain", "cluster", "spread", "launches"
"""The ways of a fork (compiler/strategies/forks.py)."""
LEAST: Final = 4
"""Launches of a chain, at least."""


@dataclass
class Chained:
    """The program for a device; `passes`: as l2.Loop has them, where chains are spread; `forks`: where a chain may also
    run launch by launch."""

    merged: l2.Merged
    device: Target
    passes: int
    decisions: list[Decision] = field(default_factory=list)
    forks: list[Fork] = field(default_factory=list)


def chains(merged: l2.Merged, capabilities: Capabilities, pins: Pins) -> Chained:
    """Matrix units make the sums of all chains that are spread, or of none: they share a kernel."""
    for passes in (spread_rnn.passes(capabilities, merged.precision), 0):
        found = Chained(merged, capabilities.device, passes)
        if merged.order is l2.Order.BITWISE:
            break
        phases = tuple(_phase(merged, p, pins, found) for p in merged.phases)
        found.merged = replace(merged, phases=phases)
        if len({x.passes for p in phases for x in p.loops if x.pays and x.spread > 1}) < 2:
            break
    return found


def _phase(merged: l2.Merged, phase: l2.Phase, pins: Pins, made: Chained) -> l2.Phase:
    tried = [_chained(merged, phase, loop, pins, made) for loop in phase.loops]
    loops = [x.loop for x in tried]
    if sum(loop.spread > 1 or loop.cluster > 1 for loop in loops) > 1:
        for group in _independent(merged, phase, loops):
            beside, each = tuple(loops[k].name for k in group), [tried[n] for n in group]
            for n, part in zip(group, _abreast(each, made), strict=False):
                if isinstance(part, Clustered):
                    loops[n] = replace(loops[n], cluster=part.cluster, beside=beside)
                    blocks = f"in clusters of {part.cluster} blocks"
                else:
                    loops[n] = replace(loops[n], spread=part.members, beside=beside, passes=part.passes)
                    blocks = f"each over {part.members} blocks"
                subject = _subject(merged, phase, phase.launches[loops[n].first : loops[n].last])
                verdict = f"{len(group)} walks at the same time, {blocks}"
                made.decisions.append(Decision("chains", subject, verdict, "they do not need each other"))
    return replace(phase, loops=tuple(loops))


def _independent(merged: l2.Merged, phase: l2.Phase, loops: Sequence[l2.Loop]) -> list[list[int]]:
    """The numbers of loops of several blocks, of the same way, samples and steps in each list, of which none needs
    another."""
    parts, units, done = parts_of(merged.arrays), list[Touched](), 0
    places: list[int] = []
    for loop in loops:
        units += [of_unit(merged, [x], None, parts) for x in phase.launches[done : loop.first]]
        places.append(len(units))
        units.append(of_unit(merged, phase.launches[loop.first : loop.last], loop, parts))
        done = loop.last
    level = levels(units)
    found: dict[tuple[int, int, int, bool], list[int]] = {}
    for n, loop in enumerate(loops):
        if loop.pays and (loop.spread > 1 or loop.cluster > 1):
            found.setdefault((level[places[n]], loop.samples, loop.steps, loop.spread > 1), []).append(n)
    return [x for x in found.values() if len(x) > 1]


def _abreast(tried: Sequence[_Tried], made: Chained) -> Sequence[spread_rnn.Spread | Clustered]:
    """How the matrices of each loop are divided where all run at the same time; none, where that does not fit, or one
    after the other takes no longer."""
    alone, together = list[float](), list[spread_rnn.Spread | Clustered]()
    for x in tried:
        part = x.beside(len(tried), made)
        if x.alone is None or part is None:
            return []
        alone.append(x.alone.microseconds)
        together.append(part)
    return together if max(x.microseconds for x in together) < sum(alone) else []


@dataclass(frozen=True)
class _Tried:
    """A loop as it runs, what its products add up, and how it runs best on all processors, in this way."""

    loop: l2.Loop
    sums: _Sums | None = None
    alone: spread_rnn.Spread | Clustered | None = None

    def beside(self, loops: int, made: Chained) -> spread_rnn.Spread | Clustered | None:
        """How it runs best on a part of the processors, in the same way."""
        if self.sums is None:
            return None
        if self.loop.spread == 1:
            blocks = self.sums.alone(made.device) + self.sums.clusters(made.device)
            return self.sums.best(blocks, self.loop.samples, made, loops)
        real_bytes = made.merged.precision.bytes
        return spread_rnn.best(self.sums.stages, self.loop.samples, real_bytes, made.device, loops, made.passes)


def _chained(merged: l2.Merged, phase: l2.Phase, loop: l2.Loop, pins: Pins, made: Chained) -> _Tried:
    body = phase.launches[loop.first : loop.last]
    links = independence.links_of(body)
    if len(links) * loop.steps < LEAST or (samples := _samples(merged, loop, links)) == 0:
        return _Tried(loop)
    sums = _sums(merged, links, loop.steps, samples)
    over = spread_rnn.best(sums.stages, samples, merged.precision.bytes, made.device, passes=made.passes)
    cluster = sums.best(sums.clusters(made.device), samples, made)
    fork = _ways(f"{phase.name}/{loop.name}", len(body) * loop.steps, samples, made, sums, over, cluster)
    way, why = taken(fork, pins)
    if len(fork.ways) > 1:
        made.forks.append(fork)
    chosen = over if over is not None and way == SPREAD else spread_rnn.Spread(1, 0.0)
    verdict = _verdict(way, len(links), loop.steps) + (", sums on matrix units" if chosen.passes else "")
    made.decisions.append(Decision("chains", _subject(merged, phase, links), verdict, why))
    runs = replace(loop, samples=samples, pays=way != LAUNCHES, spread=chosen.members, passes=chosen.passes)
    if cluster is None or way != CLUSTER:
        return _Tried(runs, sums, over)
    return _Tried(replace(runs, cluster=cluster.cluster), sums, cluster)


def _products(merged: l2.Merged, links: Sequence[l2.Launch]) -> dict[int, independence.Product | None]:
    """By template."""
    return {t: independence.product_of(merged.templates[t]) for t in {x.template for x in links}}


def _samples(merged: l2.Merged, loop: l2.Loop, links: Sequence[l2.Launch]) -> int:
    """The samples of a chain of these links; 0, if they are none."""
    if not all(independence.may_be_chained(merged.templates[t]) for t in {x.template for x in links}):
        return 0
    products = _products(merged, links)
    first, product = next(((x, p) for x in links if (p := products[x.template]) is not None), (None, None))
    if first is None or product is None:
        return 0
    template = merged.templates[first.template]
    samples = independence.extent_of(template, merged.tables[first.template], first.lo, product.sample)
    return 0 if independence.meetings(merged, links, replace(loop, samples=samples)) else samples


@dataclass(frozen=True)
class _Sums:
    """What the products of a chain add up: outputs and terms by matrix; terms of a sample; bytes of the matrices on
    chip; the stages with products, and how often each is run; how many links that are; the outputs of each of them,
    which may be divided among the blocks of a cluster, if all have as many (else 0)."""

    sides: dict[str, tuple[int, int]]
    terms: int
    stored: int
    stages: list[tuple[spread_rnn.Stage, int]]
    links: int
    outs: int

    def alone(self, device: Target) -> list[int]:
        """With all matrices in each block, if they fit."""
        return [1] if self.stored <= device.shared_block else []

    def clusters(self, device: Target) -> list[int]:
        """Sizes of clusters that may divide the outputs."""
        return clustered_rnn.sizes(self.outs, device) if self.outs else []

    def best(self, blocks: Sequence[int], samples: int, made: Chained, loops: int = 1) -> Clustered | None:
        """Of these numbers of blocks; `loops`: how many run at the same time."""
        real_bytes = made.merged.precision.bytes
        return clustered_rnn.best(self.stages, self.links, samples, real_bytes, made.device, blocks, loops)


def _sums(merged: l2.Merged, links: Sequence[l2.Launch], steps: int, samples: int) -> _Sums:
    """Of a chain with these links in each step."""
    sides: dict[str, tuple[int, int]] = {}
    outs = set[int]()
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
        product = products[x.template]
        outs.add(independence.outs_of(template, rows, x.lo, product, samples))
        if product is not None:
            out, term = (independence.extent_of(template, rows, x.lo, dim) for dim in (product.out, product.term))
            matrix, values = (rows.arrays[f][x.lo] for f in (product.matrix, product.values))
            sides[matrix] = out, term
            terms += out * term
            if values in written or not panels:  # a stage begins with products
                close()
            panels.setdefault((values, term), []).append(matrix)
        written |= {rows.arrays[f.name][x.lo] for f in template.arrays if f.mode is not l2.Mode.READ}
    close()
    stored = 0
    for out, term in sides.values():
        rows_, columns = independence.padded(out, term, merged.precision.bytes)
        stored += rows_ * columns * merged.precision.bytes
    each = [(_stage(x, sides), steps * many) for x, many in stages.items()]
    return _Sums(sides, steps * terms, stored, each, steps * len(links), outs.pop() if len(outs) == 1 else 0)


_Stage = tuple[tuple[int, tuple[str, ...]], ...]
"""The panels of a stage: terms and matrices."""


def _stage(panels: _Stage, sides: Mapping[str, tuple[int, int]]) -> spread_rnn.Stage:
    outs = max(sides[m][0] for _, matrices in panels for m in matrices)
    return spread_rnn.Stage(outs, tuple(spread_rnn.Panel(len(matrices), terms) for terms, matrices in panels))


def _subject(merged: l2.Merged, phase: l2.Phase, links: Sequence[l2.Launch]) -> str:
    """What a decision calls a chain."""
    path = merged.tables[links[0].template].paths
    begin = path[links[0].lo] if path else merged.templates[links[0].template].name
    return f"{phase.name}: {begin}"


def _verdict(way: str, links: int, steps: int) -> str:
    if way == LAUNCHES:
        return "launch by launch"
    return (
        f"one walk of {links} kernels in {steps} steps, "
        + {SPREAD: "spread over blocks", CLUSTER: "in clusters of blocks", CHAIN: "sample by sample"}[way]
    )


def _ways(
    scan: str,
    launches: int,
    samples: int,
    made: Chained,
    sums: _Sums,
    over: spread_rnn.Spread | None,
    cluster: Clustered | None,
) -> Fork:
    """The ways of a chain, the one of the rules first: the fastest by estimate, but clusters only where they are faster
    by more than what estimates are good for. `launches`: where its links are none of a chain. Matrices are spread over
    blocks (`over`) only where a block, or a cluster, cannot have them, or where that takes longer than the launches."""
    device = made.device
    waits, works, processors = cost.waits(device), cost.works(device), device.processors
    launched = launches * cost.LAUNCH_US * waits + samples * sums.terms / (processors * cost.LAUNCH_TERMS) * works
    what = f"{len(sums.sides)} {'matrices' if len(sums.sides) > 1 else 'matrix'} of {-(-sums.stored // 1024)} KB"
    beside = f"launch by launch {launched:.0f} us"
    times = {LAUNCHES: launched}
    reasons = {LAUNCHES: f"about {launched:.0f} us"}

    def may(way: str, time: float, how: str, short: str) -> None:
        times[way], reasons[way] = time, f"{what} {how}; about {time:.0f} us, {beside}"
        reasons[LAUNCHES] += f", {short} {time:.0f} us"

    whole = sums.best(sums.alone(device), samples, made)
    if whole is not None:
        may(CHAIN, whole.microseconds, "on chip, where that fits", "as a chain")
    if cluster is not None:
        how = f"in clusters of {cluster.cluster} blocks"
        may(CLUSTER, cluster.microseconds, how, how)
    if over is not None and min(times.get(CHAIN, launched), times.get(CLUSTER, launched)) >= launched:
        how = f"over {over.members} blocks"
        may(SPREAD, over.microseconds, how, f"spread {how}")
    if len(times) == 1:
        room = f"the {device.shared_block >> 10} KB that a processor has at most"
        reasons[LAUNCHES] = f"{what} do not fit into {room}"
    rule = min(times, key=lambda way: times[way] * (cost.CHAIN_CLUSTER_MARGIN if way == CLUSTER else 1.0))
    ways = (rule, *(w for w in times if w != rule))
    problem = problem_of(sums.links, samples, sorted(sums.sides.values()), sums.terms)
    return Fork(f"{scan}.{CHAIN}", problem, ways, reasons[rule])

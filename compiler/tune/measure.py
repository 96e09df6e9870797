"""measure: chooses strategies of contractions by measuring (autotuning).

Every contraction of a program is built alone, with every candidate (strategies/variants.py) as a phase of one small
program, and run on random data of the real shapes: in rounds over all candidates, so that background load affects all
of them, and the median of each. A candidate whose result differs from the generic nest's by more than rounding is
rejected. Results are cached on disk.

Choosing keeps texts few: contractions of one structure take the text that is fastest for all of them together, except
those that another text makes faster by more than TOLERANCE; within a text a candidate replaces the one of the rules
when it is faster by more than that. So a tuned model has an additional text only where it gains.

Assumes: a lowered model; a backend that can build and load on this machine.
Guarantees: only candidates of the model's order class are measured, so tuning keeps the guarantees on results.
Does not: write the lock file (compiler/tune/lock.py); measure epilogues, which cost the same for every candidate.
"""

from __future__ import annotations

import hashlib
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from backends.protocol import Artifact, Backend, Instance
from backends.stopwatch import machine, seconds
from compiler.core.cache import cache_folder, find_value, keep_value
from compiler.core.source import NOWHERE, Span
from compiler.core.version import VERSION
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType, Role
from compiler.passes.kernels.assign_layouts import array_of, real_lanes
from compiler.passes.kernels.lower_tensors import lower_tensors
from compiler.passes.layers.load_data import DataSet
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.merge import merge
from compiler.strategies.choice import Choice
from compiler.strategies.layout import row_major
from compiler.strategies.pins import Pin, path_of, problem_digest, steps_as_one, structure_digest
from compiler.strategies.variants import identity, text_of, ways

TOLERANCE: Final = 0.05
"""What a way has to be faster by, to be taken instead of one that needs no other text, or that the rules say."""
SLICE: Final = 2e-3
"""Seconds that one measurement should last."""
HOPELESS: Final = 4.0
"""A way that takes this many times the fastest is measured once."""

AnyReals = npt.NDArray[np.float64]
Timer = Callable[[Instance, str, int], float]
"""Seconds that `steps` steps of a phase take: (instance, phase, steps)."""


@dataclass(frozen=True)
class Site:
    """A contraction of a program: `path` is its path in the model (train/dense1.sum)."""

    path: str
    node: l1.Contract
    tensors: Mapping[str, l1.Tensor]
    lanes: int
    problem: str
    structure: str
    ways: tuple[Choice | None, ...]

    @property
    def span(self) -> Span:
        return self.node.span


@dataclass(frozen=True)
class Measured:
    """Microseconds by candidate, for one site; `wrong`: candidates whose result was not the nest's."""

    site: Site
    microseconds: Mapping[str, float]
    wrong: tuple[str, ...] = ()


class Watcher(Protocol):
    """Called for every problem: its number, the total, and its path."""

    def __call__(self, number: int, count: int, path: str, /) -> None: ...


def lanes_of(capabilities: Capabilities, precision: DType, order: l2.Order) -> int:
    """Lanes of a program's tensors, as lowering has them."""
    return 0 if order is l2.Order.BITWISE else real_lanes(capabilities.lanes, precision)


def sites(
    graphs: Iterable[l1.TensorGraph], precision: DType, order: l2.Order, capabilities: Capabilities
) -> tuple[Site, ...]:
    """The contractions for which there is a choice, in the order of the graphs; none with order bitwise."""
    if order is l2.Order.BITWISE:
        return ()
    lanes, real = lanes_of(capabilities, precision, order), precision.bytes
    found: list[Site] = []
    for graph in graphs:
        tensors = {t.name: t for n in graph.nodes if isinstance(t := getattr(n, "out", None), l1.Tensor)}
        for node in graph.nodes:
            if not isinstance(node, l1.Contract) or len(node.ins) != 2:
                continue
            possible = ways(node, tensors, lanes, real, capabilities.strategies, capabilities.device)
            if len(possible) > 1:
                used = {name: tensors[name] for name in node.ins}
                problem = problem_digest(node, used, lanes, real, order.value)
                structure = structure_digest(node, used, lanes, real, order.value)
                path = path_of(graph.phase, node.out.name)
                found.append(Site(path, node, used, lanes, problem, structure, possible))
    return tuple(found)


# ----------------------------------------------------------------------------------------- measuring


def alone(site: Site, precision: DType, order: l2.Order, capabilities: Capabilities) -> l2.Merged:
    """A program with a phase for each candidate: `way0`, `way1`, ... in the order of the site's ways."""
    builder = ProgramBuilder("contraction", precision, order)
    if capabilities.lanes and not site.lanes:
        capabilities = row_major(capabilities)
    for tensor in site.tensors.values():
        builder.array(array_of(tensor, tensor.name, precision, site.lanes, Role.STATE))
    inputs = tuple(l1.Variable(tensor, 0.0) for tensor in site.tensors.values())
    graphs = tuple(l1.TensorGraph(f"way{k}", (*inputs, site.node)) for k in range(len(site.ways)))
    pins = {
        path_of(f"way{k}", site.node.out.name): Pin(site.problem, identity(way), "measuring", 0.0)
        for k, way in enumerate(site.ways)
    }
    lower_tensors(builder, graphs, DataSet({}, {}, NOWHERE), capabilities, pins)
    return merge(builder.finish())


def measure(
    site: Site,
    precision: DType,
    order: l2.Order,
    backend: Backend,
    options: Mapping[str, str],
    rounds: int,
    timer: Timer,
) -> Measured:
    """Build, check and time every candidate. Raises BackendError."""
    program = alone(site, precision, order, backend.capabilities)
    with tempfile.TemporaryDirectory(prefix="netloom-tune-") as folder:
        artifact = backend.build(program, Path(folder) / "build", options)
        key = _key(site, artifact, backend)
        kept = _kept(key)
        if kept is not None:
            return Measured(site, *kept)
        instance = backend.load(artifact, program, 1)
        try:
            result = _measured(site, program, instance, precision, rounds, timer)
        finally:
            instance.close()
    _keep(key, result)
    return result


def _measured(
    site: Site, program: l2.Merged, instance: Instance, precision: DType, rounds: int, timer: Timer
) -> Measured:
    random = np.random.default_rng(1)
    for array in program.arrays:
        if array.name in site.tensors:
            values = random.standard_normal(array.physical_size).astype(precision.numpy)
            instance.write(array.name, _masked(values, site.tensors[array.name], site.lanes))
    phases = {f"way{k}": identity(way) for k, way in enumerate(site.ways)}
    wrong = _wrong(site, instance, phases, precision)
    steps: dict[str, int] = {}
    for phase in phases:
        once = max(timer(instance, phase, 1), 1e-7)
        steps[phase] = max(1, min(1000, round(SLICE / once)))
    times: dict[str, list[float]] = {phase: [] for phase in phases}
    for number in range(rounds):
        best = min((min(t) for t in times.values() if t), default=0.0)
        for phase, taken in times.items():
            if number and min(taken) > HOPELESS * best:
                continue
            taken.append(timer(instance, phase, steps[phase]) / steps[phase])
    micro = {phases[p]: round(1e6 * statistics.median(t), 3) for p, t in times.items()}
    return Measured(site, micro, wrong)


def _wrong(site: Site, instance: Instance, phases: Mapping[str, str], precision: DType) -> tuple[str, ...]:
    """The candidates whose result differs from the nest's by more than a reordering of sums explains."""
    outer = {d for a in site.node.out_map for d, _ in a.terms}
    terms = float(np.prod([float(e) for d, e in site.node.dims if d not in outer]))
    bound = float(np.finfo(precision.numpy).eps) * 8 * (5 + 3 * terms**0.5)
    results = {}
    for phase, way in phases.items():
        instance.run(phase, 1, 1)
        flat = instance.read(f"{phase}/{site.node.out.name}").astype(np.float64)
        results[way] = _existing(flat, site.node.out, site.lanes)
    nest = results["nest"]
    scale = max(float(np.abs(nest).max(initial=0.0)), 1.0)
    return tuple(w for w, r in results.items() if not float(np.abs(r - nest).max(initial=0.0)) <= bound * scale)


def _masked(values: npt.NDArray[np.generic], tensor: l1.Tensor, lanes: int) -> npt.NDArray[np.generic]:
    """Zeros in padding lanes, as in a program that sums over the batch."""
    if not (lanes and tensor.batched):
        return values
    by_block = values.reshape(-1, int(np.prod(tensor.shape[1:])), lanes).copy()
    rest = tensor.shape[0] % lanes
    if rest:
        by_block[-1, :, rest:] = 0
    return by_block.reshape(-1)


def _existing(flat: AnyReals, out: l1.Tensor, lanes: int) -> AnyReals:
    """The elements of valid samples, of an array with the batch in its lanes."""
    if not (lanes and out.batched):
        return flat
    each = int(np.prod(out.shape[1:]))
    by_sample = np.moveaxis(flat.reshape(-1, each, lanes), 2, 1).reshape(-1, each)
    return by_sample[: out.shape[0]]


# ------------------------------------------------------------------------------------------- on disk


def _key(site: Site, artifact: Artifact, backend: Backend) -> Path:
    """The cache key of a measurement: by problem, candidates, target, compiler, flags, machine and version."""
    parts = (
        site.problem,
        *(identity(w) for w in site.ways),
        backend.capabilities.name,
        artifact.compiler,
        *artifact.flags,
        artifact.key,
        machine(backend),
        VERSION,
    )
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return cache_folder() / "tuned" / digest[:2] / f"{digest}.json"


def _kept(path: Path) -> tuple[dict[str, float], tuple[str, ...]] | None:
    found = find_value(path)
    if found is None:
        return None
    return {str(k): float(v) for k, v in found["microseconds"].items()}, tuple(map(str, found["wrong"]))


def _keep(path: Path, result: Measured) -> None:
    keep_value(path, {"microseconds": dict(result.microseconds), "wrong": list(result.wrong)})


# ------------------------------------------------------------------------------------------ choosing


def choose_all(measured: Sequence[Measured]) -> dict[str, Choice | None]:
    """The candidate for each path."""
    chosen: dict[str, Choice | None] = {}
    groups: dict[str, list[Measured]] = {}
    for m in measured:
        groups.setdefault(m.site.structure, []).append(m)
    for group in groups.values():
        common = [set(_by_text(m)) for m in group]
        shared = set.intersection(*common)
        most = min(sorted(shared), key=lambda text: sum(_by_text(m)[text] for m in group), default=None)
        for m in group:
            chosen[m.site.path] = _choose(m, most)
    return chosen


def _right(m: Measured) -> list[tuple[Choice | None, float]]:
    return [(w, m.microseconds[identity(w)]) for w in m.site.ways if identity(w) not in m.wrong]


def _by_text(m: Measured) -> dict[str, float]:
    """The time of the fastest candidate of each text."""
    found: dict[str, float] = {}
    for way, time in _right(m):
        found[text_of(way)] = min(time, found.get(text_of(way), time))
    return found


def _choose(m: Measured, most: str | None) -> Choice | None:
    times = _by_text(m)
    text = min(times, key=lambda t: times[t])
    if most is not None and times[most] <= (1 + TOLERANCE) * times[text]:
        text = most
    here = [(way, time) for way, time in _right(m) if text_of(way) == text]
    best = min(here, key=lambda x: x[1])
    first = here[0]  # of the candidates of a text, the one of the rules comes first
    return first[0] if first[1] <= (1 + TOLERANCE) * best[1] else best[0]


# ---------------------------------------------------------------------------------------------- all


@dataclass(frozen=True)
class Tuned:
    """The result for one path (all steps of a sequence are one where they are one problem)."""

    path: str
    measured: Measured
    choice: Choice | None

    @property
    def microseconds(self) -> float:
        return self.measured.microseconds[identity(self.choice)]

    @property
    def before(self) -> float:
        """Microseconds of the candidate of the rules."""
        return self.measured.microseconds[identity(self.measured.site.ways[0])]


def tune(
    found: tuple[Site, ...],
    precision: DType,
    order: l2.Order,
    backend: Backend,
    options: Mapping[str, str],
    rounds: int = 7,
    timer: Timer = seconds,
    watch: Watcher | None = None,
) -> tuple[Tuned, ...]:
    """Measure every contraction (equal problems once) and choose. Raises BackendError."""
    problems = {s.problem: s for s in reversed(found)}
    results: dict[str, Measured] = {}
    for number, (problem, site) in enumerate(reversed(problems.items()), 1):
        if watch is not None:
            watch(number, len(problems), site.path)
        results[problem] = measure(site, precision, order, backend, options, rounds, timer)
    measured = [Measured(s, results[s.problem].microseconds, results[s.problem].wrong) for s in found]
    chosen = choose_all(measured)
    labels: dict[str, set[str]] = {}
    for m in measured:
        labels.setdefault(steps_as_one(m.site.path), set()).add(m.site.problem)
    tuned: dict[str, Tuned] = {}
    for m in measured:
        label = steps_as_one(m.site.path)
        path = label if len(labels[label]) == 1 else m.site.path
        tuned.setdefault(path, Tuned(path, m, chosen[m.site.path]))
    return tuple(tuned[path] for path in sorted(tuned))

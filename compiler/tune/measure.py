"""measure: times and errors of the candidates for contractions.

Contractions of one structure are built together, every candidate (strategies/variants.py) of each as a phase of one
program, since candidates of one text compile once; each is run on random data of its real shape: in rounds over all its
candidates, so that background load affects all of them, and the median of each. A candidate whose result is further off
than the class of its products permits is rejected (compiler/tune/accuracy.py), and one that a library refuses is none.
Results are cached on disk: a measurement that is known is found without building anything.

Assumes: a lowered model; a backend that can build and load on this machine.
Guarantees: only candidates of the model's order class are measured, so tuning keeps the guarantees on results.
Does not: choose (compiler/tune/choosing.py); measure epilogues (compiler/tune/whole.py measures steps).
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from backends.errors import NoAlgorithm
from backends.protocol import Artifact, Backend, Instance
from backends.stopwatch import machine, toolchain
from compiler.core.cache import cache_folder, find_value, keep_value
from compiler.core.source import NOWHERE
from compiler.core.version import VERSION
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType, Role
from compiler.layout.assign_layouts import array_of
from compiler.passes.kernels.lower_tensors import lower_tensors
from compiler.passes.layers.load_data import DataSet
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.long_sums import long_sums
from compiler.passes.program.merge import merge
from compiler.strategies import Choice, every
from compiler.strategies.exchange import basis
from compiler.strategies.layout import row_major
from compiler.strategies.pins import Pin, path_of
from compiler.strategies.strategy import ROUNDING
from compiler.strategies.variants import identity
from compiler.tune.accuracy import far_off, logical, most_error, sample
from compiler.tune.sites import Site

SLICE: Final = 2e-3
"""Seconds that one measurement should last."""
HOPELESS: Final = 4.0
"""A way that takes this many times the fastest is measured once."""
TOGETHER_BYTES: Final = 1 << 29
"""Of arrays of contractions that are built together."""
TOGETHER: Final = 96
"""Phases of a program that measures, at most."""

Timer = Callable[[Instance, str, int], float]
"""Seconds that `steps` steps of a phase take: (instance, phase, steps)."""


@dataclass(frozen=True)
class Measured:
    """Microseconds by candidate, for one site; `wrong`: candidates whose result was not that of the contraction;
    `errors`: relative errors by candidate (compiler/tune/accuracy.py)."""

    site: Site
    microseconds: Mapping[str, float]
    wrong: tuple[str, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)

    def of(self, site: Site) -> Measured:
        """The same of another site of the problem, without the candidates that a library refused."""
        left = tuple(w for w in site.ways if identity(w) in self.microseconds)
        return replace(self, site=replace(site, ways=left))


@dataclass(frozen=True)
class Bench:
    """Where and how candidates are measured."""

    precision: DType
    order: l2.Order
    backend: Backend
    options: Mapping[str, str]
    rounds: int
    timer: Timer
    capabilities: Capabilities
    """What the model permits of the target."""


def phase_of(number: int, way: int) -> str:
    """The phase of a candidate of a contraction, by their numbers: the text of a phase depends on no path."""
    return f"site{number}way{way}"


def alone(sites: Sequence[Site], precision: DType, order: l2.Order, capabilities: Capabilities) -> l2.Merged:
    """A program with a phase for each candidate of each contraction, in order; all are of one structure."""
    builder = ProgramBuilder("contraction", precision, order)
    graphs: list[l1.TensorGraph] = []
    pins: dict[str, Pin] = {}
    if capabilities.lanes and not sites[0].lanes:
        capabilities = row_major(capabilities)
    for number, site in enumerate(sites):
        renamed = {name: replace(t, name=f"{number}.{name}") for name, t in site.tensors.items()}
        for tensor in renamed.values():
            builder.array(array_of(tensor, tensor.name, precision, site.lanes, Role.STATE))
        inputs = tuple(l1.Variable(tensor, 0.0) for tensor in renamed.values())
        node = replace(site.node, ins=tuple(renamed[name].name for name in site.node.ins))
        for k, way in enumerate(site.ways):
            phase = phase_of(number, k)
            graphs.append(l1.TensorGraph(phase, (*inputs, node)))
            pins[path_of(phase, node.out)] = Pin(site.problem, identity(way), "measuring", 0.0)
    lower_tensors(builder, tuple(graphs), DataSet({}, {}, NOWHERE), capabilities, pins)
    return merge(long_sums(builder.finish(), capabilities))


@dataclass(frozen=True)
class Known:
    """What is known of contractions that are to be built together, and the program of the others, compiled."""

    sites: Sequence[Site]
    keys: Sequence[Path]
    found: Sequence[Measured | None]
    program: l2.Merged | None
    artifact: Artifact | None


def compiled(sites: Sequence[Site], bench: Bench) -> Known:
    """Look up what is known from before, and compile the rest. Raises BackendError."""
    keys = [_key(site, bench) for site in sites]
    found = [_kept(site, key) for site, key in zip(sites, keys, strict=True)]
    new = [site for site, x in zip(sites, found, strict=True) if x is None]
    if not new:
        return Known(sites, keys, found, None, None)
    program = alone(new, bench.precision, bench.order, bench.capabilities)
    return Known(sites, keys, found, program, bench.backend.compile(program, bench.options))


def measure(sites: Sequence[Site], bench: Bench, known: Known | None = None) -> list[Measured]:
    """Check and time every candidate of contractions that are to be built together; what is known from before comes
    from the cache. `known`: what `compiled` has given for them already. Raises BackendError."""
    return list(_timed(compiled(sites, bench) if known is None else known, bench))


def _timed(known: Known, bench: Bench) -> Iterator[Measured]:
    keys = known.keys  # of all candidates
    known, instance = _loaded(known, bench)
    try:
        arrays = {a.name: a for a in known.program.arrays} if known.program is not None else {}
        number = 0
        for site, key, found in zip(known.sites, keys, known.found, strict=True):
            if found is None:
                assert instance is not None
                found = _measured(site, number, arrays, instance, bench)
                _keep(key, found)
                number += 1
            yield found
    finally:
        if instance is not None:
            instance.close()


def _loaded(known: Known, bench: Bench) -> tuple[Known, Instance | None]:
    """What is to be measured, loaded: without the candidates for which a library has no algorithm on this device.
    Raises BackendError; NoAlgorithm where what a library refuses is none of them."""
    while known.program is not None and known.artifact is not None:
        try:
            return known, bench.backend.load(known.artifact, known.program, 1)
        except NoAlgorithm as e:
            left = list(_without(known, e.phase))
            if [x.ways for x in left] == [x.ways for x in known.sites]:
                raise
            known = compiled(left, bench)
    return known, None


def _without(known: Known, phase: str) -> Iterator[Site]:
    """The contractions, one of them without the strategy of the candidate that a phase measures: a library that has no
    algorithm has no second one."""
    number = 0
    for site, found in zip(known.sites, known.found, strict=True):
        if found is not None:
            yield site
            continue
        refused = {w.strategy for k, w in enumerate(site.ways) if w is not None and phase_of(number, k) == phase}
        yield replace(site, ways=tuple(w for w in site.ways if w is None or w.strategy not in refused))
        number += 1


def _measured(site: Site, number: int, arrays: Mapping[str, l2.Array], instance: Instance, bench: Bench) -> Measured:
    random = np.random.default_rng(1)
    operands = {}
    for name, tensor in site.tensors.items():
        values = random.standard_normal(arrays[f"{number}.{name}"].physical_size).astype(bench.precision.numpy)
        values = _masked(values, tensor, site.lanes)
        instance.write(f"{number}.{name}", values)
        if tensor.dtype == "bf16":
            values = instance.read(f"{number}.{name}")
        operands[name] = logical(values, tensor, site.lanes)
    phases = {phase_of(number, k): identity(way) for k, way in enumerate(site.ways)}
    wrong, errors = _judged(site, number, instance, operands, bench)
    steps: dict[str, int] = {}
    for phase in phases:
        once = max(bench.timer(instance, phase, 1), 1e-7)
        steps[phase] = max(1, min(1000, round(SLICE / once)))
    times: dict[str, list[float]] = {phase: [] for phase in phases}
    for round_ in range(bench.rounds):
        best = min((min(t) for t in times.values() if t), default=0.0)
        for phase, taken in times.items():
            if round_ and min(taken) > HOPELESS * best:
                continue
            taken.append(bench.timer(instance, phase, steps[phase]) / steps[phase])
    micro = {phases[p]: round(1e6 * statistics.median(t), 3) for p, t in times.items()}
    return Measured(site, micro, wrong, errors)


def _judged(
    site: Site, number: int, instance: Instance, operands: Mapping[str, npt.NDArray[np.float64]], bench: Bench
) -> tuple[tuple[str, ...], dict[str, float]]:
    """The candidates whose result is further off than it may be, and the errors of all; the nest is the definition."""
    expected = sample(site, operands)
    epsilon = float(np.finfo(bench.precision.numpy).eps)
    rounding = {s.name: s.rounding for s in every()}
    results = {}
    for k, way in enumerate(site.ways):
        phase = phase_of(number, k)
        instance.run(phase, 1, 1)
        results[way] = logical(instance.read(f"{phase}/{site.node.out.name}"), site.node.out, site.lanes)
    wrong, errors = [], {}
    for way, result in results.items():
        loose = rounding.get(basis(way), 0.0) if way is not None else 0.0
        loose += ROUNDING["bf16"] / 2 if site.node.out.dtype == "bf16" else 0.0
        error = expected.error(result)
        errors[identity(way)] = float(f"{error:.1e}") if np.isfinite(error) else 1e30
        exact = error <= most_error(site, epsilon, loose)
        if way is not None and not (exact and not far_off(result, results[None], site, epsilon, loose)):
            wrong.append(identity(way))
    return tuple(wrong), errors


def _masked(values: npt.NDArray[np.generic], tensor: l1.Tensor, lanes: int) -> npt.NDArray[np.generic]:
    """Zeros in padding lanes, as in a program that sums over the batch."""
    if not (lanes and tensor.batched):
        return values
    by_block = values.reshape(-1, int(np.prod(tensor.shape[1:])), lanes).copy()
    rest = tensor.shape[0] % lanes
    if rest:
        by_block[-1, :, rest:] = 0
    return by_block.reshape(-1)


def together(sites: Iterable[Site], real: int) -> Iterator[list[Site]]:
    """The contractions in lists that are built together: of one structure, in their order, as many as fit."""
    groups: dict[str, list[Site]] = {}
    for site in sites:
        groups.setdefault(site.structure, []).append(site)
    for group in groups.values():
        part: list[Site] = []
        size = phases = 0
        for site in group:
            results = (len(site.ways) - 1) * prod(site.node.out.shape)
            own = site.bytes(real) + real * results + sum(_planned(w, real) for w in site.ways)
            if part and (size + own > TOGETHER_BYTES or phases + len(site.ways) > TOGETHER):
                yield part
                part, size, phases = [], 0, 0
            part.append(site)
            size, phases = size + own, phases + len(site.ways)
        if part:
            yield part


def _planned(way: Choice | None, real: int) -> int:
    """Bytes of arrays of its own that a candidate has."""
    return 0 if way is None else way.scratch_bytes if way.exchange is not None else real * way.workspace


# ------------------------------------------------------------------------------------------- on disk


@cache
def sources(target: str) -> str:
    """A digest of what makes the text of a contraction for a target."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    compiler = ("compiler/strategies", "compiler/tune", "compiler/passes/kernels")
    for place in (*compiler, "backends/c_family", "backends/device", f"backends/{target}"):
        for path in sorted((root / place).rglob("*")):
            if path.suffix in (".py", ".j2", ".h") and path.is_file():
                digest.update(path.read_bytes())
    for strategy in every():
        digest.update(strategy.template.encode())
    return digest.hexdigest()


def _key(site: Site, bench: Bench) -> Path:
    """The cache key of the measurement of a contraction: its problem and candidates."""
    return kept_at(bench.backend, bench.options, (site.problem, bench.precision.value, *map(identity, site.ways)))


def kept_at(backend: Backend, options: Mapping[str, str], what: Iterable[str]) -> Path:
    """Where a measurement is cached: by what it is of, target, compiler, flags, machine and version."""
    target = backend.capabilities.name
    parts = (*what, target, toolchain(backend, options), machine(backend), sources(target), VERSION)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return cache_folder() / "tuned" / digest[:2] / f"{digest}.json"


def _kept(site: Site, path: Path) -> Measured | None:
    found = find_value(path)
    if found is None:
        return None
    times, errors = ({str(k): float(v) for k, v in found[part].items()} for part in ("microseconds", "errors"))
    return Measured(site, times, tuple(map(str, found["wrong"])), errors).of(site)


def _keep(path: Path, result: Measured) -> None:
    value = {"microseconds": dict(result.microseconds), "wrong": list(result.wrong), "errors": dict(result.errors)}
    keep_value(path, value)

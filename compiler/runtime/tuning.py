"""From a model file to its lock file: prepare, measure, write; and whether the file is as it would be.

Assumes: compiler/tune.
Guarantees: a model without a choice of strategies is refused with the reason. What is not measured, because of `only`
or when the budget is spent, keeps its entries.
Does not: print.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import Backend, Instance
from backends.registry import backend as backend_of
from backends.stopwatch import limits, made_with, seconds
from compiler.core.cache import find_value, keep_value
from compiler.core.diagnostics import Diagnostic, RunError, Severity
from compiler.core.names import listed
from compiler.core.source import Span
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType
from compiler.passes.pipeline.lower import Lowered, capabilities_of, lower, lower_predict
from compiler.runtime.common.locks import Locked, locked, predicted, sites_of
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.inference.predict import BATCH, batch_of
from compiler.runtime.prepare import load_checked, prepare_loaded, refuse_options
from compiler.strategies.forks import Fork, taken
from compiler.strategies.permissions import permitted
from compiler.strategies.pins import Pin, Pins
from compiler.strategies.variants import identity
from compiler.tune.choosing import Tuned, by_path, choose_all, factors
from compiler.tune.forks import Settled, Ways, settle
from compiler.tune.lock import NAMED, compared, lock_path, section_name, stale, write_lock
from compiler.tune.measure import Bench, Measured, Timer, compiled, kept_at, measure, together
from compiler.tune.only import selected, selected_forks
from compiler.tune.report import fork_rows, one_way, rows, ways
from compiler.tune.result import Step, TuneResult
from compiler.tune.sites import Site, sites
from compiler.tune.whole import in_turn, known, settled
from compiler.tune.wishes import EVERYTHING, Watch, Wishes

AHEAD: Final = 4
"""Programs that are compiled at a time, each of several parts."""
Clock = Callable[[], float]


@dataclass(frozen=True)
class _Part:
    """A program of the model: how it is made with pins, how it `is` made, and its contractions. Paths are those of the
    lock file, where `phase` is the one that is measured whole."""

    phase: str
    made: Callable[[Pins], Lowered]
    lowered: Lowered
    contractions: Callable[[Lowered], tuple[Site, ...]]
    ways: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        return tuple(replace(s, path=self.path(s.path)) for s in self.contractions(self.lowered))

    @property
    def forks(self) -> tuple[Fork, ...]:
        return tuple(replace(f, path=self.path(f.path)) for f in self.lowered.forks)

    @property
    def program(self) -> str:
        """The phase in the program."""
        return self.phase.partition("@")[0]

    def path(self, path: str) -> str:
        """In the lock file, of a path in the program."""
        return path.replace(f"{self.program}/", f"{self.phase}/", 1) if "@" in self.phase else path

    def own(self, pins: Pins) -> dict[str, Pin]:
        """Pins by their paths in the program, of those by their paths in the lock file."""
        return {p.replace(f"{self.phase}/", f"{self.program}/", 1): pin for p, pin in pins.items()}

    def with_pins(self, pins: Pins) -> Lowered:
        """The program with pins by their paths in the lock file."""
        return self.made(self.own(pins))

    def in_ways(self, ways: Mapping[str, str]) -> _Part:
        """The program with its forks in these ways, of which those of the rules need not be said."""
        if all(ways.get(f.path, f.ways[0]) == f.ways[0] for f in self.forks):
            return self
        own = self.own(_pins(self.forks, ways))
        return replace(self, lowered=self.made(own), made=lambda pins: self.made({**own, **pins}), ways=dict(ways))


@dataclass(frozen=True)
class _Model:
    """A model that is to be tuned: its programs, and where it runs. `capabilities`: what it permits."""

    name: str
    span: Span
    backend: Backend
    capabilities: Capabilities
    lock: Locked
    order: l2.Order
    precision: DType
    parts: tuple[_Part, ...]
    warnings: tuple[Diagnostic, ...]

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(s for part in self.parts for s in part.sites)

    @property
    def forks(self) -> tuple[Fork, ...]:
        return tuple(f for part in self.parts for f in part.forks)

    @property
    def single(self) -> dict[str, int]:
        """How many nodes of each kind have one way to be computed."""
        return one_way((g for part in self.parts for g in part.lowered.tensors), {s.node.out.name for s in self.sites})

    def in_locked_ways(self) -> _Model:
        """Its forks as the lock file says."""
        pins = self.lock.section.pins if self.lock.section.own else {}
        ways = {f.path: taken(f, pins)[0] for f in self.forks}
        return replace(self, parts=tuple(part.in_ways(ways) for part in self.parts))


def tune_model(
    path: Path,
    options: Options,
    rounds: int = 7,
    watch: Watch | None = None,
    timer: Timer = seconds,
    wishes: Wishes | None = None,
    clock: Clock = time.monotonic,
) -> TuneResult:
    """Measure every contraction of a model and write its lock file. Raises ModelError, BackendError, RunError."""
    wishes = wishes or Wishes(rounds)
    end = None if wishes.budget is None else clock() + wishes.budget
    goes_on = None if end is None else lambda: clock() < end
    model = _opened(path, options, wishes)
    section, workspace = model.lock.section, model.capabilities.device.workspace
    before = {name: pin.way for name, pin in section.pins.items()} if section.own else {}
    selected(wishes.only, model.sites, workspace, model.forks)
    model, forked = _forked(model, options, wishes, timer, before, goes_on)
    found = selected(wishes.only, model.sites, workspace, model.forks)
    if not found and not forked:
        raise RunError("E0912", "the model has no contraction that can be computed in several ways")
    chosen = options.backend_options()
    bench = Bench(model.precision, model.order, model.backend, chosen, wishes.rounds, timer, model.capabilities)
    results = _measured(found, bench, watch, goes_on)
    measured = [results[s.problem].of(s) for s in found if s.problem in results]
    tuned = by_path(measured, choose_all(measured, before))
    steps: list[Step] = []
    if wishes.whole:
        tuned = tuple(known(t, section.pins[t.path].instead) if t.path in before else t for t in tuned)
        for part in model.parts:
            tuned, step = settled(part.phase, tuned, partial(_race, part, model, options, timer))
            steps += [step] if step is not None else []
    file = lock_path(path)
    left = tuple(dict.fromkeys(s.path for s in found if s.problem not in results))
    entries: list[Tuned | Settled] = [*tuned, *forked]
    others = _others(model, {e.path for e in entries}, bool(left) or wishes.only != EVERYTHING) if section.own else ()
    write_lock(file, model.name, model.backend, made_with(model.backend), entries, factors(measured), others)
    device = model.capabilities.device
    every = (*rows(tuned, limits(model.backend), model.precision.bytes), *fork_rows(forked))
    return TuneResult(
        file, ways(tuned), ways(forked), every, model.warnings, left, tuple(steps), model.single, device.name
    )


def _forked(
    model: _Model,
    options: Options,
    wishes: Wishes,
    timer: Timer,
    before: Mapping[str, str],
    goes_on: Callable[[], bool] | None,
) -> tuple[_Model, tuple[Settled, ...]]:
    """The model with its forks in the fastest ways, and those that were measured; others go as the lock file says."""
    if not wishes.whole:
        return model.in_locked_ways(), ()
    parts, found = [], list[Settled]()
    for part, before_it in zip(model.parts, model.in_locked_ways().parts, strict=True):
        meant = selected_forks(wishes.only, part.forks)

        def race(phase: str, first: Ways, second: Ways, part: _Part = part) -> tuple[float, float]:
            one, other = (_pins(part.forks, ways) for ways in (first, second))
            return _timed(part, model, options, timer, phase.partition("@")[0], one, other)

        new = settle(meant, before, race, goes_on or (lambda: True))
        parts.append(part.in_ways({**before_it.ways} | {x.path: x.way for x in new}))
        found += new
    return replace(model, parts=tuple(parts)), tuple(found)


def _pins(forks: Iterable[Fork], ways: Mapping[str, str]) -> dict[str, Pin]:
    return {f.path: Pin(f.problem, ways[f.path], "measuring", 0.0) for f in forks if f.path in ways}


def _others(model: _Model, measured: Set[str], some: bool) -> tuple[str, ...]:
    """The entries that stay beside those that were measured: of predictions for other batches, and, where only `some`
    contractions were measured, those of the others that the model has."""
    own = tuple(f"{part.phase}/" for part in model.parts)
    has = {s.path for s in (model.sites if some else ())} | {f.path for f in model.forks}
    pins = (n for n in model.lock.section.pins if n not in measured)
    return tuple(n for n in pins if n in has or (n.startswith("predict@") and not n.startswith(own)))


def check_lock(path: Path, options: Options, wishes: Wishes) -> tuple[Diagnostic, ...]:
    """What `tune` would do to the lock file of a model: one warning (W0004) for each kind of entry that is not valid,
    missing, or measured by another compiler. Raises ModelError, BackendError, RunError."""
    model = _opened(path, options, wishes).in_locked_ways()
    section, source = model.lock.section, lock_path(path).name
    found = selected(wishes.only, model.sites, model.capabilities.device.workspace, model.forks)
    device = section_name(model.backend.capabilities.name, model.backend.capabilities.device)
    if not section.own or not section.pins:
        return (_warning(f"`{source}` has no section for `{device}`", model.span),)
    own = tuple(f"{part.phase}/" for part in model.parts)
    pins = {p: pin for p, pin in section.pins.items() if p.startswith(own) or not p.startswith("predict@")}
    problems = list(stale(pins, [*model.sites, *model.forks], source, model.span))
    if missing := compared(pins, [*found, *selected_forks(wishes.only, model.forks)]).missing:
        problems.append(_warning(f"`{source}` has nothing for {listed(missing, NAMED)}", model.span))
    if section.made_with != (here := made_with(model.backend)):
        message = f"the section `{device}` of `{source}` was measured with {section.made_with}; here is {here}"
        problems.append(_warning(message, model.span))
    return tuple(problems)


def _warning(message: str, span: Span) -> Diagnostic:
    return Diagnostic("W0004", message, span, "measure again with `netloom tune`", severity=Severity.WARNING)


# ----------------------------------------------------------------------------------------- the programs


def _opened(path: Path, options: Options, wishes: Wishes) -> _Model:
    refuse_options(options)
    if wishes.batch is not None and wishes.batch < 1:
        raise RunError("E0912", "--batch is at least 1")
    model, warnings = load_checked(path, options, Times())
    backend = backend_of(options.target, options.device or 0, options.verify, options.arch)
    if not backend.capabilities.strategies:
        raise RunError("E0912", f"the target `{options.target}` has one way to compute a contraction")
    if model.numerics.order == l2.Order.BITWISE.value:
        raise RunError("E0912", "with order bitwise every sum has its declared order: there is nothing to choose")
    if model.network is None:
        raise RunError("E0912", "the model has no contraction that can be computed in several ways")
    lock = locked(lock_path(path), options, backend)
    plain = _uncorrected(lock.capabilities)
    parts = []
    if model.train is not None:
        prepared = prepare_loaded(path, replace(options, lock=False), Times(), model, warnings)
        warnings = prepared.warnings
        made = partial(_lowered, model, plain)
        parts.append(_Part("train", made, prepared.lowered, lambda lowered: sites_of(lowered, plain)))
    if model.train is None or wishes.batch is not None:
        parts.append(_prediction(model, plain, batch_of(model, (), wishes.batch, BATCH)))
    precision = DType.F64 if model.numerics.precision == "float64" else DType.F32
    order = l2.Order(model.numerics.order)
    may = permitted(plain, model.numerics)
    return _Model(model.name, model.network.span, backend, may, lock, order, precision, tuple(parts), warnings)


def _uncorrected(capabilities: Capabilities) -> Capabilities:
    """The target without what was measured before: ties go to the rules as they are without a lock file."""
    return replace(capabilities, device=replace(capabilities.device, estimates=()))


def _lowered(model: l0.Model, capabilities: Capabilities, pins: Pins) -> Lowered:
    return lower(model, capabilities, pins=pins)


def _prediction(model: l0.Model, capabilities: Capabilities, batch: int) -> _Part:
    own = capabilities_of(model, capabilities, batch)

    def made(pins: Pins) -> Lowered:
        return lower_predict(model, capabilities, batch, pins=pins).lowered

    def found(lowered: Lowered) -> tuple[Site, ...]:
        return sites(lowered.tensors, lowered.program.precision, lowered.program.order, own)

    return _Part(predicted("", batch).rstrip("/"), made, made({}), found)


# -------------------------------------------------------------------------------------------- measuring


def _measured(
    found: Sequence[Site], bench: Bench, watch: Watch | None, goes_on: Callable[[], bool] | None
) -> dict[str, Measured]:
    """Every problem once, by its digest: the largest first where there may not be time for all."""
    problems = {s.problem: s for s in reversed(found)}
    order = list(reversed(problems.values()))
    groups = list(together(order, bench.precision.bytes))
    if goes_on is not None:
        groups.sort(key=lambda group: -sum(s.operations for s in group))
    results: dict[str, Measured] = {}
    with ThreadPoolExecutor(AHEAD) as threads:
        ahead = [threads.submit(compiled, group, bench) for group in groups] if goes_on is None else []
        wait(ahead)  # nothing else runs while candidates are timed
    for place, group in enumerate(groups):
        if goes_on is not None and not goes_on():
            break
        for number, site in enumerate(group, len(results) + 1):
            if watch is not None:
                watch(number, len(problems), site.path)
        for result in measure(group, bench, ahead[place].result() if ahead else None):
            results[result.site.problem] = result
    return results


def _race(part: _Part, model: _Model, options: Options, timer: Timer, tuned: Sequence[Tuned]) -> tuple[float, float]:
    """Seconds of a step with the rules, and with the choices."""
    pins = {t.path: Pin(t.measured.site.problem, identity(t.choice), "measuring", 0.0) for t in tuned}
    return _timed(part, model, options, timer, part.program, {}, pins)


def _timed(
    part: _Part, model: _Model, options: Options, timer: Timer, phase: str, first: Pins, second: Pins
) -> tuple[float, float]:
    """Seconds of a step of a phase with some pins, and with others, measured in turn, or known from before."""
    chosen = options.backend_options()
    graphs = hashlib.sha256(repr(part.lowered.tensors).encode()).hexdigest()
    ways = (f"{p}={pin.way}" for pins in (first, second) for p, pin in (("", Pin("", "", "", 0.0)), *pins.items()))
    key = kept_at(model.backend, chosen, (phase, graphs, *ways))
    if (kept := find_value(key)) is not None:
        return float(kept["rules"]), float(kept["chosen"])
    instances: list[Instance] = []
    try:
        for program in (part.with_pins(pins).merged for pins in (first, second)):
            artifact = model.backend.compile(program, chosen)
            instances.append(model.backend.load(artifact, program, 1))
        one, other = (partial(timer, i, phase, 1) for i in instances)
        one(), other()
        rules, own = in_turn(one, other)
    finally:
        for instance in instances:
            instance.close()
    keep_value(key, {"rules": rules, "chosen": own})
    return rules, own

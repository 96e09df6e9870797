"""choosing: a candidate for every contraction, from their times.

Choosing keeps texts few: contractions of one structure take the text that is fastest for all of them together, except
those that another text makes faster by more than TOLERANCE; within a text a candidate replaces the one of the rules
when it is faster by more than that. So a tuned model has an additional text only where it gains.

Assumes: compiler/tune/measure.py.
Guarantees: ties go to the rules; what was chosen before (`before`) stays where it is as fast as the fastest within
NOISE, so that measuring again changes nothing by chance.
Does not: measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.strategies.choice import Choice
from compiler.strategies.variants import identity, text_of
from compiler.tune.measure import Measured
from compiler.tune.sites import Site

TOLERANCE: Final = 0.05
"""What a way has to be faster by, to be taken instead of one that needs no other text, or that the rules say."""
NOISE: Final = 0.1
"""And instead of the one that was chosen before."""
LEAST_PROBLEMS: Final = 3
"""Problems from which on a strategy's estimate is corrected."""


@dataclass(frozen=True)
class Tuned:
    """The result for one path."""

    path: str
    measured: Measured
    choice: Choice | None
    instead: str = ""
    """What is faster alone, but not in a whole step (compiler/tune/whole.py)."""

    @property
    def site(self) -> Site:
        return self.measured.site

    @property
    def way(self) -> str:
        return identity(self.choice)

    @property
    def microseconds(self) -> Mapping[str, float]:
        return self.measured.microseconds


def choose_all(measured: Sequence[Measured], before: Mapping[str, str] | None = None) -> dict[str, Choice | None]:
    """The candidate for each path. `before`: identities of those that were chosen, by path."""
    chosen: dict[str, Choice | None] = {}
    groups: dict[str, list[Measured]] = {}
    for m in measured:
        groups.setdefault(m.site.structure, []).append(m)
    for group in groups.values():
        times = {m.site.problem: _by_text(m) for m in group}
        shared = set.intersection(*map(set, times.values()))
        sums = {text: sum(times[m.site.problem][text] for m in group) for text in sorted(shared)}
        most = min(sums, key=sums.__getitem__, default=None)
        for m in group:
            path = m.site.path
            chosen[path] = _kept(m, _choose(m, times[m.site.problem], most), (before or {}).get(path))
    return chosen


def _kept(m: Measured, choice: Choice | None, last: str | None) -> Choice | None:
    """The choice, or the one of before where that is as fast."""
    for way, time in _right(m):
        if identity(way) == last and time <= (1 + NOISE) * m.microseconds[identity(choice)]:
            return way
    return choice


def _right(m: Measured) -> list[tuple[Choice | None, float]]:
    return [(w, m.microseconds[identity(w)]) for w in m.site.ways if identity(w) not in m.wrong]


def _by_text(m: Measured) -> dict[str, float]:
    """The time of the fastest candidate of each text."""
    found: dict[str, float] = {}
    for way, time in _right(m):
        found[text_of(way)] = min(time, found.get(text_of(way), time))
    return found


def _choose(m: Measured, times: Mapping[str, float], most: str | None) -> Choice | None:
    text = min(times, key=lambda t: times[t])
    if most is not None and times[most] <= (1 + TOLERANCE) * times[text]:
        text = most
    here = [(way, time) for way, time in _right(m) if text_of(way) == text]
    best = min(here, key=lambda x: x[1])
    first = here[0]  # of the candidates of a text, the one of the rules comes first
    return first[0] if first[1] <= (1 + TOLERANCE) * best[1] else best[0]


def by_path(measured: Sequence[Measured], chosen: Mapping[str, Choice | None]) -> tuple[Tuned, ...]:
    """The results by path, in order."""
    tuned = {m.site.path: Tuned(m.site.path, m, chosen[m.site.path]) for m in reversed(measured)}
    return tuple(tuned[path] for path in sorted(tuned))


def factors(measured: Sequence[Measured]) -> dict[str, float]:
    """What the estimates of strategies are to be multiplied by: the middle of measured over estimated times, to two
    digits, of those with estimates that were measured for three problems or more."""
    ratios: dict[str, list[float]] = {}
    for m in {m.site.problem: m for m in measured}.values():
        seen: set[str] = set()
        for way, time in _right(m):
            if way is not None and way.microseconds and time and way.strategy not in seen:
                seen.add(way.strategy)
                ratios.setdefault(way.strategy, []).append(time / way.microseconds)
    middles = {name: sorted(found)[len(found) // 2] for name, found in ratios.items() if len(found) >= LEAST_PROBLEMS}
    return {name: float(f"{middle:.2g}") for name, middle in sorted(middles.items())}

"""forks: the ways of attention and of recurrent layers, measured by whole steps.

Assumes: compiler/strategies/forks.py; programs of one model, that differ in their forks alone.
Guarantees: places of one problem go the same way. The rule's way stays unless another one makes a step faster by more
than SLACK; one that was chosen before (`before`) stays while it is not slower by more.
Does not: measure contractions; run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compiler.strategies.forks import Fork
from compiler.tune.whole import SLACK

Ways = Mapping[str, str]
"""Way by path."""
Race = Callable[[str, Ways, Ways], tuple[float, float]]
"""Seconds of a step of a phase in some ways, and in others, measured in turn."""


@dataclass(frozen=True)
class Settled:
    """The way of a fork, and microseconds of a step in each of its ways."""

    site: Fork
    way: str
    microseconds: Mapping[str, float]

    @property
    def path(self) -> str:
        return self.site.path


def settle(
    forks: Sequence[Fork], before: Ways, race: Race, goes_on: Callable[[], bool] = lambda: True
) -> tuple[Settled, ...]:
    """The forks, one problem after the other while it `goes_on`: later ones are measured with the ways of earlier
    ones."""
    groups: dict[str, list[Fork]] = {}
    for fork in forks:
        groups.setdefault(fork.problem, []).append(fork)
    chosen: dict[str, str] = {}
    found: dict[str, Settled] = {}
    for group in groups.values():
        if not goes_on():
            break
        rule, *others = group[0].ways
        times, best = dict[str, float](), rule
        for way in others:
            first, second = ({**chosen, **{f.path: w for f in group}} for w in (rule, way))
            one, other = race(group[0].path.partition("/")[0], first, second)
            times[rule], times[way] = (round(1e6 * t, 3) for t in (one, other))
            margin = 1 + SLACK if before.get(group[0].path) == way else 1 - SLACK
            if times[way] < margin * times[rule] and (best == rule or times[way] < times[best]):
                best = way
        chosen |= {f.path: best for f in group}
        found |= {f.path: Settled(f, best, times) for f in group}
    return tuple(found[f.path] for f in forks if f.path in found)

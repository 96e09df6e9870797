"""whole: whole steps with the chosen candidates beside whole steps with those of the rules.

Contractions are measured without what follows them. Where a candidate stores its results in another order, what is
computed with them there (bias, activation, statistics) may take longer, so the last word has the step of the program.

Assumes: programs of one model, that differ in their strategies.
Guarantees: what is chosen in the end takes no longer a step than the rules, beyond SLACK. Where all choices together
do, those that gained least by themselves go back to the rules, at most three times; the last time, all do.
Does not: measure contractions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from compiler.tune.choosing import Tuned
from compiler.tune.result import Step

SLACK: Final = 0.02
"""What a step may take longer with the choices than with the rules, by chance."""
ROUNDS: Final = 9

Race = Callable[[Sequence[Tuned]], tuple[float, float]]
"""Seconds of a step with the rules, and with some choices, measured in turn."""


def settled(phase: str, tuned: Sequence[Tuned], race: Race) -> tuple[tuple[Tuned, ...], Step | None]:
    """The choices that stay, and the time of a step; None where all are those of the rules."""
    own = [t for t in tuned if t.path.startswith(f"{phase}/")]
    changed = sorted((t for t in own if _differs(t)), key=_gain)
    if not changed:
        return tuple(tuned), None
    before = 0.0
    for part in (0, len(changed) // 2, 3 * len(changed) // 4, len(changed)):
        back = changed[:part]
        paths = {t.path for t in back}
        kept = [_by_rule(t) if t.path in paths else t for t in own]
        before, after = race(kept) if part < len(changed) else (before, before)
        if after <= (1 + SLACK) * before:
            break
    stays = {t.path: t for t in kept}
    step = Step(phase, round(1e6 * before, 3), round(1e6 * after, 3), tuple(t.path for t in back))
    return tuple(stays.get(t.path, t) for t in tuned), step


def _differs(t: Tuned) -> bool:
    return t.way != t.site.names[0]


def _gain(t: Tuned) -> float:
    return t.microseconds[t.site.names[0]] - t.microseconds[t.way]


def _by_rule(t: Tuned) -> Tuned:
    return replace(t, choice=t.site.ways[0], instead=t.way)


def known(t: Tuned, instead: str) -> Tuned:
    """The choice, or the rule's where the choice went back to it before (`instead` of it)."""
    return _by_rule(t) if instead and t.way == instead else t


def in_turn(first: Callable[[], float], second: Callable[[], float], rounds: int = ROUNDS) -> tuple[float, float]:
    """The medians of two times that are taken in turn."""
    pairs = [(first(), second()) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)

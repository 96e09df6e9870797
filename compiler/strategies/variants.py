"""variants: all candidates for a contraction on a target, for measuring (compiler/tune/measure.py).

Assumes: what the strategies assume.
Guarantees: the first one is the choice of the rules, the last one the generic nest (where it is not both); all are of
one order class. Variants of a strategy differ in the columns of TUNED alone, so that they share one text.
Does not: measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.ir.level2.target import Target
from compiler.strategies import GROUPS, ROWS, choose, every, fits, measured
from compiler.strategies.choice import Choice, NotApplicable, Problem, product
from compiler.strategies.cost.devices import H200
from compiler.strategies.exchange import exchanged
from compiler.strategies.strategy import Strategy

TUNED: Final = ("s_tile", "s_splits", "s_depth", "s_pitch", "s_strip")
"""Columns in which variants of a strategy differ."""
MOST: Final = 14
"""Ways to compute one contraction, at most, beside those that no rule takes: each is a phase of the program that
measures them."""


def ways(
    node: l1.Contract,
    tensors: Mapping[str, l1.Tensor],
    lanes: int,
    real_bytes: int,
    available: frozenset[str],
    device: Target = H200,
) -> tuple[Choice | None, ...]:
    """The choice of the rules, then all other candidates; None is the generic nest, which suits every contraction."""
    first, _ = choose(node, tensors, lanes, real_bytes, available, device)
    try:
        problem = product(node, tensors, lanes, real_bytes, device)
    except NotApplicable:
        return (None,)
    own = _candidates(problem, chain.from_iterable(GROUPS), available) if first is not None else []
    others = _candidates(problem, measured(), available)
    usable = [s for s in every() if s.name in available and not (lanes and s.name in ROWS)]
    found = exchanged(problem, usable, first.microseconds if first is not None else 0.0)
    others += [c for c in found if fits(c, device) and c != first]
    if first is None:
        return (None, *others)
    distinct = {identity(w): w for w in (first, *own)}
    return (*list(distinct.values())[: MOST - 1], *others, None)


def _candidates(p: Problem, strategies: Iterable[Strategy], available: frozenset[str]) -> list[Choice]:
    """What the strategies have for a problem, with all their variants."""
    found: list[Choice] = []
    for strategy in strategies:
        if strategy.name in available and strategy.reads(p) and (choice := strategy.choice(p)):
            found += [v for v in (choice, *strategy.variants(p, choice)) if fits(v, p.device)]
    return found


def identity(choice: Choice | None) -> str:
    """The identity of a candidate, for people and files: `lanes_dense vector=0 s_tile=3`."""
    if choice is None:
        return "nest"
    return spelled(choice.strategy, dict(choice.literals), dict(tuned(choice)))


def spelled(strategy: str, literals: Mapping[str, int], tiles: Mapping[str, int]) -> str:
    """The identity of a candidate, from its parts."""
    return " ".join((strategy, *(f"{n}={v}" for n, v in (*sorted(literals.items()), *sorted(tiles.items())))))


def tuned(choice: Choice) -> tuple[tuple[str, int], ...]:
    """The columns that variants differ in."""
    return tuple((n, v) for n, v in choice.columns if n in TUNED)


def text_of(choice: Choice | None) -> str:
    """Candidates with equal texts share a template, where their contractions do."""
    return "nest" if choice is None else " ".join((choice.strategy, *(f"{n}={v}" for n, v in choice.literals)))

"""Grids of parameters: every combination is a test, and those of a diagonal are quick.

Guarantees: the quick ones hold every value of every parameter that is not slow by itself; the others are slow tests
(`make test-slow`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import pytest


def slow(*values: Any) -> list[Any]:
    """Values of a parameter for slow tests alone."""
    return [pytest.param(v, marks=pytest.mark.slow) for v in values]


def together(values: Iterable[Any]) -> list[Any]:
    """Values of several parameters that belong together, as one axis of a grid."""
    return [v if hasattr(v, "marks") else pytest.param(*v) for v in values]


def one_in(number: int, values: Iterable[Any]) -> list[Any]:
    """Values of a parameter, of which the first one of each `number` is for quick tests."""
    return [v if n % number == 0 else slow(v)[0] for n, v in enumerate(values)]


def diagonal(*values: Iterable[Any], leading: int = 1) -> list[Any]:
    """All combinations, as `parametrize` takes them, the last parameter fastest. Quick ones have every combination of
    the first parameters (`leading`), while the others go through their values. Keys of a map name its values."""
    named = any(isinstance(several, Mapping) for several in values)
    each = [_params(several) for several in values]
    quick = [[v for v in several if not v.marks] for several in each]
    on = set[tuple[int, ...]]()
    for first in product(*(range(len(q)) for q in quick[:leading])):
        others = (q[sum(first) % len(q)] for q in quick[leading:])
        on.add(tuple(map(id, (*(q[n] for q, n in zip(quick, first, strict=False)), *others))))
    assert {v for at in on for v in at} == {id(v) for q in quick for v in q}, "a value that no quick test has"
    return [
        pytest.param(
            *(x for v in one for x in v.values),
            marks=() if tuple(map(id, one)) in on else pytest.mark.slow,
            id="-".join(str(v.id or v.values[0]) for v in one) if named else None,
        )
        for one in product(*each)
    ]


def _params(values: Iterable[Any]) -> list[Any]:
    """Values as those of `parametrize`."""
    if isinstance(values, Mapping):
        return [pytest.param(v, id=k) for k, v in values.items()]
    return [v if hasattr(v, "marks") else pytest.param(v) for v in values]

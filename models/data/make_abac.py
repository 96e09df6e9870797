"""Writes abac.npz, the lists of models/axon/hip.yaml, beside this file.

Assumes: nothing.
Guarantees: the same bytes on every run: raw output of Philox, which numpy promises to keep.
Does not: hold the patterns of emer/axon: these are others of the same kind.

Arrays: `ab` and `ac` uint8 (20, 294): 20 pairs of items each, as six pools of 7x7 units of which 10 are active: the
first item (the same in both lists), the second, and four pools of context, which are those of the list but for a fifth
of their active units.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from fixed_npz import write_npz

PAIRS, UNITS, ACTIVE, APART, FLIPPED, CONTEXTS = 20, 49, 10, 10, 2, 4
RAW = np.random.Philox(key=2501)

Patterns = npt.NDArray[np.uint8]


def shuffled(n: int) -> npt.NDArray[np.int64]:
    return np.argsort(RAW.random_raw(n), kind="stable")


def patterns(count: int) -> Patterns:
    """(count, units), any two of them at least `APART` units apart."""
    found: list[Patterns] = []
    while len(found) < count:
        new = np.zeros(UNITS, np.uint8)
        new[shuffled(UNITS)[:ACTIVE]] = 1
        if all(np.sum(new != other) >= APART for other in found):
            found.append(new)
    return np.stack(found)


def flipped(pattern: Patterns) -> Patterns:
    """The pattern with `FLIPPED` of its active units replaced by others."""
    new = pattern.copy()
    on, off = np.flatnonzero(pattern == 1), np.flatnonzero(pattern == 0)
    new[on[shuffled(len(on))[:FLIPPED]]] = 0
    new[off[shuffled(len(off))[:FLIPPED]]] = 1
    return new


def pairs(first: Patterns, second: Patterns, context: Patterns) -> Patterns:
    """(pairs, six pools): two items and the context of their list."""
    pools = [[flipped(context) for _ in range(CONTEXTS)] for _ in range(PAIRS)]
    return np.concatenate([first, second, np.reshape(pools, (PAIRS, CONTEXTS * UNITS))], axis=1)


def main() -> None:
    a, b, c = (patterns(PAIRS) for _ in range(3))
    lists = patterns(2)
    arrays = {"ab": pairs(a, b, lists[0]), "ac": pairs(a, c, lists[1])}
    write_npz(Path(__file__).with_name("abac.npz"), arrays)


if __name__ == "__main__":
    main()

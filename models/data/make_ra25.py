"""Writes ra25.npz, the random patterns of models/axon/ra25.yaml, beside this file.

Assumes: nothing.
Guarantees: the same bytes on every run: raw output of Philox, which numpy promises to keep.
Does not: hold the patterns of emer/axon: these are others of the same kind.

Arrays: `input` and `output` uint8 (25, 25): 25 pairs, 6 of 25 units active, any two patterns of a side at least 6 units
apart.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from fixed_npz import write_npz

PAIRS, UNITS, ACTIVE, APART = 25, 25, 6, 6
RAW = np.random.Philox(key=25)


def shuffled(n: int) -> npt.NDArray[np.int64]:
    return np.argsort(RAW.random_raw(n), kind="stable")


def patterns() -> npt.NDArray[np.uint8]:
    """(pairs, units)."""
    found: list[npt.NDArray[np.uint8]] = []
    while len(found) < PAIRS:
        new = np.zeros(UNITS, np.uint8)
        new[shuffled(UNITS)[:ACTIVE]] = 1
        if all(np.sum(new != other) >= APART for other in found):
            found.append(new)
    return np.stack(found)


def main() -> None:
    shown, wanted = patterns(), patterns()
    write_npz(Path(__file__).with_name("ra25.npz"), {"input": shown, "output": wanted})


if __name__ == "__main__":
    main()

"""row_facts: what holds in all rows of a template, so that its kernels need no text for other rows.

Assumes: arrays without a size of their own begin at multiples of ALIGNMENT in memory (compiler/layout/plan_memory.py).
Guarantees: a fact is a yes or a no about a multiple, an alignment or a product; where a value is known only after
connecting, the answer is no. Kernels of models of which the same holds are equal, whatever their sizes.
Does not: tell values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from compiler.layout.plan_memory import ALIGNMENT

_SHORT = float(1 << 32)


@dataclass(frozen=True)
class RowFacts:
    """Those of `rows` over these arrays of the program, by name (none: nothing is known)."""

    rows: l2.Rows | None = None
    arrays: Mapping[str, l2.Array] = field(default_factory=dict)

    def _values(self, column: int | str) -> npt.NDArray[np.int64] | None:
        """Of a column or literal; None: they are not known."""
        if isinstance(column, int):
            return np.array([column], np.int64)
        found = () if self.rows is None else self.rows.scalars.get(column, ())
        if not isinstance(found, np.ndarray):
            if not all(isinstance(x, int) for x in found):
                return None
            found = np.array(found)
        return found.astype(np.int64) if len(found) and found.dtype.kind in "iu" else None

    def divides(self, factor: int, column: int | str) -> bool:
        """Whether a column is a multiple of it."""
        values = self._values(column)
        return values is not None and not (values % factor).any()

    def is_aligned(self, formal: str, size: int) -> bool:
        """Whether arrays begin at multiples of so many bytes, in each step of a loop."""
        if self.rows is None or ALIGNMENT % size:
            return False
        bound = (self.arrays[name] for name in dict.fromkeys(self.rows.arrays[formal]))
        return not any(n * a.dtype.bytes % size for a in bound for n in (a.first, a.by_step))

    def products(self, factors: Iterable[int | str]) -> npt.NDArray[np.float64] | None:
        """The product of these columns in each row; None: it is not known."""
        product = np.ones(1 if self.rows is None else self.rows.count)
        for x in factors:
            if (values := self._values(x)) is None:
                return None
            product = product * values
        return product

    def is_short(self, factors: Iterable[int | str]) -> bool:
        """Whether the product of columns has 32 bits."""
        product = self.products(factors)
        return product is not None and bool((product < _SHORT).all())


UNKNOWN: Final = RowFacts()

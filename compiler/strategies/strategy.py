"""strategy: what a strategy of contractions is to the rules, to the tuner, and to those who add one.

Assumes: compiler/strategies/choice.py.
Guarantees: plain data. A strategy is one object: in its file here, in GROUPS of compiler/strategies/__init__.py, or of
another package (compiler/strategies/plugins.py).
Does not: choose or print.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from compiler.strategies.choice import Choice, NotApplicable, Problem

Match = Callable[[Problem], Choice]
"""Raises NotApplicable."""
Variants = Callable[[Problem, Choice], Sequence[Choice]]
Found = Callable[[Problem], Sequence[Choice]]
"""Variants of a problem, the fastest by estimate first. Raises NotApplicable."""

ROUNDING: Final = MappingProxyType(
    {"exact": 0.0, "float32": 0.0, "tf32x3": 2.0**-20, "tf32": 2.0**-10, "bf16": 2.0**-8}
)
"""What `numerics: {products: ...}` may say, each permitting more than those before it: the relative error of a product,
beside the rounding of float32."""
PRODUCTS: Final = tuple(ROUNDING)


def alone(p: Problem, choice: Choice) -> Sequence[Choice]:
    """The variants of a strategy that has none beside its choice."""
    return ()


@dataclass(frozen=True)
class Strategy:
    """An algorithm. `match`: its choice for a problem; `variants`: others that are worth measuring,
    of the same text: they differ in the columns that variants.TUNED names; `products`: what `numerics: {products: ...}`
    has to permit at least; `bf16`: whether it reads operands that are bf16 in memory; `windows`: whether it reads
    those of which windows have one element (l1.Tensor.windows); `panels`: those in panels (l1.Tensor.panel); `strided`:
    those between whose elements others lie, wherever they begin, and in another order (l1.Tensor.whole, steps_first).
    Those of other packages have a `target`, and `template`: the text of a row, as backends/cpu/emit/emit.py describes
    it."""

    name: str
    match: Match
    variants: Variants = alone
    products: str = "exact"
    target: str = ""
    template: str = ""
    bf16: bool = False
    windows: bool = False
    panels: bool = False
    strided: bool = False

    def reads(self, p: Problem) -> bool:
        """Whether it can read the operands of a problem."""
        fit = (self.windows, self.panels, self.strided)
        plain = all(
            all(map(operator.or_, fit, (not t.windows, not t.panel, not (t.whole or t.steps_first))))
            for t in p.operands
        )
        return plain and (self.bf16 or not any(p.stored))

    def choice(self, p: Problem) -> Choice | None:
        with suppress(NotApplicable):
            return self.match(p)
        return None

    @property
    def rounding(self) -> float:
        """The relative error of a product, beside the rounding of float32."""
        return ROUNDING[self.products]


def with_columns(choice: Choice, **columns: int) -> Choice:
    """The choice with other values in columns that it has."""
    return replace(choice, columns=tuple((n, columns.get(n, v)) for n, v in choice.columns))


def by_tile(tiles: Sequence[object]) -> Variants:
    """A variant for every register tile."""
    return lambda p, choice: [with_columns(choice, s_tile=t) for t in range(len(tiles))]


def first_of(variants: Found) -> Match:
    """The choice that is the first of the variants."""

    return lambda p: variants(p)[0]


def found_by(variants: Found) -> Variants:
    """Variants from a function of the problem alone."""
    return lambda p, choice: variants(p)

"""Delayed reads of synapses: `delayed(pre.v)`.

Assumes: a parsed expression of a synapse.
Guarantees: it refers to a state or an input of one of the two neurons, whose history can be stored; anything else is
an error at its span (E0315). While an expression is checked, each delayed read is a separate name, spelled as in the
source.
Does not: handle delays (frontend/build/synapses/fits.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.core.errors import Sink
from compiler.expr.ast import Call, Expr, Ref, children, substitute, with_children
from compiler.expr.units import Dimension
from compiler.ir.level2.delayed import DELAYED


@dataclass(frozen=True)
class Delayable:
    """`dimensions`: of the valid arguments of `delayed`; `others`: why the other variables of an end are invalid."""

    dimensions: Mapping[str, Dimension | None] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, Dimension | None]:
        """Delayed reads as names."""
        return {_shown(name): dimension for name, dimension in self.dimensions.items()}

    def take(self, e: Expr, sink: Sink) -> Expr | None:
        """`e` with delayed reads replaced by names; None after an error."""
        if isinstance(e, Call) and e.func == DELAYED:
            return self._one(e, sink)
        kids = children(e)
        new = tuple(k for old in kids if (k := self.take(old, sink)) is not None)
        if len(new) < len(kids):
            return None
        return with_children(e, new) if any(a is not b for a, b in zip(kids, new, strict=True)) else e

    def put(self, e: Expr) -> Expr:
        """`e` with the names replaced by their calls again."""
        return substitute(e, {_shown(name): Call(DELAYED, (Ref(name),)) for name in self.dimensions})

    def _one(self, e: Call, sink: Sink) -> Expr | None:
        if len(e.args) != 1:
            message = f"`{DELAYED}` takes 1 argument, {len(e.args)} given"
            sink.error("E0304", message, e.span, "the delay is that of the projection: `delayed(pre.v)`")
            return None
        what = e.args[0]
        if not isinstance(what, Ref) or "." not in what.name:
            message = f"`{DELAYED}` reads a variable of one of the two neurons, `pre.name` or `post.name`"
            sink.error("E0315", message, what.span, "an expression is built around it: `exp(delayed(pre.v))`")
            return None
        if what.name in self.others:
            sink.error("E0315", f"`{what.name}` has no past that is kept", what.span, self.others[what.name])
            return None
        if what.name in self.dimensions:
            return Ref(_shown(what.name), e.span)
        return what  # an unknown name, reported as such


def _shown(name: str) -> str:
    return f"{DELAYED}({name})"

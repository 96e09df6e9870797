"""Past values in expressions: delayed reads of synapses, `delayed(pre.v)`, and products of histories,
`dot(pre.tr, post.tr)`.

Assumes: a parsed expression.
Guarantees: it refers to a state or an input of one of the two neurons, whose history can be stored; anything else is
an error at its span (E0315). While an expression is checked, each delayed read is a separate name, spelled as in the
source. Products of histories are sums over the variables in which they are kept, the oldest first.
Does not: handle delays (frontend/build/synapses/fits.py), or keep histories (frontend/build/instances/history.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from compiler.core.diagnostics import Sink, did_you_mean
from compiler.expr.ast import Call, Expr, Num, Ref, rewrite, substitute
from compiler.expr.units import Dimension
from compiler.ir.level2.synapse_values import DELAYED


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
        before = len(sink.items)
        taken = rewrite(e, lambda x: self._one(x, sink), top_down=True)
        return taken if len(sink.items) == before else None

    def put(self, e: Expr) -> Expr:
        """`e` with the names replaced by their calls again."""
        return substitute(e, {_shown(name): Call(DELAYED, (Ref(name),)) for name in self.dimensions})

    def _one(self, e: Expr, sink: Sink) -> Expr:
        if not isinstance(e, Call) or e.func != DELAYED:
            return e
        if len(e.args) != 1:
            message = f"`{DELAYED}` takes 1 argument, {len(e.args)} given"
            sink.error("E0304", message, e.span, "the delay is that of the projection: `delayed(pre.v)`")
            return e
        what = e.args[0]
        if not isinstance(what, Ref) or "." not in what.name:
            message = f"`{DELAYED}` reads a variable of one of the two neurons, `pre.name` or `post.name`"
            sink.error("E0315", message, what.span, "an expression is built around it: `exp(delayed(pre.v))`")
            return e
        if what.name in self.others:
            sink.error("E0315", f"`{what.name}` has no past that is kept", what.span, self.others[what.name])
        elif what.name in self.dimensions:
            return Ref(_shown(what.name), e.span)
        return what  # an unknown name, reported as such


DOT: Final = "dot"
_AGO: Final = "k"
"""In weights of a product: 1 for the newest values, and so on."""


def with_dots(e: Expr, histories: Mapping[str, int], sink: Sink) -> Expr | None:
    """`e` with each `dot(a, b)`, or `dot(a, b, weight of k)`, as the sum of products of the values of two histories, of
    which `histories` says how many they have. None after an error."""
    before = len(sink.items)

    def one(x: Expr) -> Expr:
        return _dot(x, histories, sink) if isinstance(x, Call) and x.func == DOT else x

    whole = rewrite(e, one)
    return whole if len(sink.items) == before else None


def _dot(x: Call, histories: Mapping[str, int], sink: Sink) -> Expr:
    if len(x.args) not in (2, 3):
        message = f"`{DOT}` takes 2 or 3 arguments, {len(x.args)} given"
        sink.error("E0304", message, x.span, "write `dot(pre.tr, post.tr)`, or with weights `dot(tr, tr, 0.5 ** k)`")
        return x
    names: list[str] = []
    for what in x.args[:2]:
        if not isinstance(what, Ref) or what.name not in histories:
            help = did_you_mean(what.name, histories) if isinstance(what, Ref) else None
            example = "a neuron declares one: `history: {tr: {of: v, at: trial.end, keep: 20}}`"
            sink.error("E0315", f"`{DOT}` takes two histories", what.span, help or example)
            return x
        names.append(what.name)
    first, second = (histories[name] for name in names)
    if not first or not second:  # of an unknown neuron
        product: Expr = x.args[0] * x.args[1]
        return product if len(x.args) == 2 else product * substitute(x.args[2], {_AGO: Num(1)})
    if first != second:
        message = f"`{names[0]}` has {first} values, and `{names[1]}` has {second}"
        sink.error("E0315", message, x.span, "histories that are multiplied have one `keep`")
        return x
    total: Expr | None = None
    for k in range(first, 0, -1):
        term: Expr = Ref(f"{names[0]}_{k}", x.span) * Ref(f"{names[1]}_{k}", x.span)
        if len(x.args) == 3:
            term = substitute(x.args[2], {_AGO: Num(k)}) * term
        total = term if total is None else total + term
    return total or x


def _shown(name: str) -> str:
    return f"{DELAYED}({name})"

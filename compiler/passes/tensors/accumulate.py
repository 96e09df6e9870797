"""accumulate: gradient accumulation over several batches, and moving averages of weights.

Assumes: the gradients of one batch are those of its mean loss over `count` samples, or of several such means.
Guarantees: with `accumulate: n` an optimizer sees, in the steps that n divides, the gradient of the mean loss over all
samples since its last step; sums restart with the first batch after an update, so that they need no zeroing. One text
for all weights; n is a column. Means over different samples, as losses with masks have, are summed separately: their
total counts are known only at the end. The averages of weights are an additional state of the optimizer.
Does not: schedule the update (Update.every does).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.core.symbols import Way, derived, model_name
from compiler.expr.ast import Cond, Expr, Num, Ref
from compiler.ir.level1.builder import GraphBuilder, identity

_X0, _X1, _X2 = (Ref(f"x{i}") for i in range(3))


@dataclass(frozen=True)
class Mean:
    """A part of the loss: `count`: the divisor of the mean in this batch; `gradients`: of the mean, by weight."""

    count: l1.Tensor
    gradients: Mapping[str, l1.Tensor]


def accumulated(g: GraphBuilder, means: Sequence[Mean], names: Iterable[str], batches: int) -> dict[str, l1.Tensor]:
    """The gradients of `names` since the last update: the sum of those of each mean over its total count. Variables:
    `accumulated.batches` (since the last update), and for each mean `accumulated.samples` and a sum per weight."""
    one = _X0 + 1.0
    done = g.add(l1.Variable(l1.Tensor("accumulated.batches", ()), 0.0, inner=True))
    next_ = Cond(one < Ref("batches"), one, Num(0.0))
    after = g.map("accumulated.batches.after", next_, (identity(done),), scalars=(("batches", float(batches)),))
    kept = Cond(_X1 > 0.0, _X0, Num(0.0))
    out: dict[str, l1.Tensor] = {}
    for k, part in enumerate(means):
        which = f".{k}" if k else ""
        samples = g.add(l1.Variable(l1.Tensor(f"accumulated.samples{which}", ()), 0.0, inner=True))
        body: Expr = kept + _X2
        operands = (identity(samples), (done, ()), (part.count, ()))
        total = g.map(f"accumulated.samples{which}.after", body, operands)
        for name in (n for n in names if n in part.gradients):
            mean = _mean(g, f"{name}.gradient.accumulated{which}", part.gradients[name], (done, part.count, total))
            if name in out:
                label = f"{name}.gradient.accumulated{which}.with"
                mean = g.map(label, _X0 + _X1, (identity(out[name]), identity(mean)))
            out[name] = mean
        g.add(l1.Store(samples.name, total.name))
    g.add(l1.Store(done.name, after.name))
    return out


def _mean(
    g: GraphBuilder, label: str, gradient: l1.Tensor, numbers: tuple[l1.Tensor, l1.Tensor, l1.Tensor]
) -> l1.Tensor:
    """The mean of gradients so far. `numbers`: previous batches, the count of this one, the total count."""
    done, count, total = numbers
    kept = Cond(_X1 > 0.0, _X0, Num(0.0))
    whole = g.add(l1.Variable(l1.Tensor(label, gradient.shape), 0.0, inner=True))
    sums = kept + _X2 * Ref("x3")
    new = g.map(f"{label}.after", sums, (identity(whole), (done, ()), identity(gradient), (count, ())))
    g.add(l1.Store(whole.name, new.name))
    mean = Cond(_X1 > 0.0, _X0 / _X1, Num(0.0))  # the count of a loss may be 0
    return g.map(f"{label}.mean", mean, (identity(new), (total, ())))


AVERAGE: Final = derived("param", Way.AVERAGE)
"""The optimizer's state of averages: `conv1.weight.param.average` is an array."""


def with_average(optimizer: l0.OptimizerDef, keep: float) -> l0.OptimizerDef:
    """The optimizer with a moving average of the weights with decay factor `keep`; it is initialised with the weights
    after the first step."""
    own, param = Ref(AVERAGE), Ref("param")
    moved = own + Ref("average_rate") * (param - own)
    statement = l0.Set(AVERAGE, Cond(Ref("step").eq(1), param, moved), optimizer.span)
    new = float(1 - Fraction(repr(keep)))
    return replace(
        optimizer,
        params=(*optimizer.params, ("average_rate", new)),
        state=(*optimizer.state, (AVERAGE, 0.0)),
        update=(*optimizer.update, statement),
    )


def averages_of(nodes: Iterable[l1.Node], train: l0.Train) -> dict[str, str]:
    """Weight -> array of its average, for all trained weights; {} without averaging."""
    if not train.average:
        return {}
    return {n.weight: f"{n.weight}.{model_name(AVERAGE)}" for n in nodes if isinstance(n, l1.Update)}


def averaged(nodes: Iterable[l1.Node], names: Mapping[str, str]) -> tuple[l1.Node, ...]:
    """A graph that reads variables instead of the weights of the same shape; `names`: weight -> variable."""
    out: list[l1.Node] = []
    for node in nodes:
        match node:
            case l1.Weight() if node.out.name in names:
                tensor = replace(node.out, name=names[node.out.name])
                out.append(l1.Variable(tensor, 0.0, inner=True, span=node.span))
            case l1.Update():
                raise AssertionError("averages are for phases that learn nothing")
            case _:
                out.append(l1.renamed(node, names))
    return tuple(out)

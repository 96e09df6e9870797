"""accumulate: gradients that are summed over several batches, and averages of weights.

Assumes: the gradients of one batch are those of its mean loss over `count` samples.
Guarantees: with `accumulate: n` an optimizer sees, in the steps that n divides, the gradient of the mean loss over all
samples since its last step; sums begin again where the batch that follows an update is added, so that nothing has to be
zeroed. One text for all weights; n is a column. The averages of weights are one more state of the optimizer.
Does not: launch (Update.every says when).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from compiler.expr.ast import Binary, Cond, Expr, Num, Ref
from compiler.ir.graph import Node, Store, Tensor, Update, Variable, Weight
from compiler.ir.model import OptimizerDef, Set, Train
from compiler.passes.free_names import free_name
from compiler.passes.graph_builder import GraphBuilder, identity
from compiler.passes.simplify_graph import renamed

_X0, _X1, _X2 = (Ref(f"x{i}") for i in range(3))


def accumulated(
    g: GraphBuilder, gradients: Mapping[str, Tensor], names: Iterable[str], count: Tensor, batches: int
) -> dict[str, Tensor]:
    """The mean gradients of `names` since the last update. Three numbers of its own: `accumulated.batches` (done since
    then), `accumulated.samples`, and a sum per weight."""
    one = Binary("+", _X0, Num(1.0))
    done = g.add(Variable(Tensor("accumulated.batches", ()), 0.0, inner=True))
    next_ = Cond(Binary("<", one, Ref("batches")), one, Num(0.0))
    after = g.map("accumulated.batches.after", next_, (identity(done),), scalars=(("batches", float(batches)),))
    kept = Cond(Binary(">", _X1, Num(0.0)), _X0, Num(0.0))
    samples = g.add(Variable(Tensor("accumulated.samples", ()), 0.0, inner=True))
    body: Expr = Binary("+", kept, _X2)
    total = g.map("accumulated.samples.after", body, (identity(samples), (done, ()), (count, ())))
    sums = Binary("+", kept, Binary("*", _X2, Ref("x3")))
    out: dict[str, Tensor] = {}
    for name in names:
        gradient = gradients[name]
        whole = g.add(Variable(Tensor(f"{name}.accumulated", gradient.shape), 0.0, inner=True))
        operands = (identity(whole), (done, ()), identity(gradient), (count, ()))
        new = g.map(f"{name}.accumulated.after", sums, operands)
        mean = Cond(Binary(">", _X1, Num(0.0)), Binary("/", _X0, _X1), Num(0.0))  # a loss may have counted nothing
        out[name] = g.map(f"{name}.accumulated.mean", mean, (identity(new), (total, ())))
        g.add(Store(whole.name, new.name))
    g.add(Store(samples.name, total.name))
    g.add(Store(done.name, after.name))
    return out


def average_name(optimizer: OptimizerDef) -> str:
    """What the optimizer's state of averages is called: `conv1.weight.average` is an array."""
    names = {n for n, _ in (*optimizer.params, *optimizer.state)} | {s.target for s in optimizer.update}
    return free_name("average", frozenset(names))


def with_average(optimizer: OptimizerDef, keep: float) -> OptimizerDef:
    """The optimizer with a moving average of the weights, of which the part `keep` remains at each step; it begins with
    the weights after the first."""
    name = average_name(optimizer)
    taken = frozenset({n for n, _ in (*optimizer.params, *optimizer.state)} | {s.target for s in optimizer.update})
    rate = free_name("average_rate", taken)
    own, param = Ref(name), Ref("param")
    moved = Binary("+", own, Binary("*", Ref(rate), Binary("-", param, own)))
    statement = Set(name, Cond(Binary("==", Ref("step"), Num(1)), param, moved), optimizer.span)
    new = float(1 - Fraction(repr(keep)))
    return replace(
        optimizer,
        params=(*optimizer.params, (rate, new)),
        state=(*optimizer.state, (name, 0.0)),
        update=(*optimizer.update, statement),
    )


def averages_of(nodes: Iterable[Node], train: Train) -> dict[str, str]:
    """Weight -> array of its average, for all that are trained; {} where none is kept."""
    if not train.average:
        return {}
    name = average_name(train.optimizer)
    return {n.weight: f"{n.weight}.{name}" for n in nodes if isinstance(n, Update)}


def averaged(nodes: Iterable[Node], names: Mapping[str, str]) -> tuple[Node, ...]:
    """A graph that reads variables instead of the weights of the same shape; `names`: weight -> variable."""
    out: list[Node] = []
    for node in nodes:
        match node:
            case Weight() if node.out.name in names:
                tensor = replace(node.out, name=names[node.out.name])
                out.append(Variable(tensor, 0.0, inner=True, span=node.span))
            case Update():
                raise AssertionError("averages are for phases that learn nothing")
            case _:
                out.append(renamed(node, names))
    return tuple(out)

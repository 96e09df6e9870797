"""lower_loss: the loss and the metrics as part of the tensor graph.

Assumes: the forward graph of lower_network.
Guarantees: losses are means over the rows of the batch that exist. Sums over an epoch are kept in wide variables
`metric.loss`, `metric.<name>` and `metric.count` (each a sum over rows; the host divides and zeroes).
Does not: differentiate; `constants` names tensors whose gradient is zero by construction.
"""

from __future__ import annotations

import math

from compiler.expr.ast import Binary, Call, Cond, Num, Ref
from compiler.ir.graph import Store, Tensor, Variable
from compiler.ir.model import Train
from compiler.passes.graph_builder import FIRST, GraphBuilder, identity

X0, X1, X2, X3 = (Ref(f"x{i}") for i in range(4))


def _cross_entropy(g: GraphBuilder, logits: Tensor, target: Tensor) -> tuple[Tensor, frozenset[str]]:
    """-log softmax(logits)[target] per row, shifted by the largest logit (which cancels in the gradient)."""
    row = (0,)
    largest = g.reduce("loss.largest", X0, (identity(logits),), logits, (0,), combine="max", fill=-math.inf)
    exponent = Call("exp", (Binary("-", X0, X1),))
    total = g.reduce("loss.total", exponent, (identity(logits), (largest, row)), logits, (0,))
    chosen = Cond(Binary("==", Ref("d1"), X1), X0, Num(0.0))
    picked = g.reduce("loss.picked", chosen, (identity(logits), (target, row)), logits, (0,))
    body = Binary("-", Binary("+", Call("log", (X0,)), X1), X2)
    rows = g.map("loss.rows", body, (identity(total), identity(largest), identity(picked)))
    return rows, frozenset({largest.name})


def _squared_error(g: GraphBuilder, prediction: Tensor, target: Tensor) -> Tensor:
    """Mean over the elements of each row of (prediction - target)^2."""
    off = Binary("-", X0, X1)
    body = Binary("*", Binary("*", off, off), Ref("share"))
    elements = math.prod(prediction.shape[1:])
    return g.reduce(
        "loss.rows",
        body,
        (identity(prediction), identity(target)),
        prediction,
        (0,),
        scalars=(("share", 1.0 / elements),),
    )


def add_loss(
    g: GraphBuilder, train: Train, named: dict[str, Tensor], mask: Tensor, count: Tensor
) -> tuple[Tensor, frozenset[str]]:
    """Adds `loss` (a scalar) and the metric sums; returns it and the tensors that are constants to autodiff."""
    prediction, target = named[train.loss.prediction], named[train.loss.target]
    constants: frozenset[str] = frozenset()
    if train.loss.kind == "softmax_cross_entropy":
        rows, constants = _cross_entropy(g, prediction, target)
    else:
        rows = _squared_error(g, prediction, target)
    total = g.reduce("loss.sum", Binary("*", X0, X1), (identity(rows), identity(mask)), rows, ())
    loss = g.map("loss", Binary("/", X0, X1), (identity(total), identity(count)))
    sums = {"loss": total, "count": count}
    for metric in train.metrics:
        sums[metric] = _metric(g, metric, prediction, target, mask)
    for name, value in sums.items():
        kept = g.add(Variable(Tensor(f"metric.{name}", ()), 0.0, wide=True))
        after = g.map(f"metric.{name}.after", Binary("+", X0, X1), (identity(kept), identity(value)))
        g.add(Store(kept.name, after.name))
    return loss, constants


def _metric(g: GraphBuilder, name: str, prediction: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """The sum over rows of a metric."""
    if name == "accuracy":
        largest = g.reduce(
            "accuracy.largest", X0, (identity(prediction),), prediction, (0,), combine="max", fill=-math.inf
        )
        first = g.reduce(
            "accuracy.first",
            Cond(Binary("==", X0, X1), Ref("d1"), Num(FIRST)),
            (identity(prediction), (largest, (0,))),
            prediction,
            (0,),
            combine="min",
            fill=math.inf,
        )
        body = Cond(Binary("==", X0, X1), X2, Num(0.0))
        operands = (identity(first), identity(target), identity(mask))
        return g.reduce("accuracy.sum", body, operands, first, ())
    body_error = Binary("*", Binary("*", Call("abs", (Binary("-", X0, X1),)), X2), Ref("share"))
    elements = math.prod(prediction.shape[1:])
    return g.reduce(
        f"{name}.sum",
        body_error,
        (identity(prediction), identity(target), (mask, (0,))),
        prediction,
        (),
        scalars=(("share", 1.0 / elements),),
    )

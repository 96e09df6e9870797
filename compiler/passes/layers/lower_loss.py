"""lower_loss: the loss as part of the tensor graph, and the sums of metrics (compiler/losses has the kinds of both).

Assumes: the forward graph of lower_network.
Guarantees: losses are means over the valid rows of the batch; several elements per row are averaged. With a mask they
are weighted means over all rows together; `loss.count` is then the sum of weights. Elements of weight 0 are excluded by
a select, not by a product with 0, and so are their gradients: they may be infinite or NaN. Penalties are chained array
by array, so that their text does not depend on the number of arrays. Sums over an epoch are kept in wide variables
`metric.loss`, `metric.<name>` and `metric.count` (the host divides and zeroes); a sum of losses with masks has a loss
and a count for each term (`metric.loss.1`).
Does not: differentiate; `constants` names tensors whose gradient is zero by construction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, substitute
from compiler.ir.level1.builder import GraphBuilder, Operand, Scalars, identity
from compiler.ir.space import along
from compiler.losses import LOSS_KIND, metric_of
from compiler.losses.kind import Measured
from compiler.losses.rows import X0, X1, X2, chosen, first_axes, mean_rows
from compiler.passes.tensors.expand_updates import classes_of


def _expression(
    g: GraphBuilder, loss: l0.Loss, named: dict[str, l1.Tensor], name: str, keep: int, counted: l1.Tensor | None
) -> l1.Tensor:
    """Mean over the elements of all but the first `keep` axes of an expression; operands are broadcast as in NumPy.
    Elements that are not `counted` are 0."""
    assert loss.function is not None
    ins = [named[n] for n in loss.inputs]
    rank = max(len(t.shape) for t in ins)
    shape = [ins[0].shape[0], *([1] * (rank - 1))]
    for t in ins:
        for a, extent in enumerate(t.shape[1:], rank - len(t.shape) + 1):
            shape[a] = max(shape[a], extent)
    operands: list[Operand] = []
    for t in ins:
        first = rank - len(t.shape) + 1
        kept = [(first + a, e) for a, e in enumerate(t.shape[1:]) if e == shape[first + a]]
        source = t
        if len(kept) != len(t.shape) - 1:
            flat = l1.Tensor(f"{name}.of.{t.name}", (t.shape[0], *(e for _, e in kept)), t.dtype, True)
            source = g.add(l1.Reindex(flat, t.name, loss.span))
        operands.append((source, (0, *(a for a, _ in kept))))
    bindings: dict[str, Expr] = {a: Ref(f"x{i}") for i, a in enumerate(loss.function.args[: len(ins)])}
    body = substitute(loss.function.body, bindings)
    if counted is not None:  # the expression itself may be infinite or not differentiable at 0
        body = Cond(Ref(f"x{len(operands)}").ne(0.0), body, Num(0.0))
        operands.append(first_axes(counted))
    over = l1.Tensor("", tuple(shape), "real", True)
    return mean_rows(g, f"{name}.rows", body, operands, over, keep, loss.attrs, span=loss.span)


def _rows(
    g: GraphBuilder,
    loss: l0.Loss,
    named: dict[str, l1.Tensor],
    name: str,
    mask: l1.Tensor,
    counted: l1.Tensor | None = None,
) -> tuple[l1.Tensor, frozenset[str]]:
    """The loss of each row (with a mask: of each of its elements), and the tensors that are constants to autodiff.
    `mask`: valid rows; `counted`: 0 for elements that a mask of the loss excludes."""
    if loss.kind == "sum":
        found: list[l1.Tensor] = []
        constants: frozenset[str] = frozenset()
        for k, (_, term) in enumerate(loss.terms):
            rows, own = _rows(g, term, named, f"loss.{k}", mask)
            found.append(rows)
            constants |= own
        scalars = tuple((f"w{k}", w) for k, (w, _) in enumerate(loss.terms))
        body: Expr = X0 * Ref("w0")
        for k in range(1, len(found)):
            body = body + Ref(f"x{k}") * Ref(f"w{k}")
        return g.map("loss.rows", body, [identity(t) for t in found], scalars=scalars), constants
    if loss.kind == "expression":
        return _expression(g, loss, named, name, len((counted or mask).shape), counted), frozenset()
    m = _measured(g, name, loss, named, counted or mask)
    if counted is not None:
        m = replace(m, prediction=chosen(g, f"{name}.prediction.chosen", m.prediction, counted))
        if m.target.dtype == "real":
            m = replace(m, target=chosen(g, f"{name}.target.chosen", m.target, counted))
        real = {key: chosen(g, f"{name}.{key}.chosen", t, counted) for key, t in m.beside.items() if t.dtype == "real"}
        m = replace(m, beside={**m.beside, **real})
    kind = LOSS_KIND[loss.kind]
    assert kind.rows is not None
    return kind.rows(m)


def _measured(g: GraphBuilder, name: str, loss: l0.Loss, named: dict[str, l1.Tensor], mask: l1.Tensor) -> Measured:
    beside = {key: named[read] for key, read in loss.beside}
    return Measured(g, name, loss, named[loss.prediction], named[loss.target], mask, beside)


def _counted(g: GraphBuilder, loss: l0.Loss, named: dict[str, l1.Tensor], rows: l1.Tensor, name: str) -> l1.Tensor:
    """Weight of each row, or each element of the mask: 0 in padding rows."""
    mask = named.get(loss.mask)
    target = named[loss.target] if loss.ignore is not None else None
    found = [t for t in (mask, target) if t is not None]
    if not found:
        return rows
    body: Expr = X0
    operands: list[Operand] = [(rows, (0,))]
    if mask is not None:
        body = body * X1
        operands.append(identity(mask))
    scalars: Scalars = ()
    if target is not None:
        of = Ref(f"x{len(operands)}")
        body = Cond(of.eq(Ref("ignored")), Num(0.0), body)
        operands.append(identity(target))
        scalars = (("ignored", float(loss.ignore or 0)),)
    like = max(found, key=lambda t: len(t.shape))
    return g.map(f"{name}.counted", body, operands, like=like, scalars=scalars, span=loss.span)


@dataclass(frozen=True)
class _Term:
    """`total`: the weighted sum, times the term's weight; `count`: the sum of weights; `over`: 1 in place of a count of
    0, so that the loss of a batch without weight is 0; `mask`: the weight of each row, or each of its elements;
    `constants`: to autodiff."""

    total: l1.Tensor
    count: l1.Tensor
    over: l1.Tensor
    mask: l1.Tensor
    constants: frozenset[str]


def _term(
    g: GraphBuilder,
    loss: l0.Loss,
    named: dict[str, l1.Tensor],
    mask: l1.Tensor,
    count: l1.Tensor,
    name: str,
    weight: float,
) -> _Term:
    """A loss with a separate mean. `mask`, `count`: valid rows."""
    counted = _counted(g, loss, named, mask, name)
    over = count
    if counted is not mask:
        count = g.reduce(f"{name}.count", X0, (identity(counted),), counted, ())
        over = g.map(f"{name}.over", Cond(X0 > 0.0, X0, Num(1.0)), (identity(count),))
    rows, constants = _rows(g, loss, named, name, mask, None if counted is mask else counted)
    body: Expr = X0 * X1
    if any(LOSS_KIND[each.kind].infinite for each in loss.each):  # in rows that do not count, too
        body = Cond(X1.ne(0.0), body, Num(0.0))
    scalars: Scalars = ()
    if weight != 1.0:
        body, scalars = body * Ref("weight"), (("weight", weight),)
    total = g.reduce(f"{name}.sum", body, (identity(rows), identity(counted)), rows, (), scalars=scalars)
    if loss.mean == "weights":
        total = _by_weight(g, total, name, counted, count)
    return _Term(total, count, over, counted, constants)


def _by_weight(g: GraphBuilder, total: l1.Tensor, name: str, counted: l1.Tensor, count: l1.Tensor) -> l1.Tensor:
    """The sum, scaled so that its mean over `count` is that over the weights of the right classes."""
    of_class = g.tensors[f"{name}.weight"]
    each = mean_rows(g, f"{name}.weights", X0, (identity(of_class),), of_class, len(counted.shape))
    weights = g.reduce(f"{name}.weighed", X0 * X1, (identity(each), identity(counted)), each, ())
    scaled = Cond(X1 > 0.0, X0 * (X2 / X1), Num(0.0))
    return g.map(f"{name}.by_weight", scaled, (identity(total), identity(weights), identity(count)))


def _penalty(g: GraphBuilder, train: l0.Train, network: l0.Network) -> l1.Tensor | None:
    """The sum of all penalties, array by array; None without any."""
    total: l1.Tensor | None = None
    x0, x1, d0 = X0, X1, Ref("d0")
    carried = Cond(d0.eq(0), x1, Num(0.0))
    own = Ref("l1") * Call("abs", (x0,)) + Ref("l2") * (x0 * x0)
    weights = [n for n in g.nodes if isinstance(n, l1.Weight)]
    for k, penalty in enumerate(train.penalties):
        for node in weights:
            if not classes_of(node.out.name, network) & set(penalty.of):
                continue
            if total is None:
                total = g.map("penalty.start", Num(0.0), (), like=l1.Tensor("", ()))
            size = math.prod(node.out.shape)
            flat = g.add(l1.Reindex(l1.Tensor(f"{node.out.name}.flat{k}", (size,)), node.out.name, penalty.span))
            total = g.add(
                l1.Contract(
                    l1.Tensor(f"{node.out.name}.penalty{k}", ()),
                    (("d0", size),),
                    (),
                    (flat.name, total.name),
                    ((along("d0"),), ()),
                    own + carried,
                    scalars=(("l1", penalty.l1), ("l2", penalty.l2)),
                    span=penalty.span,
                )
            )
    return total


@dataclass(frozen=True)
class Lost:
    """`loss`: a scalar; `constants`: to autodiff; `means`: the terms of the loss, each with the count of its mean in
    this batch (several only where gradients are accumulated)."""

    loss: l1.Tensor
    constants: frozenset[str]
    means: tuple[tuple[l1.Tensor, l1.Tensor], ...]


def _means(
    g: GraphBuilder, terms: list[_Term], penalty: l1.Tensor | None, count: l1.Tensor
) -> tuple[tuple[l1.Tensor, l1.Tensor], ...]:
    """The terms of a loss as means, those over the same samples together; the penalty is one over all."""
    groups: dict[str, tuple[l1.Tensor, list[l1.Tensor]]] = {}
    for k, term in enumerate(terms):
        mean = g.map(f"loss.{k}.mean", X0 / X1, (identity(term.total), identity(term.over)))
        groups.setdefault(term.count.name, (term.count, []))[1].append(mean)
    if penalty is not None:
        groups.setdefault(count.name, (count, []))[1].append(penalty)
    out = []
    for k, (counted, parts) in enumerate(groups.values()):
        body: Expr = X0
        for i in range(1, len(parts)):
            body = body + Ref(f"x{i}")
        out.append((g.map(f"loss.means.{k}", body, [identity(p) for p in parts]), counted))
    return tuple(out)


def add_loss(
    g: GraphBuilder,
    train: l0.Train,
    named: dict[str, l1.Tensor],
    mask: l1.Tensor,
    count: l1.Tensor,
    network: l0.Network | None = None,
) -> Lost:
    """Adds `loss` and the metric sums."""
    whole = train.loss
    terms = [("loss", 1.0, whole)]
    if whole.kind == "sum" and whole.masked:  # each term has a separate mean
        terms = [(f"loss.{k}", weight, term) for k, (weight, term) in enumerate(whole.terms)]
    found = [_term(g, term, named, mask, count, name, weight) for name, weight, term in terms]
    means: Expr = X0 / X1
    operands = [identity(t) for part in found for t in (part.total, part.over)]
    for k in range(1, len(found)):
        means = means + Ref(f"x{2 * k}") / Ref(f"x{2 * k + 1}")
    first = found[0]
    total = first.total
    penalty = _penalty(g, train, network) if network is not None else None
    if penalty is not None:
        means = means + Ref(f"x{len(operands)}")
        operands.append(identity(penalty))
        three = (identity(total), identity(first.count), identity(penalty))
        total = g.map("loss.penalised", X0 + X1 * X2, three)
    loss = g.map("loss", means, operands)
    sums = {"loss": total, "count": first.count}
    for k, part in enumerate(found[1:], 1):
        sums |= {f"loss.{k}": part.total, f"count.{k}": part.count}
    for metric in train.metrics:
        of = whole.terms[0][1] if whole.terms else whole
        parts = metric_of(metric).sums(_measured(g, f"batch.{metric}", of, named, first.mask))
        sums |= {f"{metric}.{part}" if part else metric: total for part, total in parts.items()}
    for name, value in sums.items():
        kept = g.add(l1.Variable(l1.Tensor(f"metric.{name}", value.shape), 0.0, wide=True))
        after = g.map(f"metric.{name}.after", X0 + X1, (identity(kept), identity(value)))
        g.add(l1.Store(kept.name, after.name))
    several = train.accumulate > 1 and len(found) > 1
    means_of = _means(g, found, penalty, count) if several else ((loss, first.count),)
    return Lost(loss, frozenset().union(*(part.constants for part in found)), means_of)

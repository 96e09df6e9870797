"""lower_loss: the loss as part of the tensor graph; the metrics are in lower_metrics.py.

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

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.core.errors import Sink
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, substitute
from compiler.expr.parse import parse_expr
from compiler.ir.level1.builder import GraphBuilder, Operand, Scalars, identity
from compiler.ir.space import along
from compiler.passes.layers.lower_metrics import add_metric
from compiler.passes.tensors.expand_updates import classes_of

X0, X1, X2, X3 = (Ref(f"x{i}") for i in range(4))

ELEMENTWISE = {
    "mean_squared_error": "(p - t) * (p - t)",
    "mean_absolute_error": "abs(p - t)",
    # Huber 1964: squares near 0, straight lines outside
    "huber": "0.5 * (p - t) * (p - t) if abs(p - t) <= delta else delta * (abs(p - t) - 0.5 * delta)",
    # log(1 + exp(p)) - p t, for scores p
    "binary_cross_entropy": "softplus(p) - p * (t * (1 - smoothing) + 0.5 * smoothing)",
    # a class of weight 0 is excluded
    "weighted_binary_cross_entropy": "(one * (t * (1 - smoothing) + 0.5 * smoothing) * softplus(-p)"
    " if one * (t * (1 - smoothing) + 0.5 * smoothing) != 0.0 else 0.0)"
    " + (zero * (1 - t * (1 - smoothing) - 0.5 * smoothing) * softplus(p)"
    " if zero * (1 - t * (1 - smoothing) - 0.5 * smoothing) != 0.0 else 0.0)",
    # targets -1 and 1
    "hinge": "max(0.0, 1.0 - p * t)",
    # of log-probabilities p; 0 log 0 is 0
    "kl_divergence": "t * (log(t) - p) if t > 0.0 else 0.0",
}
"""Losses that are a mean (kl_divergence: a sum over the last axis) of one expression over prediction and target."""


@functools.cache
def _body(kind: str) -> Expr:
    sink = Sink()
    tree = parse_expr(ELEMENTWISE[kind], NOWHERE, sink, exact=False)
    sink.check()
    assert tree is not None
    return substitute(tree, {"p": X0, "t": X1})


def _chosen(g: GraphBuilder, name: str, values: l1.Tensor, counted: l1.Tensor) -> l1.Tensor:
    """The values, and 0 where `counted`, which has their first axes, is 0: losses and derivatives of 0 are finite."""
    counts = X1.ne(0.0)
    return g.map(name, Cond(counts, X0, Num(0.0)), (identity(values), _first_axes(counted)))


def _first_axes(counted: l1.Tensor) -> Operand:
    """The operand in a body over more axes than its own."""
    return counted, tuple(range(len(counted.shape)))


def _cross_entropy(
    g: GraphBuilder, loss: l0.Loss, logits: l1.Tensor, target: l1.Tensor, name: str, rank: int
) -> tuple[l1.Tensor, frozenset[str]]:
    """-log softmax(logits)[target] per row, shifted by the largest logit (which cancels in the gradient). With
    smoothing s the target is 1 - s there and s / classes everywhere (Szegedy et al. 2016, section 7). Scores of rows
    whose class has weight 0 are not used."""
    last = len(logits.shape) - 1
    row = tuple(range(last))
    of_class: l1.Tensor | None = None
    if loss.class_weights:
        classes = g.add(
            l1.Constant(l1.Tensor(f"{name}.class_weights", (logits.shape[-1],)), loss.class_weights, loss.span)
        )
        of_class = g.reduce(f"{name}.weight", Cond(Ref(f"d{last}").eq(X0), X1, Num(0.0)),
                            ((target, row), (classes, (last,))), logits, row)  # fmt: skip
        if 0.0 in loss.class_weights:
            logits = _chosen(g, f"{name}.weighted", logits, of_class)
    largest = g.reduce(f"{name}.largest", X0, (identity(logits),), logits, row, combine="max", fill=-math.inf)
    exponent = Call("exp", (X0 - X1,))
    total = g.reduce(f"{name}.total", exponent, (identity(logits), (largest, row)), logits, row)
    here = Ref(f"d{last}").eq(X1)
    scalars: tuple[tuple[str, float], ...] = ()
    chosen: Expr = Cond(here, X0, Num(0.0))
    smoothing = dict(loss.attrs).get("smoothing", 0.0)
    if smoothing:
        part = Cond(here, Ref("right"), Num(0.0))
        chosen = X0 * (part + Ref("everywhere"))
        scalars = (("right", 1.0 - smoothing), ("everywhere", smoothing / logits.shape[-1]))
    picked = g.reduce(f"{name}.picked", chosen, (identity(logits), (target, row)), logits, row, scalars=scalars)
    body: Expr = Call("log", (X0,)) + X1 - X2
    operands: list[Operand] = [identity(total), identity(largest), identity(picked)]
    if of_class is not None:
        body = body * X3
        operands.append(identity(of_class))
    each = g.map(f"{name}.rows" if last == rank else f"{name}.steps", body, operands)
    return _mean(g, f"{name}.rows", X0, (identity(each),), each, rank), frozenset({largest.name})


def _mean(
    g: GraphBuilder,
    name: str,
    body: Expr,
    operands: Sequence[Operand],
    over: l1.Tensor,
    rank: int,
    scalars: Scalars = (),
    summed: int = 0,
    span: Span = NOWHERE,
) -> l1.Tensor:
    """The mean of an expression over all axes but the first `rank` ones; a sum over the last `summed` ones."""
    if rank == len(over.shape):
        whole = body == X0 and operands[0] == identity(over)
        return over if whole else g.map(name, body, operands, like=over, scalars=scalars, span=span)
    share = ("share", 1.0 / math.prod(over.shape[rank : len(over.shape) - summed]))
    part = body * Ref("share")
    return g.reduce(name, part, operands, over, tuple(range(rank)), scalars=(share, *scalars), span=span)


def _elementwise(
    g: GraphBuilder, loss: l0.Loss, prediction: l1.Tensor, target: l1.Tensor, name: str, rank: int
) -> l1.Tensor:
    """The mean over the elements of all but the first `rank` axes."""
    summed = 1 if loss.kind == "kl_divergence" else 0
    operands = (identity(prediction), identity(target))
    weights = tuple(zip(("zero", "one"), loss.class_weights, strict=False))
    body = _body(f"weighted_{loss.kind}" if weights else loss.kind)
    return _mean(g, f"{name}.rows", body, operands, prediction, rank, (*loss.attrs, *weights), summed)


def _cosine(g: GraphBuilder, prediction: l1.Tensor, target: l1.Tensor, name: str, rank: int) -> l1.Tensor:
    """Mean over rows of 1 - p t / (|p| |t|) along the last axis; each norm at least 1e-8, as in PyTorch."""
    keep = tuple(range(len(prediction.shape) - 1))
    p, t = identity(prediction), identity(target)
    dot = g.reduce(f"{name}.dot", X0 * X1, (p, t), prediction, keep)
    pp = g.reduce(f"{name}.prediction", X0 * X0, (p,), prediction, keep)
    tt = g.reduce(f"{name}.target", X0 * X0, (t,), target, keep)
    floor = Num(1e-8)
    sizes = Call("max", (Call("sqrt", (X1,)), floor)) * Call("max", (Call("sqrt", (X2,)), floor))
    body = 1.0 - X0 / sizes
    each = g.map(f"{name}.each", body, (identity(dot), identity(pp), identity(tt)))
    return _mean(g, f"{name}.rows", X0, (identity(each),), each, rank)


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
        operands.append(_first_axes(counted))
    over = l1.Tensor("", tuple(shape), "real", True)
    return _mean(g, f"{name}.rows", body, operands, over, keep, loss.attrs, span=loss.span)


def _rows(
    g: GraphBuilder,
    loss: l0.Loss,
    named: dict[str, l1.Tensor],
    name: str = "loss",
    rank: int = 1,
    counted: l1.Tensor | None = None,
) -> tuple[l1.Tensor, frozenset[str]]:
    """The loss of each row (with a mask: of each of its elements), and the tensors that are constants to autodiff.
    `rank`: its number of axes; `counted`: 0 for elements that a mask excludes."""
    if loss.kind == "sum":
        found: list[l1.Tensor] = []
        constants: frozenset[str] = frozenset()
        for k, (_, term) in enumerate(loss.terms):
            rows, own = _rows(g, term, named, f"loss.{k}")
            found.append(rows)
            constants |= own
        scalars = tuple((f"w{k}", w) for k, (w, _) in enumerate(loss.terms))
        body: Expr = X0 * Ref("w0")
        for k in range(1, len(found)):
            body = body + Ref(f"x{k}") * Ref(f"w{k}")
        return g.map("loss.rows", body, [identity(t) for t in found], scalars=scalars), constants
    if loss.kind == "expression":
        return _expression(g, loss, named, name, rank, counted), frozenset()
    prediction, target = named[loss.prediction], named[loss.target]
    if counted is not None:
        prediction = _chosen(g, f"{name}.prediction.chosen", prediction, counted)
        if target.dtype == "real":
            target = _chosen(g, f"{name}.target.chosen", target, counted)
    if loss.kind == "softmax_cross_entropy":
        return _cross_entropy(g, loss, prediction, target, name, rank)
    if loss.kind == "cosine":
        return _cosine(g, prediction, target, name, rank), frozenset()
    return _elementwise(g, loss, prediction, target, name, rank), frozenset()


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
    rows, constants = _rows(g, loss, named, name, len(counted.shape), None if counted is mask else counted)
    body: Expr = X0 * X1
    scalars: Scalars = ()
    if weight != 1.0:
        body, scalars = body * Ref("weight"), (("weight", weight),)
    total = g.reduce(f"{name}.sum", body, (identity(rows), identity(counted)), rows, (), scalars=scalars)
    return _Term(total, count, over, counted, constants)


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
        sums |= add_metric(g, metric, whole.terms[0][1] if whole.terms else whole, named, first.mask)
    for name, value in sums.items():
        kept = g.add(l1.Variable(l1.Tensor(f"metric.{name}", value.shape), 0.0, wide=True))
        after = g.map(f"metric.{name}.after", X0 + X1, (identity(kept), identity(value)))
        g.add(l1.Store(kept.name, after.name))
    several = train.accumulate > 1 and len(found) > 1
    parts = _means(g, found, penalty, count) if several else ((loss, first.count),)
    return Lost(loss, frozenset().union(*(part.constants for part in found)), parts)

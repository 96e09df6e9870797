"""expand_updates: instantiates the optimizer, defined by statements in the model, on every weight.

Assumes: statements over `param`, `gradient`, `step`, `epoch`, `steps`, `epochs`, the optimizer's params and its state.
Guarantees: one Update per weight that is not frozen, all of one optimizer with the same statements, so that they become
one kernel and one launch; values that differ (of groups, the number of batches) are columns. Norms, of one array or of
all gradients together, are reductions before the Updates, with one text for any number of weights.
Does not: order or fuse them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.core.symbols import model_name, printed, symbol
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, substitute
from compiler.ir.level1.builder import GraphBuilder, Operand, identity
from compiler.ir.space import along
from compiler.layers import KIND
from compiler.passes.tensors.accumulate import Mean, accumulated, with_average

PLATEAU = "plateau.factor"
"""The array that `train: {plateau: ...}` lowers the learning rate by."""


def classes_of(weight: str, network: l0.Network) -> frozenset[str]:
    """The names by which a group may refer to a trained array: its layers, "all", and "weights", "biases" or
    "norms"."""
    layer, _, part = weight.partition(".")
    norm = any(x.name == layer and KIND[x.kind].norm for x in network.layers)
    what = "norms" if norm else "biases" if part.endswith("bias") else "weights"
    others = (x.name for x in network.layers if any(array == weight for _, array in x.shared))
    return frozenset({layer, what, "all", *others})


def expand_updates(
    g: GraphBuilder,
    network: l0.Network,
    train: l0.Train,
    means: Sequence[Mean],
    batches: int,
) -> None:
    """Appends an Update for each weight, in the order in which weights are defined. `means`: the terms of the loss, one
    without accumulation; `batches`: of an epoch."""
    reached = frozenset().union(*(part.gradients for part in means))
    groups = {n: _groups(n, network, train.groups) for n in g.tensors if n in reached}
    names = [n for n, found in groups.items() if not _frozen(found)]
    reads: tuple[tuple[str, str], ...] = ()
    if train.plateau is not None:
        g.add(l1.Variable(l1.Tensor(PLATEAU, ()), 1.0, inner=True))
        reads = (("plateau_factor", PLATEAU),)
    gradients = means[0].gradients
    if train.accumulate > 1:
        gradients = accumulated(g, means, names, train.accumulate)
    if train.clip is not None and train.clip[0] == "norm" and names:
        with g.of(train.span):
            factor = _clip_factor(g, [(n, gradients[n]) for n in names], train.clip[1])
        reads = (*reads, ("clip_factor", factor.name))
    made, found = dict[tuple[l0.OptimizerDef, tuple[int, int]], _Ready](), []
    for name in names:
        chosen, of_groups = _own(groups[name], train.optimizer)
        due = _due(groups[name], train.accumulate)
        if (chosen, due) not in made:
            made[chosen, due] = _ready(chosen, train, batches, due)
        ready, (every, first) = made[chosen, due], due
        own = tuple((p, of_groups.get(p, v)) for p, v in ready.params)
        kept, norms = _with_norms(g, g.tensors[name], gradients[name], own, ready.optimizer, ready.statements, reads)
        state, at = ready.optimizer.state, ready.optimizer.span
        found.append(l1.Update(name, gradients[name].name, own, state, kept, norms, every, first % every, at))
    for update in found:
        g.add(update)


@dataclass(frozen=True)
class _Ready:
    """An optimizer for any weight: its statements, with limits of gradients, and its params with columns of time."""

    optimizer: l0.OptimizerDef
    statements: tuple[l0.Set, ...]
    params: tuple[tuple[str, float], ...]


def _due(groups: Iterable[l0.WeightGroup], accumulate: int) -> tuple[int, int]:
    """Weights change in every so many-th batch, and in which one first (from 1). `accumulate`: batches per step."""
    every, first = next(((g.every, g.first) for g in reversed([*groups]) if g.every), (1, 1))
    return accumulate * every, accumulate * first


def _ready(chosen: l0.OptimizerDef, train: l0.Train, batches: int, due: tuple[int, int]) -> _Ready:
    optimizer = _with_symbols(chosen)
    if train.plateau is not None:
        optimizer = _on_plateau(optimizer)
    if train.average:
        optimizer = with_average(optimizer, train.average)
    statements, params = _timed(optimizer, train, batches, due)
    if train.clip is None:
        return _Ready(optimizer, statements, params)
    clipped: Expr = Ref("gradient") * Ref("clip_factor")
    if train.clip[0] == "value":
        bound = Ref("clip_value")
        params = (*params, (bound.name, train.clip[1]))
        clipped = Call("max", (Call("min", (Ref("gradient"), bound)), 0 - bound))
    limited = tuple(l0.Set(s.target, substitute(s.value, {"gradient": clipped}), s.span) for s in statements)
    return _Ready(optimizer, limited, params)


def _own(groups: Iterable[l0.WeightGroup], optimizer: l0.OptimizerDef) -> tuple[l0.OptimizerDef, dict[str, float]]:
    """The optimizer of a weight and the params that differ, by symbol: another optimizer has its own again."""
    params: dict[str, float] = {}
    for group in groups:
        if group.optimizer is not None:
            optimizer, params = group.optimizer, {}
        params |= {symbol(p): v for p, v in group.params}
    return optimizer, params


def _with_symbols(optimizer: l0.OptimizerDef) -> l0.OptimizerDef:
    """The optimizer with symbols for the names that it declares; those that it is given are the compiler's."""
    declared = {n for n, _ in (*optimizer.params, *optimizer.state)} | {s.target for s in optimizer.update}
    names = {n: symbol(n) for n in declared - {"param"}}
    bindings: dict[str, Expr] = {n: Ref(x) for n, x in names.items()}
    return replace(
        optimizer,
        params=tuple((names[n], v) for n, v in optimizer.params),
        state=tuple((names[n], v) for n, v in optimizer.state),
        update=tuple(
            l0.Set(names.get(s.target, s.target), substitute(s.value, bindings), s.span) for s in optimizer.update
        ),
    )


def _on_plateau(optimizer: l0.OptimizerDef) -> l0.OptimizerDef:
    """The optimizer with its learning rate multiplied by a number that the host writes between epochs."""
    rate = symbol("learning_rate")
    lowered: dict[str, Expr] = {rate: Ref(rate) * Ref("plateau_factor")}
    update = tuple(l0.Set(s.target, substitute(s.value, lowered), s.span) for s in optimizer.update)
    return replace(optimizer, update=update)


def _groups(weight: str, network: l0.Network, groups: Sequence[l0.WeightGroup]) -> list[l0.WeightGroup]:
    classes = classes_of(weight, network) if groups else frozenset()
    return [group for group in groups if classes & set(group.of)]


def _frozen(groups: list[l0.WeightGroup]) -> bool:
    return any(group.frozen for group in groups)


def _timed(
    optimizer: l0.OptimizerDef, train: l0.Train, batches: int, due: tuple[int, int]
) -> tuple[tuple[l0.Set, ...], tuple[tuple[str, float], ...]]:
    """Statements in which `epoch`, `epochs` and `steps` are numbers that are columns, and the params with these; where
    not every batch is a step, `step` follows from the number of the batch and that of the first step. `due`: _due."""
    read = set().union(*(refs(s.value) for s in optimizer.update))
    before, (every, first) = (Ref("step") - 1) // Ref("steps_per_epoch"), due
    steps = (train.epochs * batches + every - first) // every
    given: dict[str, tuple[Expr, tuple[tuple[str, float], ...]]] = {
        "epoch": (1 + before, (("steps_per_epoch", float(batches)),)),
        "epochs": (Ref("last_epoch"), (("last_epoch", float(train.epochs)),)),
        "steps": (Ref("last_step"), (("last_step", float(steps)),)),
    }
    if first < every:
        columns = (("batches_per_step", float(every)), ("batches_ahead", float(every - first)))
        given["step"] = ((Ref("step") + Ref("batches_ahead")) // Ref("batches_per_step"), columns)
    elif every > 1:
        given["step"] = (Ref("step") // Ref("batches_per_step"), (("batches_per_step", float(every)),))
    bindings = {name: value for name, (value, _) in given.items() if name in read}
    extra = tuple(column for name, (_, columns) in given.items() if name in read for column in columns)
    statements = tuple(l0.Set(s.target, substitute(s.value, bindings), s.span) for s in optimizer.update)
    return statements, (*optimizer.params, *extra)


def _clip_factor(g: GraphBuilder, gradients: list[tuple[str, l1.Tensor]], limit: float) -> l1.Tensor:
    """min(1, limit / (norm + 1e-6)), the norm taken over all gradients (Pascanu et al. 2013; PyTorch's 1e-6). The sum
    is chained array by array, so that its text does not depend on the number of arrays."""
    x0, x1, d0 = Ref("x0"), Ref("x1"), Ref("d0")
    total = g.map("clip.start", Num(0.0), (), like=l1.Tensor("", ()))
    carried = Cond(d0.eq(0), x1, Num(0.0))
    for name, gradient in gradients:
        size = math.prod(gradient.shape)
        flat = g.add(l1.Reindex(l1.Tensor(f"{name}.clip.flat", (size,)), gradient.name))
        square: Expr = x0 * x0 + carried
        out = l1.Tensor(f"{name}.clip.sum", ())
        total = g.add(l1.Contract(out, (("d0", size),), (), (flat.name, total.name), ((along("d0"),), ()), square))
    size_of = Call("sqrt", (x0,)) + 1e-6
    body = Call("min", (Num(1.0), Ref("limit") / size_of))
    return g.map("clip.factor", body, (identity(total),), scalars=(("limit", limit),))


def _with_norms(
    g: GraphBuilder,
    weight: l1.Tensor,
    gradient: l1.Tensor,
    params: tuple[tuple[str, float], ...],
    optimizer: l0.OptimizerDef,
    statements: tuple[l0.Set, ...],
    reads: tuple[tuple[str, str], ...],
) -> tuple[tuple[l0.Set, ...], tuple[tuple[str, str], ...]]:
    """The statements without those that take a norm, and the tensors that they read instead: each norm is computed
    ahead, from `param`, `gradient` and the state before the update."""
    if not any(_is_norm(s) for s in statements):
        return statements, reads
    tensors = {"param": weight, "gradient": gradient}
    for name, start in optimizer.state:
        out = l1.Tensor(f"{weight.name}.{model_name(name)}", weight.shape)
        tensors[name] = g.add(l1.Variable(out, start, inner=True, span=optimizer.span))
    values: dict[str, Expr] = {}
    kept: list[l0.Set] = []
    norms = list(reads)
    scalars = {name: g.tensors[tensor] for name, tensor in reads}
    for s in statements:
        if not _is_norm(s):
            kept.append(s)
            values[s.target] = substitute(s.value, values)
            continue
        assert isinstance(s.value, Call)
        body = substitute(s.value.args[0], values)
        operands: list[Operand] = []
        bindings: dict[str, Expr] = {}
        for name in sorted(refs(body) & (tensors.keys() | scalars.keys()), key=lambda n: (printed(n), n)):
            bindings[name] = Ref(f"x{len(operands)}")
            operands.append(identity(tensors[name]) if name in tensors else (scalars[name], ()))
        label = f"{weight.name}.{model_name(s.target)}"
        whole = g.map(f"{label}.of", substitute(body, bindings), operands, like=weight, scalars=params, span=s.span)
        x0 = Ref("x0")
        total = g.reduce(f"{label}.square", x0 * x0, (identity(whole),), whole, (), span=s.span)
        scalars[s.target] = g.map(f"{label}.norm", Call("sqrt", (x0,)), (identity(total),), span=s.span)
        norms.append((s.target, scalars[s.target].name))
        values.pop(s.target, None)
    return tuple(kept), tuple(norms)


def _is_norm(s: l0.Set) -> bool:
    return isinstance(s.value, Call) and s.value.func == "norm"

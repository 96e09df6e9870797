"""differentiate: reverse-mode gradients on the tensor graph.

Assumes: a graph in topological order; `constants` are tensors whose gradient is zero.
Guarantees: gradients of a scalar tensor with respect to all weights, as more pure nodes. A Map differentiates through
its body (compiler/expr/diff.py), a Contract by exchanging its output's index map with an operand's, so that a
convolution's two gradients are again Contracts; a maximum passes its gradient to the first element that attains it; the
gradients of an Attention are others, which read its norms. That of a Gather is a ScatterAdd, and the other way round;
that of elements of its own rows is a comparison with every place of a row.
Contributions are summed in the order of the forward nodes. Only gradients on paths to weights are computed. The
gradient of a Scan is a Scan the other way round (_ScanGradient): what its body needs of the forward steps is an output
of each; gradients of what all steps read are one sum over the rows of all steps, outside.
Does not: bring scatter forms to gather form (decompose) or simplify.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import compiler.ir.level1.graph as l1
from compiler.core.diagnostics import Diagnostic, ModelError
from compiler.core.source import NOWHERE
from compiler.expr.ast import Binary, Call, Cond, Expr, Num, Ref, refs, rewrite, substitute
from compiler.expr.diff import NotDifferentiable, diff
from compiler.expr.simplify import simplify
from compiler.ir.level1.builder import FIRST, GraphBuilder, identity, over
from compiler.ir.space import plain_dim


def _needs_gradient(nodes: Iterable[l1.Node], constants: frozenset[str], needs: set[str]) -> set[str]:
    """Adds to `needs` the tensors that depend on a weight, or on one that is there already."""
    for node in nodes:
        if isinstance(node, l1.Weight):
            needs.add(node.out.name)
        elif isinstance(node, l1.Scan):
            inner = _needs_in_scan(node, needs)
            needs |= {s.whole.name for s in node.stacked if s.part in inner}
            needs |= {c.last.name for c in node.carried if c.last is not None and c.after in inner}
        elif needs & {*l1.operands(node)} - {getattr(node, "index", "")}:
            needs |= {out.name for out in l1.results(node)} - constants
    return needs


def _needs_in_scan(node: l1.Scan, needs: Set[str]) -> set[str]:
    """Tensors of the body that depend on a weight, in any step."""
    inner = set(needs) | {g.part.name for g in node.given if g.whole in needs}
    inner |= {c.state.name for c in node.carried if c.start in needs}
    while True:
        _needs_gradient(node.body, frozenset(), inner)
        more = {c.state.name for c in node.carried if c.after in inner} - inner
        if not more:
            return inner
        inner |= more


Moved = l1.Reindex | l1.StepsFirst | l1.Gather | l1.ScatterAdd
"""Nodes that compute nothing from an element."""

SHARED = 8
"""Contributions to one gradient that are added in one kernel."""


def _chain(g: GraphBuilder, tensor: l1.Tensor, parts: list[l1.Tensor], mark: str) -> l1.Tensor:
    """A pairwise (tree) sum, so that its text does not depend on the number of terms and its depth is logarithmic.
    They are Moves, as no pass joins these into kernels whose text would depend on it."""
    nowhere = (0,) * len(tensor.shape)
    count = 0
    while len(parts) > 1:
        left = parts[: len(parts) % 2]
        for a, b in zip(parts[len(left) :: 2], parts[len(left) + 1 :: 2], strict=True):
            count += 1
            out = l1.Tensor(f"{tensor.name}.grad{mark}.sum.{count}", tensor.shape, "real", tensor.batched)
            left.append(g.add(l1.Move(out, (a.name, b.name), (nowhere, nowhere))))
        parts = left
    return parts[0]


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Num) and e.value == 0


def _shifted(body: Expr, count: int) -> Expr:
    """The body with operands renumbered from 1, so that x0 is the incoming gradient."""
    bindings: dict[str, Expr] = {f"x{i}": Ref(f"x{i + 1}") for i in range(count)}
    return substitute(body, bindings)


def _times_gradient(slope: Expr) -> Expr:
    if isinstance(slope, Num) and slope.value == 1:
        return Ref("x0")
    return simplify(Ref("x0") * slope)


def _through_output(slope: Expr, body: Expr, output: Expr) -> Expr:
    """The derivative in terms of the function's output, so that its argument need not be stored: sigmoid, tanh, exp,
    and relu (whose output is positive exactly where its argument is)."""
    argument = body.args[0] if isinstance(body, Call) and body.func == "relu" else None

    def through(x: Expr) -> Expr:
        if x == body:
            return output
        if isinstance(x, Binary) and x.left == argument and x.op in (">", "<="):
            return Binary(x.op, output, x.right)
        return x

    return rewrite(slope, through, top_down=True)


@dataclass
class _Slopes:
    """Bodies of gradients, shared by equal layers: x0 is the incoming gradient, then come the operands and, of a map,
    its output. None where the derivative is zero."""

    found: dict[tuple[Expr, int, int, bool], Expr | None] = field(default_factory=dict)

    def of(self, node: l1.Map | l1.Contract, k: int) -> Expr | None:
        """The gradient of operand k."""
        key = (node.body, k, len(node.ins), isinstance(node, l1.Map))
        if key not in self.found:
            try:
                self.found[key] = self._of(*key)
            except NotDifferentiable as refused:
                at = node.span if refused.span is NOWHERE else refused.span
                raise ModelError([Diagnostic(refused.code, refused.message, at)]) from None
        return self.found[key]

    @staticmethod
    def _of(body: Expr, k: int, operands: int, is_map: bool) -> Expr | None:
        slope = simplify(diff(body, f"x{k}"))
        if _is_zero(slope):
            return None
        if is_map and not isinstance(body, Ref):
            slope = _through_output(slope, body, Ref(f"x{operands}"))
        return _times_gradient(_shifted(slope, operands + is_map))


def _map_gradient(
    g: GraphBuilder, slopes: _Slopes, node: l1.Map, gradient: l1.Tensor, k: int, name: str
) -> l1.Tensor | None:
    body = slopes.of(node, k)
    if body is None:
        return None
    operand = g.tensors[node.ins[k]]
    operands = [identity(gradient)] + [(g.tensors[i], m) for i, m in zip(node.ins, node.maps, strict=True)]
    operands.append(identity(node.out))
    out_axes = tuple(range(len(node.out.shape)))
    if node.maps[k] == out_axes:
        return g.map(name, body, operands, like=operand, scalars=node.scalars, span=node.span)
    keep = [a for a in node.maps[k] if a is not None]
    assert len(keep) == len(node.maps[k]), "axes of extent 1 are lowered without broadcasting"
    return g.reduce(name, body, operands, node.out, keep, scalars=node.scalars, span=node.span)


def _contract_gradient(
    g: GraphBuilder, slopes: _Slopes, node: l1.Contract, gradient: l1.Tensor, k: int, name: str
) -> l1.Tensor | None:
    body = slopes.of(node, k)
    if body is None:
        return None
    operand, used = g.tensors[node.ins[k]], refs(body)
    out, scalars = (
        l1.Tensor(name, operand.shape, "real", operand.batched),
        tuple(s for s in node.scalars if s[0] in used),
    )
    made = replace(node, out=out, out_map=node.in_maps[k], fill=0.0, scalars=scalars)
    return g.add(over(made, body, (gradient.name, *node.ins), (node.out_map, *node.in_maps)))


def _extreme_gradient(g: GraphBuilder, node: l1.Contract, gradient: l1.Tensor, name: str) -> l1.Tensor:
    """The gradient goes to the first element (in the order of the reduced dims) that equals the maximum or minimum."""
    x = g.tensors[node.ins[0]]
    reduced = [(d, e) for d, e in node.dims if d not in {t for a in node.out_map for t, _ in a.terms}]
    position: Expr = Ref(reduced[0][0]) if reduced else Num(0)
    for d, extent in reduced[1:]:
        position = simplify(position * extent + Ref(d))
    at = Call("float", (position,))
    first = g.add(
        replace(
            node,
            out=l1.Tensor(f"{name}.first", node.out.shape, "real", node.out.batched),
            ins=(x.name, node.out.name),
            in_maps=(node.in_maps[0], node.out_map),
            body=Cond(Ref("x0").eq(Ref("x1")), at, Num(FIRST)),
            combine="min",
            fill=math.nan,  # equal to nothing: padding is not a candidate
            scalars=(),
        )
    )
    made = replace(node, out=l1.Tensor(name, x.shape, "real", x.batched), out_map=node.in_maps[0], combine="add")
    taken, walks = Cond(Ref("x1").eq(at), Ref("x0"), Num(0.0)), (node.out_map, node.out_map)
    return g.add(replace(made, ins=(gradient.name, first.name), in_maps=walks, body=taken, fill=0.0, scalars=()))


def _ones(g: GraphBuilder, loss: l1.Tensor, mark: str) -> l1.Tensor:
    """d loss / d loss."""
    return g.map(f"loss.grad{mark}", Num(1.0), (), like=loss)


def differentiate(g: GraphBuilder, loss: l1.Tensor, constants: frozenset[str], mark: str = "") -> dict[str, l1.Tensor]:
    """Adds gradient nodes to the graph; returns the gradient tensor of every weight by name. `mark`: common part of the
    names of one of several gradients."""
    back = _Backward(g, mark, _needs_gradient(g.nodes, constants, set()), {loss.name: [_ones(g, loss, mark)]})
    gradients: dict[str, l1.Tensor] = {}
    for at in range(len(g.nodes) - 1, -1, -1):
        node = g.nodes[at]
        with g.of(getattr(node, "span", NOWHERE)):
            if isinstance(node, l1.Weight):
                gradient = back.total(node.out)
                if gradient is not None:
                    gradients[node.out.name] = gradient
            elif isinstance(node, l1.Scan):
                _ScanGradient(back, at, node).run()
            else:
                back.through(node)
    return gradients


@dataclass
class _Backward:
    """A reverse sweep. `needs`: tensors whose gradient is needed; `parts`: tensor -> contributions of its readers;
    `around`: those of the sweep that this one, through the body of a Scan, is part of."""

    g: GraphBuilder
    mark: str
    needs: set[str]
    parts: dict[str, list[l1.Tensor]]
    slopes: _Slopes = field(default_factory=_Slopes)
    around: Mapping[str, Sequence[l1.Tensor]] = field(default_factory=dict)

    def total(self, tensor: l1.Tensor) -> l1.Tensor | None:
        parts = self.parts.get(tensor.name)
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        if len(parts) > SHARED:
            return _chain(self.g, tensor, parts, self.mark)
        body: Expr = Ref("x0")
        for i in range(1, len(parts)):
            body = body + Ref(f"x{i}")
        name = f"{tensor.name}.grad{self.mark}.sum"
        return self.g.map(name, body, [identity(t) for t in parts], like=tensor)

    def contribute(self, operand: str, tensor: l1.Tensor | None) -> None:
        if tensor is not None:
            self.parts.setdefault(operand, []).append(tensor)

    def part_name(self, operand: str) -> str:
        number = len(self.parts.get(operand, ())) + len(self.around.get(operand, ()))
        return f"{operand}.grad{self.mark}" if number == 0 else f"{operand}.grad{self.mark}.{number}"

    def through(self, node: l1.Node) -> None:
        """Contributes to the gradients of the operands of `node`."""
        if not isinstance(node, l1.Map | l1.Contract | l1.Move | l1.Attention | Moved):
            return
        if node.out.name not in self.needs:
            return
        gradient = self.total(node.out)
        if gradient is None:
            return
        if isinstance(node, l1.Gather) and node.own:
            self._picked(node, gradient)
            return
        if isinstance(node, Moved):
            self._moved(node, gradient)
            return
        if isinstance(node, l1.Attention):
            self._attention(node, gradient)
            return
        for k, operand in enumerate(node.ins):
            if operand not in self.needs:
                continue
            name = self.part_name(operand)
            if isinstance(node, l1.Map):
                self.contribute(operand, _map_gradient(self.g, self.slopes, node, gradient, k, name))
            elif isinstance(node, l1.Move):
                out, back = replace(self.g.tensors[operand], name=name), tuple(-at for at in node.offsets[k])
                self.contribute(operand, self.g.add(l1.Move(out, (gradient.name,), (back,), span=node.span)))
            elif node.combine == "add":
                self.contribute(operand, _contract_gradient(self.g, self.slopes, node, gradient, k, name))
            else:
                assert len(node.ins) == 1
                self.contribute(operand, _extreme_gradient(self.g, node, gradient, name))

    def _moved(self, node: Moved, gradient: l1.Tensor) -> None:
        """The gradient moves back: elements of a Gather are added up where they come from, and the other way round."""
        source = self.g.tensors[node.table if isinstance(node, l1.Gather) else node.source]
        out = l1.Tensor(self.part_name(source.name), source.shape, "real", source.batched)
        match node:
            case l1.Gather():
                back: l1.Node = l1.ScatterAdd(out, gradient.name, node.index, node.span)
            case l1.ScatterAdd():
                back = l1.Gather(out, gradient.name, node.index, span=node.span)
            case l1.StepsFirst():
                back = replace(node, out=out, source=gradient.name, back=not node.back)
            case l1.Reindex():
                back = replace(node, out=out, source=gradient.name)
        self.contribute(source.name, self.g.add(back))

    def _picked(self, node: l1.Gather, gradient: l1.Tensor) -> None:
        """Every place of a row compares itself with the index, so that the other gradients of a row join it: for
        softmax they are there at all places."""
        table, last = self.g.tensors[node.table], len(node.out.shape)
        row, here = tuple(range(last)), Cond(Ref(f"d{last}").eq(Ref("x1")), Ref("x0"), Num(0.0))
        operands = ((gradient, row), (self.g.tensors[node.index], row))
        name = self.part_name(node.table)
        self.contribute(node.table, self.g.reduce(name, here, operands, table, (*row, last), span=node.span))

    def _attention(self, node: l1.Attention, gradient: l1.Tensor) -> None:
        """Contributes to the gradients of query, key and value; those beside them have none (layers/attention.py)."""
        norms = l1.Tensor(f"{node.out.name}.grad{self.mark}.norms", (*node.out.shape[:3], 2), "real", True)
        self.g.add(replace(node, out=norms, of="norms"))
        ins = (*node.ins, gradient.name, norms.name, node.out.name)
        for operand, of in zip(node.ins, ("query", "key", "value"), strict=False):
            if operand in self.needs:
                out = replace(self.g.tensors[operand], name=self.part_name(operand))
                self.contribute(operand, self.g.add(replace(node, out=out, ins=ins, of=of)))


class _ScanGradient:
    """The gradient of node number `at`, a Scan: `inner` goes backwards through its body, `given`, `carried` and
    `stacked` are those of the Scan that it becomes."""

    def __init__(self, back: _Backward, at: int, node: l1.Scan) -> None:
        self.back, self.at, self.node = back, at, node
        own = {c.state.name: c.state for c in node.carried} | {g.part.name: g.part for g in node.given}
        self.own = own | {n.out.name: n.out for n in node.body}
        self.body = GraphBuilder([], {**back.g.tensors, **self.own})
        self.inner = _Backward(self.body, back.mark, _needs_in_scan(node, back.needs), {}, back.slopes, back.parts)
        self.given: list[l1.Given] = []
        self.carried: list[l1.Carried] = []
        self.stacked: dict[str, l1.Stacked] = {}

    def run(self) -> None:
        states = self._incoming()
        if not self.inner.parts:
            return
        for node in reversed(self.node.body):
            self.inner.through(node)
        for given in self.node.given:
            whole = self.back.g.tensors[given.whole]
            total = self.inner.total(given.part) if whole.name in self.back.needs else None
            if total is not None:
                name = self.back.part_name(whole.name)
                self.stacked[total.name] = l1.Stacked(replace(whole, name=name), total.name)
                self.back.contribute(whole.name, self.stacked[total.name].whole)
        for c, state, start in states:
            total = self.inner.total(c.state)
            if total is None:
                total = self.body.map(f"{c.state.name}.grad{self.back.mark}", Num(0.0), (), like=c.state)
            last = replace(c.state, name=self.back.part_name(c.start)) if c.start in self.back.needs else None
            self.back.contribute(c.start, last)
            self.carried.append(l1.Carried(state, start.name, total.name, last))
        self._add(*self._split())

    def _incoming(self) -> list[tuple[l1.Carried, l1.Tensor, l1.Tensor]]:
        """The gradients that a step begins with: of its outputs, and of its states (the state's own, the one that later
        steps carry, and what that is after the last step)."""
        g, mark, found = self.back.g, self.back.mark, []
        for s in self.node.stacked:
            total = self.back.total(s.whole) if s.part in self.inner.needs else None
            if total is not None:
                part = replace(self.own[s.part], name=f"{s.part}.outer{mark}.grad")
                self.given.append(l1.Given(part, total.name))
                self.inner.contribute(s.part, part)
        ends = [c.last and self.back.total(c.last) for c in self.node.carried]
        if not self.given and not any(ends):
            return []
        for c, end in zip(self.node.carried, ends, strict=True):
            if c.after in self.inner.needs:
                state = replace(c.state, name=f"{c.after}.later{mark}.grad")
                start = end or g.map(f"{c.after}.later{mark}.grad.start", Num(0.0), (), like=c.state)
                self.inner.contribute(c.after, state)
                found.append((c, state, start))
        return found

    def _split(self) -> tuple[list[l1.Map | l1.Contract | l1.Reindex], list[tuple[str, l1.Contract]]]:
        """The body; and, with the operand that each is for, gradients of what all steps read."""
        outside = {t.name: k for k in self.inner.parts for t in self.inner.parts[k] if k not in self.own}
        body: list[l1.Map | l1.Contract | l1.Reindex] = []
        apart: list[tuple[str, l1.Contract]] = []
        for node in self.body.nodes:
            assert isinstance(node, l1.Map | l1.Contract | l1.Reindex)
            if node.out.name in outside:
                assert isinstance(node, l1.Contract) and not node.out.batched, "what all steps read has no batch"
                apart.append((outside[node.out.name], node))
            else:
                body.append(node)
        return body, apart

    def _add(self, body: list[l1.Map | l1.Contract | l1.Reindex], apart: list[tuple[str, l1.Contract]]) -> None:
        forward = {s.part: s.whole.name for s in self.node.stacked} | {g.part.name: g.whole for g in self.node.given}
        kept: list[l1.Stacked] = []

        def whole(part: l1.Tensor) -> l1.Tensor:
            """The tensor of a step, of all steps."""
            rows = part.shape[0] * self.node.steps
            return replace(part, name=f"{part.name}.steps", shape=(rows, *part.shape[1:]))

        def of_forward(name: str) -> str:
            if name not in forward:
                kept.append(l1.Stacked(whole(self.own[name]), name))
                forward[name] = kept[-1].whole.name
            return forward[name]

        read = dict.fromkeys(i for node in body for i in l1.operands(node) if i in self.own)
        self.given += [l1.Given(self.own[name], of_forward(name)) for name in read]
        made = {n.out.name: n.out for n in body} | {g.part.name: g.part for g in self.given}
        inside = {**made, **{c.state.name: c.state for c in self.carried}}
        sums = []
        for operand, node in apart:
            ins = []
            for name in node.ins:
                if name in self.own:
                    name = of_forward(name)
                elif name in inside:
                    stacked = self.stacked.setdefault(name, l1.Stacked(whole(inside[name]), name))
                    name = stacked.whole.name
                ins.append(name)
            sums.append((operand, self._over_steps(node, tuple(ins))))
        g = self.back.g
        if kept:
            g.nodes[self.at] = replace(self.node, stacked=(*self.node.stacked, *kept))
            g.tensors |= {s.whole.name: s.whole for s in kept}
        parts = tuple(self.carried), tuple(self.given), tuple(self.stacked.values()), tuple(body)
        g.add(l1.Scan(self.node.name, self.node.steps, *parts, not self.node.reverse, self.node.span))
        for operand, total in sums:
            name = self.back.part_name(operand)
            self.back.contribute(operand, g.add(replace(total, out=replace(total.out, name=name))))

    def _over_steps(self, node: l1.Contract, ins: tuple[str, ...]) -> l1.Contract:
        """A sum over samples as one over the rows of all steps."""
        batched = [axes[0] for n, axes in zip(node.ins, node.in_maps, strict=True) if self.body.tensors[n].batched]
        (samples,) = {plain_dim(axis) for axis in batched}
        dims = tuple((d, e * self.node.steps if d == samples else e) for d, e in node.dims)
        return replace(node, dims=dims, ins=ins)

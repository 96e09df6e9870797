"""lower_tensors: tensor graphs become arrays, kernels and the launches of their phases.

Assumes: graphs in gather form, simplified and fused; the phases share weights and variables by name.
Guarantees: a node becomes one row of a kernel; nodes of equal structure share the kernel whatever their shapes; all
updates of one optimizer are one kernel and one launch. A Map that only feeds a Store writes the variable in place. Maps
that follow a contraction (fuse_epilogues) are its kernel's epilogue; others may share one (horizontal_fusion), like
reductions (fuse_sums). So do the context and the norms of one attention, and the gradients of its keys and values.
Does not: fuse or differentiate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
import compiler.passes.kernels.lower_weights as weights
from compiler.expr.ast import Expr, Num, Ref, refs, substitute
from compiler.ir.level1.builder import axis_dims
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType, Role, plain_dim
from compiler.layout.assign_layouts import real_lanes, strides_of
from compiler.passes.fusion.fuse_epilogues import Epilogue, epilogues
from compiler.passes.fusion.fuse_rows import Row, fits, rows
from compiler.passes.fusion.fuse_sums import joined_sums
from compiler.passes.fusion.horizontal_fusion import siblings
from compiler.passes.fusion.reuse_arrays import reused
from compiler.passes.kernels.axis_words import axis_words
from compiler.passes.kernels.lower_epilogues import End, accumulator, add_scalars, lower_end, lower_group
from compiler.passes.kernels.lower_exchanged import copied, exchange_steps
from compiler.passes.kernels.lower_feeds import lower_source
from compiler.passes.kernels.lower_gathers import lower_elements
from compiler.passes.kernels.lower_rows import lower_row
from compiler.passes.kernels.lower_scan import Steps, enter, leave, lower_steps_first, name_of, own_starts, reserve
from compiler.passes.kernels.nest_builder import Loops, Walk
from compiler.passes.kernels.place_parts import place_parts
from compiler.passes.kernels.tensor_phase import (
    PLACES,
    WORKSPACE,
    Phase,
    Touched,
    emit_row,
    emit_walked,
    meaning,
)
from compiler.passes.layers.load_data import DataSet
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.decisions import Decision
from compiler.strategies import Choice
from compiler.strategies.cuda.fused_attention import wide_of
from compiler.strategies.pins import Pins, Refused, path_of, pinned

ROWS: Final = ("train", "eval", "predict")
"""Phases whose kernels are launched, not run in waves."""
_TOGETHER: Final = {"context": ("norms",), "key": ("value",), "value": ("key",)}
"""What is computed with a result, if it is wanted."""


def _maps(p: Phase, group: Epilogue, in_place: Mapping[str, str]) -> None:
    """An elementwise kernel."""
    end = lower_group(p, group, in_place)
    dims, result, span = axis_dims(group.maps[0].out.shape), end.arrays[0].walk.tensor, group.maps[0].span
    loops = p.loops([t.walk for t in end.arrays], dims, [d for d, _ in dims])
    nest = l2.Nest(loops.dims, tuple(end.statements))
    emit_walked(p, result, "elementwise", end.arrays, loops, nest, span, tuple(end.scalars.items()))


def _windows(node: l1.Contract, tensors: Mapping[str, l1.Tensor]) -> frozenset[str]:
    """Dims of kernel windows, whose extents are structure: they stand beside another dim in an index, and index neither
    the output nor an axis of a batched tensor by themselves (output pixels do, in the gradient of the weights)."""
    outer = {d for a in node.out_map for d, _ in a.terms}
    for name, axes in zip(node.ins, node.in_maps, strict=True):
        if tensors[name].batched:
            outer |= {a.terms[0][0] for a in axes if len(a.terms) == 1 and a.div == 1}
    found: set[str] = set()
    for axes in node.in_maps:
        for axis in axes:
            if len(axis.terms) > 1:
                found.update(d for d, _ in axis.terms if d not in outer)
    return frozenset(found)


def _contract(
    p: Phase, node: l1.Contract, epilogue: Epilogue | None, in_place: Mapping[str, str], beside: Sequence[l1.Contract]
) -> None:
    for reduction in (*beside, node):
        choice, reason = _strategy(p, reduction)
        if _is_product(reduction):
            way = choice.strategy if choice is not None else "nest"
            p.decisions.append(Decision("choose_strategies", f"{p.graph.phase}: {reduction.out.name}", way, reason))
    if choice is not None and choice.exchange is not None:
        steps = exchange_steps(p, node, choice.exchange)
        for step in (*steps.copies, steps.node, *steps.after):
            inner = choice.exchange.inner if step is steps.node else None
            _sum_by(p, replace(step, span=node.span), inner, None, steps.in_place)
        node, choice = replace(steps.result, span=node.span), None
    elif choice is not None and choice.bare and epilogue is not None:
        sums = replace(node.out, name=f"{node.out.name}.sums")
        p.tensors[sums.name] = sums
        _sum_by(p, replace(node, out=sums), choice, None, {})
        node, choice = replace(copied(node.out, sums), span=node.span), None
    _sum_by(p, node, choice, epilogue, in_place, beside)


def _strategy(p: Phase, node: l1.Contract) -> tuple[Choice | None, str]:
    """The strategy of a contraction (None: a generic nest), and why."""
    if p.builder.order is l2.Order.BITWISE:
        return None, "sums have their declared order (order: bitwise)"
    return _chosen(p, node)


def _is_plain(p: Phase, node: l1.Contract) -> bool:
    """Whether a generic nest computes a contraction."""
    return _strategy(p, node)[0] is None


def _is_row(p: Phase, node: l1.Contract) -> bool:
    """Whether the threads that share a row of a reduction may go on with its elements."""
    return p.rows and p.lanes == 0 and p.builder.order is not l2.Order.BITWISE and fits(node, p.device)


def _separate(node: l1.Contract) -> frozenset[str]:
    """The dims that its body reads."""
    return frozenset(refs(node.body) & {d for d, _ in node.dims})


def _is_product(node: l1.Contract) -> bool:
    return len(node.ins) == 2 and node.combine == "add" and not _separate(node)


def _operands(p: Phase, node: l1.Contract, beside: Sequence[l1.Contract], end: End) -> tuple[list[Touched], list[Expr]]:
    """The arrays that the terms of reductions read, and the terms of those `beside` the first one, whose scalars are
    added to those of the kernel."""
    walks = list(zip(node.ins, node.in_maps, strict=True))
    terms = []
    for other in beside:
        names = add_scalars(other.scalars, end)
        for k, walk in enumerate(zip(other.ins, other.in_maps, strict=True)):
            walks += [] if walk in walks else [walk]
            names[f"x{k}"] = Ref(f"x{walks.index(walk)}")
        terms.append(substitute(other.body, names))
    return [p.touched(Walk(f"x{k}", p.tensors[name], axes)) for k, (name, axes) in enumerate(walks)], terms


def _sum_by(
    p: Phase,
    node: l1.Contract,
    choice: Choice | None,
    epilogue: Epilogue | None,
    in_place: Mapping[str, str],
    beside: Sequence[l1.Contract] = (),
) -> None:
    """The kernel of a contraction by a strategy (None: a generic nest), with its epilogue; of several reductions."""
    parallel, tiles = [a.terms[0][0] for a in node.out_map], p.tiled.get(node.out.name, ())
    end = lower_end(p, node, node.out_map, epilogue, in_place, beside, tiles)
    operands, terms = _operands(p, node, beside, end)
    arrays = [end.arrays[0], *operands, *end.arrays[1:]]
    separate = _separate(node)
    # A strategy has every extent as a column; the generic nest has its windows as structure.
    windows = _windows(node, p.tensors) if choice is None else frozenset()
    plain = node.walks_plainly and choice is None and (len(node.ins) != 2 or bool(beside))
    loops = p.loops(
        [t.walk for t in arrays],
        node.dims,
        parallel,
        windows,
        separate if plain or (choice is not None and choice.joined) else frozenset(d for d, _ in node.dims),
        choice is not None,
    )
    real, more = p.builder.precision, list[tuple[l2.ArrayFormal, str]]()
    sums = tuple(l2.Sum(accumulator(k), term) for k, term in enumerate(terms, 1))
    nest = l2.Nest(loops.dims, (), node.combine, node.body, "acc", tuple(end.statements), node.fill, sums)
    # One term, that the identity is combined with. Elsewhere sums are read several neighbours at a time, light or not.
    if choice is None and p.lanes and not nest.red and not beside:
        term = Num(0.0) + node.body if node.combine == "add" else node.body
        nest = l2.Nest(loops.dims, (l2.Assign("acc", term, node.span), *end.statements), fill=node.fill)
    columns: dict[str, int] = {}
    body: l2.Nest | l2.Contract = nest
    if choice is not None:
        columns = {**dict(choice.columns), "scratch_bytes": choice.scratch_bytes}
        if "chosen" in (literals := dict(choice.literals)):
            more.append((replace(PLACES, dtype=real), p.chosen_in[node.ins[literals["chosen"]]]))
        if choice.workspace:
            array = p.workspace(f"{node.out.name}.workspace", choice.workspace, node.span)
            more.append((replace(WORKSPACE, dtype=real), array))
        flat = choice.tiled is not None and all(_is_flat(p, t.walk, node) for t in (arrays[0], *end.arrays[1:]))
        if tiles and choice.tiled is not None:
            of = choice.tiled
            columns |= {"tile_lines": of.lines, "tile_rows": of.rows, "tiles": of.count}
            made = (l2.ArrayFormal(s.target, real, l2.Mode.WRITE, l2.ByName()) for s in end.sums)
            more += zip(made, (p.arrays[x.out.name] for x in tiles), strict=True)
        apart = any(_is_apart(p, t.walk, node) for t in (arrays[0], *end.arrays[1:]))
        body = l2.Contract(nest, choice.strategy, choice.literals, "scratch_bytes", tuple(end.sums), flat, apart)
    what, scalars = _what(node, choice, beside, loops), tuple(end.scalars.items())
    emit_walked(p, arrays[0].walk.tensor, what, arrays, loops, body, node.span, scalars, more, columns)


def _is_apart(p: Phase, walk: Walk, node: l1.Contract) -> bool:
    """Whether other elements lie between the lines of a result's last axis in an array: as those of a longer array, or
    because its axes are in another order."""
    placed, own = p.placed(walk.tensor), [d for a in range(len(walk.axes)) if (d := walk.dim(a)) is not None]
    last = [plain_dim(a) for a in node.out_map[-2:]]
    turned = {*last} <= {*own} and not any(own[k : k + len(last)] == last for k in range(len(own)))
    return turned or (len(placed.shape) > 1 and bool(placed.whole) and placed.whole[-1] != placed.shape[-1])


def _is_flat(p: Phase, walk: Walk, node: l1.Contract) -> bool:
    """Whether what an epilogue reaches has all axes of a result but the last, in the order of memory, or none."""
    rows, own = [plain_dim(a) for a in node.out_map[:-1]], [walk.dim(a) for a in range(len(walk.axes))]
    whole = own[: len(rows)] == rows and walk.tensor.shape[: len(rows)] == node.out.shape[:-1] and None not in own
    return (whole or not {*own} & {*rows}) and not (p.placed(walk.tensor).whole or p.placed(walk.tensor).steps_first)


def _row(p: Phase, row: Row, in_place: Mapping[str, str]) -> None:
    first = row.sums[0]
    for node in row.sums:
        if _is_product(node):
            reason = _strategy(p, node)[1]
            p.decisions.append(Decision("choose_strategies", f"{p.graph.phase}: {node.out.name}", "nest", reason))
    end, (start, *then), each = lower_row(p, row, in_place)
    windows, parallel = _windows(first, p.tensors), [a.terms[0][0] for a in first.out_map]
    separate = frozenset(d for d, _ in first.dims) if windows else frozenset().union(*map(_separate, row.contracts))
    loops = p.loops([t.walk for t in end.arrays], first.dims, parallel, windows, separate)
    (acc, *beside), combine = start.sums, start.combine
    nest = l2.Nest(
        loops.dims, (), combine, acc.term, acc.acc, start.epilogue, first.fill, tuple(beside), tuple(then), each
    )
    what = _what(first, None, row.sums[1:], loops)
    what = what.replace("sums", "rows").replace("maxima", "rows").replace("minima", "rows")
    scalars = tuple(end.scalars.items())
    emit_walked(p, end.arrays[0].walk.tensor, what, end.arrays, loops, nest, first.span, scalars)


def _chosen(p: Phase, node: l1.Contract) -> tuple[Choice | None, str]:
    """The pinned strategy, where the pin is valid, or the one chosen by rule; and why."""
    pin = p.pins.get(path_of(p.graph.phase, node.out))
    if pin is None:
        return p.choose(node)
    order = p.builder.order.value
    found = pinned(pin, node, p.tensors, p.lanes, p.real_bytes, order, p.available, p.device)
    if isinstance(found, Refused):
        choice, reason = p.choose(node)
        return choice, f"{reason}; not as {pin.source} says: {found.reason}"
    return found, f"{pin.source}: {pin.way}, measured {pin.microseconds:.1f} us"


def _what(node: l1.Contract, choice: Choice | None, beside: Sequence[l1.Contract], loops: Loops) -> str:
    if choice is not None:
        return choice.strategy.replace("_", " ")
    words = {"add": "sum", "max": "maximum", "min": "minimum"}
    if beside:
        words = {"add": "sums", "max": "maxima", "min": "minima"}
    elif len(node.dims) == len(node.out_map):
        return "copy" if node.body == Ref("x0") else "elementwise"
    return f"{words[node.combine]} over " + ", ".join(
        loops.words.get(d, d) for d, _ in node.dims if d not in {t for a in node.out_map for t, _ in a.terms}
    )


def _attention(p: Phase, node: l1.Attention) -> None:
    """The kernel of a result, unless another one's has it."""
    if node.out.name in p.arrays:
        return
    made = [node, *(n for n in p.graph.nodes if isinstance(n, l1.Attention) and _computed_with(n, node))]
    of = {n.of: n for n in made}
    back = node.of not in ("context", "norms")
    given = ["query", "key", "value", *node.beside, *(("context_grad", "norms", "context") if back else ())]
    bound = {formal: p.arrays[name] for formal, name in zip(given, node.ins, strict=True)}
    formals = [_formal(p, formal, name, node, l2.Mode.READ) for formal, name in zip(given, node.ins, strict=True)]
    for kind, result in sorted(of.items()):
        formal = f"{kind}_grad" if back else kind
        bound[formal] = p.arrays[result.out.name] = p.temporary(result.out, node.span)
        formals.append(_formal(p, formal, result.out.name, node, l2.Mode.WRITE))
    (batch, steps, heads, d), (_, keys, *_), (*_, e) = (p.tensors[n].shape for n in node.ins[:3])
    columns = {"batch": batch, "heads": heads, "steps": steps, "keys": keys, "d": d, "e": e}
    for formal, operand in zip(given[:3], node.ins, strict=False):
        columns[f"{formal}_by_step"] = strides_of(p.placed(p.tensors[operand]), p.lanes)[1]
    for name, operand in zip(node.beside, node.ins[3:], strict=False):
        shape = (heads, steps, keys)[4 - len(p.tensors[operand].shape) :]
        by = {1: (keys, 0, 0), 2: (steps * keys, 0, keys), 3: (heads * steps * keys, steps * keys, keys)}[len(shape)]
        columns |= dict(zip((f"{name}_by_{x}" for x in ("sample", "head", "step")), by, strict=True))
    wide = wide_of(d, e)
    assert wide is not None
    body = l2.Attention(tuple(sorted(of)), wide, node.factors, node.causal, node.beside)
    what = f"attention{' backward' if back else ''}"
    emit_row(p, node.out, what, formals, bound, columns, (("scale", node.scale),), body, node.span)


def _computed_with(other: l1.Attention, node: l1.Attention) -> bool:
    """Whether one kernel computes both: no more than their results differ."""
    return other.of in _TOGETHER.get(node.of, ()) and replace(other, out=node.out, of=node.of) == node


def _formal(p: Phase, formal: str, name: str, node: l1.Attention, mode: l2.Mode) -> l2.ArrayFormal:
    tensor = p.tensors[name]
    return l2.ArrayFormal(formal, p.dtype(tensor), mode, l2.ByName(), meaning(tensor, node.out))


def _in_place(nodes: tuple[l1.Node, ...]) -> dict[str, str]:
    """Maps whose only reader is a Store, and whose variable nothing reads afterwards: map -> variable."""
    readers = l1.readers_of(nodes)
    made = {node.out.name: i for i, node in enumerate(nodes) if isinstance(node, l1.Map)}
    return {
        node.value: node.target
        for node in nodes
        if isinstance(node, l1.Store) and node.value in made and len(readers[node.value]) == 1
        if all(i <= made[node.value] for i in readers.get(node.target, ()))
    }


@dataclass(frozen=True)
class _Kernels:
    """Which nodes share a kernel. `fused`: epilogues of contractions; `beside`: reductions by the first of them;
    `groups`: maps by the first of them; `in_place`: map -> the variable that it writes; `there`: the same, and result
    -> the operand whose array it reuses; `rows`: kernels of rows by their first reduction; `early`: that reduction, by
    the first of their maps."""

    fused: Mapping[str, Epilogue]
    beside: Mapping[str, tuple[l1.Contract, ...]]
    groups: Mapping[str, Epilogue]
    in_place: dict[str, str]
    there: dict[str, str]
    rows: Mapping[str, Row]
    early: Mapping[str, str]

    def starts(self, nodes: tuple[l1.Node, ...]) -> dict[str, l1.Contract]:
        """The contraction with which the kernel of a tensor begins, where one does."""
        found = {n.out.name: n for n in nodes if isinstance(n, l1.Contract)}
        ends = ((m.out.name, first) for first, end in self.fused.items() for m in end.maps)
        return found | {name: found[first] for name, first in ends if first in found}

    @cached_property
    def inside(self) -> frozenset[str]:
        """Results of reductions in the kernels of others."""
        groups = (*self.beside.values(), *(row.contracts for row in self.rows.values()))
        return frozenset(x.out.name for group in groups for x in group)


def _kernels(p: Phase, nodes: tuple[l1.Node, ...], outputs: tuple[str, ...]) -> _Kernels:
    in_place = _in_place(nodes)
    fused, first = epilogues(nodes, outputs, in_place)
    sums, second = joined_sums(nodes, outputs, in_place, fused, partial(_is_plain, p))
    groups, third = siblings(nodes, outputs, in_place, sums.fused)
    shared = {m.out.name for e in (*fused.values(), *groups.values()) for m in e.maps}
    for node in nodes:
        if isinstance(node, l1.Map) and node.out.name not in shared:
            groups[node.out.name] = Epilogue((node,), frozenset({node.out.name}))
    found, fourth = rows(nodes, outputs, in_place, sums, groups, partial(_is_row, p), partial(_is_plain, p))
    early = {row.maps[0].out.name: name for name, row in found.items() if row.maps}
    p.decisions += [d.within(p.graph.phase) for d in (*first, *second, *third, *fourth)]
    return _Kernels(sums.fused, sums.groups, groups, in_place, in_place, found, early)


def _reusing(p: Phase, nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], kernels: _Kernels) -> _Kernels:
    """With results in the arrays of operands."""
    kept = (*outputs, *p.held)
    again, made = reused(nodes, kept, kernels.in_place, kernels.fused, kernels.groups, kernels.early)
    p.decisions += [d.within(p.graph.phase) for d in made]
    return replace(kernels, there=kernels.in_place | again)


def _lower_phase(p: Phase, data: DataSet) -> None:
    nodes = own_starts(p.graph.nodes, p.graph.outputs)
    p.tensors |= l1.tensors_of(nodes)
    p.words |= axis_words(nodes)
    for name in p.tensors:
        p.rank(name)
    for node in nodes:
        if isinstance(node, l1.TileSum):
            p.tiled.setdefault(node.product, []).append(node)
    kernels = _kernels(p, nodes, p.graph.outputs)
    for node in nodes:
        if isinstance(node, l1.Weight):
            weights.lower_weight(p, node)
        elif isinstance(node, l1.Variable):
            weights.lower_variable(p, node)
    scans = reserve(p, nodes, {*p.graph.outputs, *kernels.in_place})
    fixed = {*kernels.in_place, *kernels.in_place.values()}
    stores = partial(_stores_plainly, p, kernels.starts(nodes))
    place_parts(p, nodes, fixed, kernels.fused.keys(), stores, lambda node: _strategy(p, node)[0])
    kernels = _reusing(p, nodes, p.graph.outputs, kernels)
    for node in nodes:
        if isinstance(node, l1.Scan):
            _scan(p, scans[name_of(node)], data)
        else:
            _lower_node(p, node, kernels, data)


def _stores_plainly(p: Phase, starts: Mapping[str, l1.Contract], name: str) -> bool:
    """Whether the kernel of a tensor stores it by its strides: those of a generic nest do, and epilogues of
    strategies."""
    if name not in starts:
        return True
    choice, _ = _strategy(p, starts[name])
    return choice is None or (not choice.bare and choice.exchange is None)


def _scan(p: Phase, steps: Steps, data: DataSet) -> None:
    """The loop of a Scan. For its kernels what the body reads from outside is there, as variables are."""
    scan = steps.scan
    enter(p, steps)
    given = (*l1.outside(scan), *(c.state.name for c in scan.carried), *(g.part.name for g in scan.given))
    there = (l1.Variable(p.tensors[name], 0.0) for name in given)
    kernels = _kernels(p, (*there, *scan.body), l1.taken(scan))
    kernels = _reusing(p, (*there, *scan.body), l1.taken(scan), kernels)
    first = p.builder.launches(p.graph.phase)
    for node in scan.body:
        _lower_node(p, node, kernels, data)
    leave(p, steps)
    p.builder.loop(p.graph.phase, first, scan.steps, name_of(scan))


def _lower_node(p: Phase, node: l1.Node, kernels: _Kernels, data: DataSet) -> None:
    match node:
        case l1.Feed() | l1.BatchMask() | l1.Rand():
            lower_source(p, node, data)
        case l1.Constant():
            weights.lower_constant(p, node)
        case l1.Map() if node.out.name in kernels.groups and node.out.name not in kernels.early:
            _maps(p, kernels.groups[node.out.name], kernels.there)
        case l1.Contract():
            _sum(p, node, kernels)
        case l1.StepsFirst() if node.out.name not in p.joined | p.slices.keys():
            lower_steps_first(p, node)
        case l1.Gather() | l1.ScatterAdd() | l1.Move() | l1.StepsFirst():
            lower_elements(p, node, kernels.fused.get(node.out.name), kernels.in_place)
        case l1.Attention():
            _attention(p, node)
        case l1.Reindex():
            p.arrays[node.out.name] = p.arrays[node.source]
        case l1.Update():
            weights.lower_update(p, node)
        case l1.Store() if node.value not in kernels.in_place:
            weights.lower_store(p, node)


def _sum(p: Phase, node: l1.Contract, kernels: _Kernels) -> None:
    """The kernel that begins with a contraction, if one does. A tensor of windows is its operands."""
    if node.out.windows:
        p.arrays[node.out.name], p.chosen_in[node.out.name] = (p.arrays[n] for n in node.ins)
    elif node.out.name in kernels.rows:
        _row(p, kernels.rows[node.out.name], kernels.there)
    elif node.out.name not in kernels.inside:
        beside = kernels.beside.get(node.out.name, ())
        _contract(p, node, kernels.fused.get(node.out.name), kernels.in_place, beside)


def lower_tensors(
    builder: ProgramBuilder,
    graphs: tuple[l1.TensorGraph, ...],
    data: DataSet,
    capabilities: Capabilities,
    pins: Pins | None = None,
) -> list[Decision]:
    """Adds the phases to the builder. `pins`: prescribed strategies."""
    decisions: list[Decision] = []
    # Lanes change the order of summation over a batch, and differ between targets.
    lanes = 0 if builder.order is l2.Order.BITWISE else real_lanes(capabilities.lanes, builder.precision)
    for name, contents in data.arrays.items():
        dtype = DType.I32 if contents.dtype.kind in "iu" else builder.precision
        builder.array(l2.Array(name, dtype, contents.shape, Role.CONST), contents)
    for name, (shape, dtype) in data.windows.items():
        builder.array(l2.Array(name, dtype, shape, Role.DATA))
    for graph in graphs:
        p = Phase(builder, graph, lanes, builder.precision.bytes, capabilities.strategies, capabilities.device)
        p.pins = pins or {}
        p.ordered = capabilities.atomic_order
        p.rows = capabilities.rows and graph.phase in ROWS
        _lower_phase(p, data)
        decisions += p.decisions
    return decisions

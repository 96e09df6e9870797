"""lower_tensors: tensor graphs become arrays, kernels and the launches of their phases.

Assumes: graphs in gather form, simplified and fused; the phases share weights and variables by name.
Guarantees: a node becomes one row of a kernel; nodes of equal structure share the kernel whatever their sizes;
all updates of one optimizer are one kernel and one launch. A Map that only feeds a Store writes the variable in place.
A Map that follows a contraction (fuse_epilogues) is that kernel's epilogue.
Does not: fuse or differentiate.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.expr.ast import Expr, Ref, refs, substitute
from compiler.ir.graph import (
    BatchMask,
    Constant,
    Contract,
    Feed,
    Map,
    Node,
    Rand,
    Reindex,
    Store,
    Tensor,
    TensorGraph,
    Update,
    Variable,
    Weight,
)
from compiler.ir.program import (
    Array,
    Assign,
    Kind,
    Mode,
    Nest,
    Order,
    Statement,
)
from compiler.ir.program import Contract as ContractBody
from compiler.ir.space import Affine, DType, Role, along
from compiler.ir.target import Capabilities
from compiler.passes.assign_layouts import real_lanes
from compiler.passes.build_program import ProgramBuilder
from compiler.passes.decisions import Decision
from compiler.passes.fuse_epilogues import Epilogue, epilogues
from compiler.passes.load_data import DataSet
from compiler.passes.lower_feeds import lower_feed, lower_rand
from compiler.passes.lower_weights import lower_constant, lower_store, lower_update, lower_variable, lower_weight
from compiler.passes.nest_builder import Walk, build_loops
from compiler.passes.tensor_phase import Phase, array_formal, axes_of, emit_row
from compiler.strategies import Choice, choose
from compiler.strategies.pins import Pins, Refused, find, path_of, pinned


def _map(p: Phase, node: Map, target: str | None) -> None:
    """An elementwise kernel; with `target` the variable of that name is written in place."""
    out = node.out
    walks = [Walk("y", out, axes_of(out))]
    for k, (name, axes) in enumerate(zip(node.ins, node.maps, strict=True)):
        walks.append(Walk(f"x{k}", p.tensors[name], tuple(Affine() if a is None else along(f"d{a}") for a in axes)))
    dims = [(f"d{a}", extent) for a, extent in enumerate(out.shape)]
    loops = build_loops(walks, dims, [d for d, _ in dims], frozenset(), p.lanes)
    array = p.arrays[target] if target is not None else p.temporary(out, node.span)
    bound = {"y": array}
    body = node.body
    dtype = p.builder.arrays[array].dtype
    formals = []
    in_place = False
    for k, name in enumerate(node.ins):
        if name == target:
            body = substitute(body, {f"x{k}": Ref("y")})
            in_place = True
            continue
        bound[f"x{k}"] = p.arrays[name]
        formals.append(array_formal(f"x{k}", p.dtype(p.tensors[name]), Mode.READ, loops))
    formals.insert(0, array_formal("y", dtype, Mode.UPDATE if in_place else Mode.WRITE, loops))
    used = {f.name for f in formals}
    columns = {c: v for c, v in loops.columns.items() if not c.startswith("x") or c.split("_")[0] in used}
    nest = Nest(loops.dims, (Assign("y", body, node.span),))
    p.arrays[out.name] = array
    emit_row(p, Kind.MAP, f"{out.name}: elementwise", formals, bound, columns, node.scalars, nest, out.name, node.span)


def _plain_reduction(node: Contract, p: Phase) -> bool:
    """Whether every operand is walked by plain dims only (sums, maxima over axes)."""
    return all(
        len(a.terms) <= 1 and (not a.terms or (a.terms[0][1] == 1 and a.const == 0 and a.div == 1))
        for m in node.in_maps
        for a in m
    )


def _windows(node: Contract, tensors: Mapping[str, Tensor]) -> frozenset[str]:
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


def _contract(p: Phase, node: Contract, epilogue: Epilogue | None) -> None:
    out = node.out
    final = epilogue.node.out if epilogue is not None else out
    parallel = [a.terms[0][0] for a in node.out_map]
    walks = [Walk("y", final, node.out_map)]
    for k, (name, axes) in enumerate(zip(node.ins, node.in_maps, strict=True)):
        walks.append(Walk(f"x{k}", p.tensors[name], axes))
    bound = {f"x{k}": p.arrays[name] for k, name in enumerate(node.ins)}
    types = {f"x{k}": p.dtype(p.tensors[name]) for k, name in enumerate(node.ins)}
    tail: list[Statement] = []
    scalars = dict(node.scalars)
    if epilogue is None:
        tail.append(Assign("y", Ref("acc"), node.span))
    else:
        names: dict[str, Expr] = {f"x{epilogue.operand}": Ref("acc")}
        others = [
            (name, axes)
            for k, (name, axes) in enumerate(zip(epilogue.node.ins, epilogue.node.maps, strict=True))
            if k != epilogue.operand
        ]
        numbers = [k for k in range(len(epilogue.node.ins)) if k != epilogue.operand]
        for number, (k, (name, map_axes)) in enumerate(zip(numbers, others, strict=True)):
            formal = f"e{number}"
            names[f"x{k}"] = Ref(formal)
            walked = tuple(Affine() if a is None else node.out_map[a] for a in map_axes)
            walks.append(Walk(formal, p.tensors[name], walked))
            bound[formal] = p.arrays[name]
            types[formal] = p.dtype(p.tensors[name])
        tail.append(Assign("y", substitute(epilogue.node.body, names), epilogue.node.span))
        scalars.update(dict(epilogue.node.scalars))
    separate = frozenset(refs(node.body) & {d for d, _ in node.dims})
    choice, reason = None, "sums have their declared order (order: bitwise)"
    if p.builder.order is not Order.BITWISE:
        choice, reason = _chosen(p, node)
    # A strategy has every extent as a column; the generic nest has its windows as structure.
    windows = _windows(node, p.tensors) if choice is None else frozenset()
    plain = _plain_reduction(node, p) and choice is None and len(node.ins) != 2
    loops = build_loops(
        walks,
        node.dims,
        parallel,
        windows,
        p.lanes,
        separate if plain or (choice is not None and choice.joined) else frozenset(d for d, _ in node.dims),
        choice is not None,
    )
    bound["y"] = p.temporary(final, node.span)
    p.arrays[final.name] = bound["y"]
    formals = [array_formal("y", p.builder.precision, Mode.WRITE, loops)]
    formals += [array_formal(f, t, Mode.READ, loops) for f, t in types.items()]
    nest = Nest(loops.dims, (), node.combine, node.body, "acc", tuple(tail), node.fill)
    columns = dict(loops.columns)
    body: Nest | ContractBody = nest
    kind = Kind.REDUCE
    if len(node.ins) == 2 and node.combine == "add" and not separate:
        kind = Kind.CONTRACT
        p.decisions.append(
            Decision("choose_strategies", f"{p.graph.phase}: {out.name}", choice.strategy if choice else "nest", reason)
        )
    if choice is not None:
        columns.update(dict(choice.columns))
        columns["scratch_bytes"] = choice.scratch_bytes
        body = ContractBody(nest, choice.strategy, choice.literals, "scratch_bytes")
    emit_row(
        p,
        kind,
        f"{final.name}: {_what(node, choice)}",
        formals,
        bound,
        columns,
        tuple(scalars.items()),
        body,
        final.name,
        node.span,
    )


def _chosen(p: Phase, node: Contract) -> tuple[Choice | None, str]:
    """The strategy that is pinned, where the pin holds, or that the rules say; and why."""
    pin = find(p.pins, path_of(p.graph.phase, node.out.name))
    if pin is None:
        return choose(node, p.tensors, p.lanes, p.real_bytes, p.available)
    order = p.builder.order.value
    found = pinned(pin, node, p.tensors, p.lanes, p.real_bytes, order, p.available)
    if isinstance(found, Refused):
        choice, reason = choose(node, p.tensors, p.lanes, p.real_bytes, p.available)
        return choice, f"{reason}; not as {pin.source} says: {found.reason}"
    return found, f"{pin.source}: {pin.way}, measured {pin.microseconds:.1f} us"


def _what(node: Contract, choice: Choice | None) -> str:
    if choice is not None:
        return choice.strategy.replace("_", " ")
    words = {"add": "sum", "max": "maximum", "min": "minimum"}
    return f"{words[node.combine]} over " + ", ".join(
        d for d, _ in node.dims if d not in {t for a in node.out_map for t, _ in a.terms}
    )


def _in_place(nodes: tuple[Node, ...]) -> dict[str, str]:
    """Maps whose only reader is a Store, and whose variable nothing reads afterwards: map -> variable."""
    readers: dict[str, list[int]] = {}
    made: dict[str, int] = {}
    for i, node in enumerate(nodes):
        if isinstance(node, (Map, Contract)):
            made[node.out.name] = i
            for name in node.ins:
                readers.setdefault(name, []).append(i)
        elif isinstance(node, Reindex):
            readers.setdefault(node.source, []).append(i)
        elif isinstance(node, Store):
            readers.setdefault(node.value, []).append(i)
        elif isinstance(node, Update):
            for name in (node.gradient, *(t for _, t in node.reads)):
                readers.setdefault(name, []).append(i)
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, Store):
            at = made.get(node.value)
            made_by = nodes[at] if at is not None else None
            alone = len(readers.get(node.value, ())) == 1
            late = any(i > (at or 0) for i in readers.get(node.target, ()))
            if isinstance(made_by, Map) and alone and not late:
                found[node.value] = node.target
    return found


def _lower_phase(p: Phase, data: DataSet) -> None:
    nodes = p.graph.nodes
    in_place = _in_place(nodes)
    fused, decisions = epilogues(nodes, p.graph.outputs, frozenset(in_place))
    p.decisions += [Decision(d.pass_name, f"{p.graph.phase}: {d.subject}", d.verdict, d.reason) for d in decisions]
    swallowed = {e.node.out.name for e in fused.values()}
    for node in nodes:
        out = getattr(node, "out", None)
        if isinstance(out, Tensor):
            p.tensors[out.name] = out
            p.rank(out.name)
    for node in nodes:
        if isinstance(node, Weight):
            lower_weight(p, node)
        elif isinstance(node, Variable):
            lower_variable(p, node)
    for node in nodes:
        match node:
            case Feed() | BatchMask():
                lower_feed(p, node, data)
            case Rand():
                lower_rand(p, node)
            case Constant():
                lower_constant(p, node)
            case Map():
                if node.out.name not in swallowed:
                    _map(p, node, in_place.get(node.out.name))
            case Contract():
                _contract(p, node, fused.get(node.out.name))
            case Reindex():
                p.arrays[node.out.name] = p.arrays[node.source]
            case Update():
                lower_update(p, node)
            case Store():
                if node.value not in in_place:
                    lower_store(p, node)


def lower_tensors(
    builder: ProgramBuilder,
    graphs: tuple[TensorGraph, ...],
    data: DataSet,
    capabilities: Capabilities,
    pins: Pins | None = None,
) -> list[Decision]:
    """Adds the phases to the builder. `pins`: strategies that are decided already."""
    decisions: list[Decision] = []
    # Lanes change the order in which a batch is summed, and targets have different ones.
    lanes = 0 if builder.order is Order.BITWISE else real_lanes(capabilities.lanes, builder.precision)
    for name, contents in data.arrays.items():
        dtype = DType.I32 if contents.dtype.kind in "iu" else builder.precision
        builder.array(Array(name, dtype, contents.shape, Role.CONST), contents.astype(dtype.numpy))
    for graph in graphs:
        p = Phase(builder, graph, lanes, builder.precision.bytes, capabilities.strategies, pins=pins or {})
        _lower_phase(p, data)
        decisions += p.decisions
    return decisions

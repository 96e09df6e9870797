"""tensor_kernels: tensor graphs become arrays, kernels and the launches of their phases.

Assumes: graphs in gather form, simplified and fused; the phases share weights and variables by name.
Guarantees: a node becomes one row of a kernel; nodes of equal structure share the kernel whatever their sizes;
all updates of one optimizer are one kernel and one launch. A Map that only feeds a Store writes the variable in place.
A Map that follows a contraction (fuse_epilogues) is that kernel's epilogue.
Does not: fuse or differentiate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.expr.ast import Binary, Call, Cond, Expr, Num, Ref, refs, substitute
from compiler.ir.graph import (
    BatchMask,
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
from compiler.ir.model import Const, Distribution
from compiler.ir.program import (
    ELEMENT,
    Array,
    ArrayFormal,
    Assign,
    Axis,
    ColumnValue,
    Dim,
    DimKind,
    Formal,
    Kind,
    Mode,
    Nest,
    Order,
    ScalarFormal,
    Statement,
    StreamKey,
    Strided,
)
from compiler.ir.program import Contract as ContractBody
from compiler.ir.space import Affine, DType, Role, along
from compiler.ir.target import Capabilities
from compiler.passes.build_program import ProgramBuilder
from compiler.passes.contract_epilogues import Epilogue, epilogues
from compiler.passes.decisions import Decision
from compiler.passes.init_values import initialise
from compiler.passes.load_data import DataSet
from compiler.passes.nest_builder import LANE, Loops, Walk, build_loops
from compiler.passes.tensor_layouts import array_of, real_lanes
from compiler.source import Span
from compiler.strategies import Choice, choose


@dataclass
class _Phase:
    """State while one phase is lowered."""

    builder: ProgramBuilder
    graph: TensorGraph
    lanes: int
    real_bytes: int
    available: frozenset[str]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    arrays: dict[str, str] = field(default_factory=dict)  # tensor -> array that holds it
    wide: set[str] = field(default_factory=set)
    decisions: list[Decision] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=dict)  # layer -> its place in the model

    def rank(self, path: str) -> int:
        """The place of a tensor's layer in the model: forward nodes come first in a graph."""
        return self.ranks.setdefault(path.split(".")[0], len(self.ranks))

    def dtype(self, tensor: Tensor) -> DType:
        return self.builder.arrays[self.arrays[tensor.name]].dtype

    def temporary(self, tensor: Tensor, span: Span) -> str:
        """The WORK array of a tensor that nothing outside this phase reads."""
        name = f"{self.graph.phase}/{tensor.name}"
        kept = tensor.name in self.graph.outputs
        role = Role.STATE if kept else Role.WORK
        self.builder.array(array_of(tensor, name, self.builder.precision, self.lanes, role, span=span))
        return name


def _axes_of(tensor: Tensor) -> tuple[Affine, ...]:
    return tuple(along(f"d{a}") for a in range(len(tensor.shape)))


def _formal(name: str, dtype: DType, mode: Mode, loops: Loops) -> ArrayFormal:
    return ArrayFormal(name, dtype, mode, loops.accesses[name])


def _emit(
    p: _Phase,
    kind: Kind,
    label: str,
    arrays: list[ArrayFormal],
    bound: Mapping[str, str],
    columns: Mapping[str, int],
    scalars: tuple[tuple[str, float], ...],
    body: Nest | ContractBody,
    path: str,
    span: Span,
    keys: Mapping[str, StreamKey] | None = None,
) -> None:
    """One row of a kernel and its launch in this phase."""
    real = p.builder.precision
    formals: tuple[Formal, ...] = (
        *arrays,
        *(ScalarFormal(c, DType.I64) for c in columns),
        *(ScalarFormal(s, real) for s, _ in scalars),
        *(ScalarFormal(k, DType.U64) for k in keys or ()),
    )
    values: dict[str, ColumnValue] = {**columns, **dict(scalars), **(keys or {})}
    key = (kind, formals, body)
    row = p.builder.row(key, label, kind, formals, body, bound, values, path, span, p.rank(path))
    p.builder.launch(p.graph.phase, key, row, row + 1, join=False)


def _map(p: _Phase, node: Map, target: str | None) -> None:
    """An elementwise kernel; with `target` the variable of that name is written in place."""
    out = node.out
    walks = [Walk("y", out, _axes_of(out))]
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
        formals.append(_formal(f"x{k}", p.dtype(p.tensors[name]), Mode.READ, loops))
    formals.insert(0, _formal("y", dtype, Mode.UPDATE if in_place else Mode.WRITE, loops))
    used = {f.name for f in formals}
    columns = {c: v for c, v in loops.columns.items() if not c.startswith("x") or c.split("_")[0] in used}
    nest = Nest(loops.dims, (Assign("y", body, node.span),))
    p.arrays[out.name] = array
    _emit(p, Kind.MAP, f"{out.name}: elementwise", formals, bound, columns, node.scalars, nest, out.name, node.span)


def _plain_reduction(node: Contract, p: _Phase) -> bool:
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


def _contract(p: _Phase, node: Contract, epilogue: Epilogue | None) -> None:
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
        choice, reason = choose(node, p.tensors, p.lanes, p.real_bytes, p.available)
    # A strategy has every extent as a column; the generic nest has its windows as structure.
    windows = _windows(node, p.tensors) if choice is None else frozenset()
    plain = _plain_reduction(node, p) and choice is None and len(node.ins) != 2
    loops = build_loops(
        walks,
        node.dims,
        parallel,
        windows,
        p.lanes,
        separate if plain else frozenset(d for d, _ in node.dims),
        choice is not None,
    )
    bound["y"] = p.temporary(final, node.span)
    p.arrays[final.name] = bound["y"]
    formals = [_formal("y", p.builder.precision, Mode.WRITE, loops)]
    formals += [_formal(f, t, Mode.READ, loops) for f, t in types.items()]
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
    _emit(
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


def _what(node: Contract, choice: Choice | None) -> str:
    if choice is not None:
        return choice.strategy.replace("_", " ")
    words = {"add": "sum", "max": "maximum", "min": "minimum"}
    return f"{words[node.combine]} over " + ", ".join(
        d for d, _ in node.dims if d not in {t for a in node.out_map for t, _ in a.terms}
    )


def _gather_dims(p: _Phase, tensor: Tensor) -> tuple[tuple[Dim, ...], Strided, dict[str, int], Expr, int]:
    """Loops over rows and features of a batched tensor; its access, columns, row number and padded rows."""
    features = 1
    for extent in tensor.shape[1:]:
        features *= extent
    rows = tensor.shape[0]
    columns = {"n_f": features}
    if not p.lanes:
        columns["n_row"] = rows
        dims: tuple[Dim, ...] = (Dim("row", "n_row"), Dim("f", "n_f"))
        axes = (Axis((("row", 1),), stride="n_f"), Axis((("f", 1),)))
        return dims, Strided(axes), columns, Ref("row"), rows
    blocks = -(-rows // p.lanes)
    columns["n_block"] = blocks
    columns["by_block"] = features * p.lanes
    dims = (Dim("block", "n_block"), Dim("f", "n_f"), Dim(LANE, p.lanes, DimKind.LANE))
    axes_l = (
        Axis((("block", 1),), stride="by_block"),
        Axis((("f", 1),), stride=p.lanes),
        Axis(((LANE, 1),)),
    )
    number = Binary("+", Binary("*", Ref("block"), Num(p.lanes)), Ref(LANE))
    return dims, Strided(axes_l), columns, number, blocks * p.lanes


def _feed(p: _Phase, node: Feed | BatchMask, data: DataSet) -> None:
    """Rows of the data set in the order that the host wrote. Rows that do not exist (-1) read the first example: the
    mask takes them out of every sum, and numbers that occur cannot make a slope infinite, as zeros could."""
    out = node.out
    dims, access, columns, number, padded = _gather_dims(p, out)
    batches = -(-max(data.rows[p.graph.phase], 1) // out.shape[0])
    order = f"{p.graph.phase}.order"
    if order not in p.builder.arrays:
        p.builder.array(Array(order, DType.I32, (batches, padded), Role.DATA))
    columns |= {"batches": batches, "padded": padded}
    position = Binary(
        "+",
        Binary("*", Binary("%", Binary("-", Ref("step"), Num(1)), Ref("batches")), Ref("padded")),
        number,
    )
    bound = {"y": p.temporary(out, getattr(node, "span", data.span)), "order": order}
    p.arrays[out.name] = bound["y"]
    look = ArrayFormal("order", DType.I32, Mode.READ, Strided((Axis((("k", 1),)),)))
    dtype = p.builder.arrays[bound["y"]].dtype
    formals = [ArrayFormal("y", dtype, Mode.WRITE, access), look]
    scalars: tuple[tuple[str, float], ...] = ()
    if isinstance(node, BatchMask):
        value: Expr = Cond(Binary(">=", Ref("order"), Num(0)), Num(1.0), Num(0.0))
        statements: tuple[Statement, ...] = (Assign("k", position), Assign("y", value))
        dims = tuple(d for d in dims if d.name != "f")
        axes = tuple(a for a in access.axes if a.terms[0][0] != "f")
        if not p.lanes:
            axes = (Axis((("row", 1),)),)
            columns.pop("n_f")
        else:
            columns.pop("n_f")
            columns.pop("by_block")
            axes = (Axis((("block", 1),), stride=p.lanes), Axis(((LANE, 1),)))
        formals[0] = ArrayFormal("y", dtype, Mode.WRITE, Strided(axes))
        label = "rows that exist"
    else:
        bound["data"] = node.array
        read = Strided((Axis((("example", 1),), stride="n_f"), Axis((("f", 1),))))
        formals.append(ArrayFormal("data", p.builder.arrays[node.array].dtype, Mode.READ, read))
        element: Expr = Ref("data")
        if out.dtype == "real":
            element = Binary("*", element, Ref("factor"))
            scalars = (("factor", node.scale),)
        statements = (
            Assign("k", position),
            Assign("example", Call("max", (Ref("order"), Num(0)))),
            Assign("y", element),
        )
        label = "batch of " + node.array
    _emit(
        p,
        Kind.MAP,
        f"{out.name}: {label}",
        formals,
        bound,
        columns,
        scalars,
        Nest(dims, statements),
        out.name,
        getattr(node, "span", data.span),
    )


def _rand(p: _Phase, node: Rand) -> None:
    """Uniform draws at (step, logical row-major index), whatever the layout."""
    dims, access, columns, number, _ = _gather_dims(p, node.out)
    index = Binary("+", Binary("*", number, Ref("n_f")), Ref("f"))
    array = p.temporary(node.out, node.span)
    p.arrays[node.out.name] = array
    _emit(
        p,
        Kind.MAP,
        f"{node.out.name}: uniform draws",
        [ArrayFormal("y", p.builder.precision, Mode.WRITE, access)],
        {"y": array},
        columns,
        (),
        Nest(dims, (Assign("y", Call("uniform", (Ref("key"), index, Num(0)))),)),
        node.out.name,
        node.span,
        {"key": StreamKey(node.stream)},
    )


def _update(p: _Phase, node: Update) -> None:
    """The optimizer's statements over one weight, flat."""
    weight = p.tensors[node.weight]
    size = p.builder.arrays[weight.name].physical_size
    real = p.builder.precision
    written = {s.target for s in node.statements}
    used = set().union(*(refs(s.value) for s in node.statements))
    bound = {"param": weight.name, "gradient": p.arrays[node.gradient]}
    formals = [ArrayFormal("param", real, Mode.UPDATE, ELEMENT)]
    if "gradient" in used:
        formals.append(ArrayFormal("gradient", real, Mode.READ, ELEMENT))
    for name, start in node.state:
        array = f"{weight.name}.{name}"
        p.builder.array(Array(array, real, weight.shape, Role.STATE, span=node.span))
        if start != 0:
            initialise(p.builder, array, Const(start), None, Role.STATE, "1", size, node.span)
        bound[name] = array
        mode = Mode.UPDATE if name in written else Mode.READ
        formals.append(ArrayFormal(name, real, mode, ELEMENT))
    scalars = tuple((n, v) for n, v in node.params if n in used)
    statements = tuple(Assign(s.target, s.value, s.span) for s in node.statements)
    _emit(
        p,
        Kind.MAP,
        f"{weight.name}: optimizer update",
        formals,
        bound,
        {"n": size},
        scalars,
        Nest((Dim("i", "n"),), statements),
        weight.name,
        node.span,
    )


def _weight(p: _Phase, node: Weight) -> None:
    p.arrays[node.out.name] = node.out.name
    if node.out.name in p.builder.arrays:
        return
    array = array_of(node.out, node.out.name, p.builder.precision, 0, Role.WEIGHT, span=node.span)
    p.builder.array(array)
    size = array.physical_size
    value: Const | Distribution = Const(1.0 if node.init == "ones" else 0.0)
    if node.init == "uniform":
        bound = node.init_args[0]
        value = Distribution("uniform", (("low", -bound), ("high", bound)))
    if node.init != "zeros":
        initialise(p.builder, array.name, value, None, Role.WEIGHT, "1", size, node.span)


def _variable(p: _Phase, node: Variable) -> None:
    p.arrays[node.out.name] = node.out.name
    if node.out.name in p.builder.arrays:
        return
    array = array_of(node.out, node.out.name, p.builder.precision, 0, Role.STATE, node.wide, node.span)
    p.builder.array(array)
    if node.init != 0:
        assert not node.wide, "wide variables start at zero"
        initialise(p.builder, array.name, Const(node.init), None, Role.STATE, "1", array.physical_size, node.span)


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
            readers.setdefault(node.gradient, []).append(i)
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


def _lower_phase(p: _Phase, data: DataSet) -> None:
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
            _weight(p, node)
        elif isinstance(node, Variable):
            _variable(p, node)
    for node in nodes:
        match node:
            case Feed() | BatchMask():
                _feed(p, node, data)
            case Rand():
                _rand(p, node)
            case Map():
                if node.out.name not in swallowed:
                    _map(p, node, in_place.get(node.out.name))
            case Contract():
                _contract(p, node, fused.get(node.out.name))
            case Reindex():
                p.arrays[node.out.name] = p.arrays[node.source]
            case Update():
                _update(p, node)
            case Store():
                if node.value not in in_place:
                    _store(p, node)


def _store(p: _Phase, node: Store) -> None:
    """Copies a value into its variable."""
    target, value = p.tensors[node.target], p.tensors[node.value]
    dims = [(f"d{a}", e) for a, e in enumerate(target.shape)]
    walks = [Walk("y", target, _axes_of(target)), Walk("x0", value, _axes_of(value))]
    loops = build_loops(walks, dims, [d for d, _ in dims], frozenset(), p.lanes)
    formals = [
        _formal("y", p.dtype(target), Mode.WRITE, loops),
        _formal("x0", p.dtype(value), Mode.READ, loops),
    ]
    bound = {"y": p.arrays[node.target], "x0": p.arrays[node.value]}
    nest = Nest(loops.dims, (Assign("y", Ref("x0"), node.span),))
    _emit(p, Kind.MAP, f"{target.name}: store", formals, bound, loops.columns, (), nest, target.name, node.span)


def lower_tensors(
    builder: ProgramBuilder, graphs: tuple[TensorGraph, ...], data: DataSet, capabilities: Capabilities
) -> list[Decision]:
    """Adds both phases to the builder."""
    decisions: list[Decision] = []
    lanes = real_lanes(capabilities.lanes, builder.precision)
    for name, contents in data.arrays.items():
        dtype = DType.I32 if contents.dtype.kind in "iu" else builder.precision
        builder.array(Array(name, dtype, contents.shape, Role.CONST), contents.astype(dtype.numpy))
    for graph in graphs:
        p = _Phase(builder, graph, lanes, builder.precision.bytes, capabilities.strategies)
        _lower_phase(p, data)
        decisions += p.decisions
    return decisions

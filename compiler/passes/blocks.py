"""Blocks: what becomes one kernel each, before layouts: a logical loop nest over tensors.

Assumes: tensor graphs in gather form (decompose): an output axis is one dim.
Guarantees: plain data. A Block has dims (parallel or reduced), operands reached by affine indices over logical axes,
and straight-line statements over their names: fuse_maps and fuse_epilogues join blocks, choose_strategies recognises
them, lower_nest gives them memory layouts. `@` in an expression is the row-major number of the element (over the
parallel dims).
Does not: know lanes, columns or targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from compiler.expr.ast import Expr, Ref, refs, substitute
from compiler.ir.graph import Contract, Map, Tensor
from compiler.ir.program import Assign, ColumnValue, Mode
from compiler.ir.space import Affine, DType, along
from compiler.source import NOWHERE, Span

ELEMENT_NUMBER: Final = "@"
"""The name of the row-major number of the element that a parallel point stands for."""
ACCUMULATOR: Final = "acc"


@dataclass(frozen=True)
class Loop:
    """One dim. `window`: its extent is structure (a kernel size), so it becomes a literal."""

    name: str
    extent: int
    reduced: bool = False
    window: bool = False


@dataclass(frozen=True)
class Operand:
    """What the statements call `name`: an element of `tensor`, seen with `shape`, at `index` (one per axis).

    `batched`: axis 0 is the batch. `dtype` None: the precision of the program.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    index: tuple[Affine, ...]
    batched: bool
    dtype: DType | None = None
    mode: Mode = Mode.READ


@dataclass(frozen=True)
class Scalar:
    """A column: a number (or a random stream's key) that is data."""

    name: str
    value: ColumnValue
    dtype: DType | None = None  # None: the precision


@dataclass(frozen=True)
class Block:
    """`prologue` at every parallel point; then, with `combine`, acc = combine of `term` over the reduced dims;
    then `epilogue`. Maps have no combine and all statements in `prologue`."""

    name: str
    what: str
    dims: tuple[Loop, ...]
    operands: tuple[Operand, ...]
    prologue: tuple[Assign, ...] = ()
    combine: str | None = None
    term: Expr | None = None
    epilogue: tuple[Assign, ...] = ()
    fill: float = 0.0
    scalars: tuple[Scalar, ...] = ()
    span: Span = NOWHERE

    @property
    def reads(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.mode is not Mode.WRITE)

    @property
    def writes(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.operands if o.mode is not Mode.READ)

    @property
    def parallel(self) -> tuple[Loop, ...]:
        return tuple(d for d in self.dims if not d.reduced)

    @property
    def batch(self) -> str | None:
        """The dim that runs over the batch: the one that indexes axis 0 of batched operands."""
        found = {o.index[0].terms[0][0] for o in self.operands if o.batched}
        if len(found) > 1:
            raise AssertionError(f"{self.name}: two dims run over the batch: {sorted(found)}")
        return next(iter(found), None)

    def dim(self, name: str) -> Loop:
        return next(d for d in self.dims if d.name == name)


def plain(axis: Affine) -> str | None:
    """The dim that an index is, when it is just one."""
    if len(axis.terms) == 1 and axis.terms[0][1] == 1 and axis.const == 0 and axis.div == 1:
        return axis.terms[0][0]
    return None


def is_identity(operand: Operand, dims: Iterable[Loop]) -> bool:
    """Whether the operand is read element by element: its axes are exactly `dims`, in order."""
    return operand.index == tuple(along(d.name) for d in dims)


def expressions(block: Block) -> tuple[Expr, ...]:
    """Every expression of the block."""
    term = (block.term,) if block.term is not None else ()
    return (*(s.value for s in block.prologue), *term, *(s.value for s in block.epilogue))


def names_read(block: Block) -> set[str]:
    return set().union(*(refs(e) for e in expressions(block)))


def renamed(block: Block, names: Mapping[str, str]) -> Block:
    """The block with operands, scalars, locals and dims renamed."""
    exprs: dict[str, Expr] = {old: Ref(new) for old, new in names.items()}

    def affine(a: Affine) -> Affine:
        return replace(a, terms=tuple((names.get(d, d), c) for d, c in a.terms))

    def statements(body: tuple[Assign, ...]) -> tuple[Assign, ...]:
        return tuple(Assign(names.get(s.target, s.target), substitute(s.value, exprs), s.span) for s in body)

    return replace(
        block,
        dims=tuple(replace(d, name=names.get(d.name, d.name)) for d in block.dims),
        operands=tuple(
            replace(o, name=names.get(o.name, o.name), index=tuple(affine(a) for a in o.index)) for o in block.operands
        ),
        prologue=statements(block.prologue),
        term=None if block.term is None else substitute(block.term, exprs),
        epilogue=statements(block.epilogue),
        scalars=tuple(replace(s, name=names.get(s.name, s.name)) for s in block.scalars),
    )


def normal(block: Block) -> Block:
    """The block in the one naming that equal structure shares: reads x0, x1, ... and writes y0, y1, ... in the order
    of the operands (reads first), locals t0, t1, ... in the order of assignment; unused reads are dropped."""
    read = names_read(block)
    operands = tuple(o for o in block.operands if o.mode is not Mode.READ or o.name in read)
    operands = tuple(sorted(operands, key=lambda o: o.mode is not Mode.READ))
    names: dict[str, str] = {}
    for kind, chosen in (
        ("x", [o for o in operands if o.mode is Mode.READ]),
        ("y", [o for o in operands if o.mode is not Mode.READ]),
    ):
        names |= {o.name: f"{kind}{i}" for i, o in enumerate(chosen)}
    for s in (*block.prologue, *block.epilogue):
        if s.target not in names:
            names[s.target] = f"t{sum(v.startswith('t') for v in names.values())}"
    for s in block.scalars:
        base, number = s.name, 2
        text = base
        while text in names.values():
            text, number = f"{base}_{number}", number + 1
        names[s.name] = text
    changed = {a: b for a, b in names.items() if a != b}
    done = replace(block, operands=operands)
    return renamed(done, changed) if changed else done


# ------------------------------------------------------------------------------------------ from nodes


def _operand(name: str, tensor: Tensor, index: tuple[Affine, ...], root: str, mode: Mode, wide: bool) -> Operand:
    dtype = DType.I32 if tensor.dtype == "int" else DType.F64 if wide else None
    return Operand(name, root, tensor.shape, index, tensor.batched, dtype, mode)


@dataclass(frozen=True)
class Known:
    """Tensors by name, the array that each one lies in (Reindex is another shape of the same memory), and the
    variables kept in float64."""

    tensors: Mapping[str, Tensor]
    roots: Mapping[str, str]
    wide: frozenset[str]

    def operand(self, name: str, tensor: str, index: tuple[Affine, ...], mode: Mode = Mode.READ) -> Operand:
        root = self.roots[tensor]
        return _operand(name, self.tensors[tensor], index, root, mode, root in self.wide)


def map_block(node: Map, known: Known) -> Block:
    """A Map: one parallel dim per axis."""
    dims = tuple(Loop(f"i{a}", extent) for a, extent in enumerate(node.out.shape))
    reads = tuple(
        known.operand(
            f"x{k}",
            name,
            tuple(Affine() if a is None else along(f"i{a}") for a in axes),
        )
        for k, (name, axes) in enumerate(zip(node.ins, node.maps, strict=True))
    )
    out = known.operand("y0", node.out.name, tuple(along(d.name) for d in dims), Mode.WRITE)
    return Block(
        node.out.name,
        "map",
        dims,
        (*reads, out),
        prologue=(Assign("y0", node.body, node.span),),
        scalars=tuple(Scalar(n, v) for n, v in node.scalars),
        span=node.span,
    )


def _windows(node: Contract, known: Known) -> frozenset[str]:
    """Dims whose extent is a kernel size: they stand beside another dim in an index, and no axis of a batched tensor
    is one of them (output pixels are not)."""
    beside: set[str] = set()
    whole: set[str] = set()
    tensors = [(node.out, node.out_map), *((known.tensors[i], m) for i, m in zip(node.ins, node.in_maps, strict=True))]
    for tensor, axes in tensors:
        for axis in axes:
            if len(axis.terms) > 1:
                beside.update(d for d, _ in axis.terms)
            dim = plain(axis)
            if dim is not None and tensor.batched:
                whole.add(dim)
    return frozenset(beside - whole)


def contract_block(node: Contract, known: Known) -> Block:
    """A Contract in gather form: parallel dims in the order of the output's axes, then the reduced ones."""
    extents = dict(node.dims)
    kept = [a.terms[0][0] for a in node.out_map]
    windows = _windows(node, known)
    order = [*kept, *(d for d in extents if d not in kept)]
    dims = tuple(Loop(d, extents[d], d not in kept, d in windows) for d in order)
    reads = tuple(
        known.operand(f"x{k}", name, axes) for k, (name, axes) in enumerate(zip(node.ins, node.in_maps, strict=True))
    )
    out = known.operand("y0", node.out.name, node.out_map, Mode.WRITE)
    return Block(
        node.out.name,
        {"add": "sum", "max": "maximum", "min": "minimum"}[node.combine],
        dims,
        (*reads, out),
        combine=node.combine,
        term=node.body,
        epilogue=(Assign("y0", Ref(ACCUMULATOR), node.span),),
        fill=node.fill,
        scalars=tuple(Scalar(n, v) for n, v in node.scalars),
        span=node.span,
    )

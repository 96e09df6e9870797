"""lower_nest: a block becomes a loop nest over memory.

Assumes: blocks as compiler/passes/blocks.py makes and fuses them.
Guarantees: adjacent dims that every operand walks together are one loop, so that an elementwise chain is a flat loop
or (b, i, l) whatever its rank; with lanes, the batch is a loop over blocks of samples (PAR) and the lanes of one block
(LANE, or RED when the batch is summed). The text follows from structure alone: extents, strides and paddings are
columns, of which equal products of extents share one; kernel sizes, strides of windows and dilations are literals. A
guard stands only where an index can leave its axis. Sums run over blocks, then the other reduced dims, then lanes; in
bitwise order lanes follow blocks, so that samples are added in their order.
Does not: choose strategies or fuse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from compiler.expr.ast import Binary, Cond, Expr, Num, Ref, Unary, substitute
from compiler.ir.program import (
    ArrayFormal,
    Assign,
    Axis,
    ColumnValue,
    Dim,
    DimKind,
    Formal,
    Nest,
    Order,
    ScalarFormal,
    Strided,
)
from compiler.ir.space import Affine, DType, along
from compiler.passes.blocks import ACCUMULATOR, ELEMENT_NUMBER, Block, Loop, Operand, is_identity, names_read, plain

BLOCK, LANE = "b", "l"
"""Names of the dims that the batch becomes: blocks of samples, and lanes of a block."""


@dataclass(frozen=True)
class Machine:
    """What nests depend on besides their block: lanes of the batch layout (0: row-major), precision, order."""

    lanes: int
    precision: DType
    order: Order


@dataclass(frozen=True)
class LoweredNest:
    """A nest with its formals, and one row's values for them."""

    formals: tuple[Formal, ...]
    nest: Nest
    arrays: dict[str, str]
    scalars: dict[str, ColumnValue]


# --------------------------------------------------------------------------------------------- collapse


def _together(block: Block, a: Loop, b: Loop) -> bool:
    """Whether dims a, b are consecutive whole axes of every operand that has either of them."""
    met = False
    for o in block.operands:
        places = [p for p, axis in enumerate(o.index) if any(d in (a.name, b.name) for d, _ in axis.terms)]
        if not places:
            continue
        met = True
        if len(places) != 2 or places[1] != places[0] + 1:
            return False
        if (plain(o.index[places[0]]), plain(o.index[places[1]])) != (a.name, b.name):
            return False
        if (o.shape[places[0]], o.shape[places[1]]) != (a.extent, b.extent):
            return False
    return met


def _joined(block: Block, a: Loop, b: Loop) -> Block:
    """The block with dims a, b as one."""
    name = f"{a.name}_{b.name}"

    def operand(o: Operand) -> Operand:
        for p, axis in enumerate(o.index):
            if plain(axis) == a.name:
                shape = (*o.shape[:p], a.extent * b.extent, *o.shape[p + 2 :])
                return replace(o, shape=shape, index=(*o.index[:p], along(name), *o.index[p + 2 :]))
        return o

    dims = tuple(replace(d, name=name, extent=a.extent * b.extent) if d is a else d for d in block.dims if d is not b)
    return replace(block, dims=dims, operands=tuple(operand(o) for o in block.operands))


def collapse(block: Block) -> Block:
    """Adjacent dims joined as far as all operands allow; the batch stays a dim of its own."""
    fixed = names_read(block) | {block.batch}
    changed = True
    while changed:
        changed = False
        free = [d for d in block.dims if d.name not in fixed and not d.window]
        for a in free:
            b = next((d for d in free if d is not a and d.reduced == a.reduced and _together(block, a, d)), None)
            if b is not None:
                block = _joined(block, a, b)
                changed = True
                break
    return block


def is_flat(block: Block, lanes: int) -> bool:
    """Whether the block is one loop over memory: every operand is read element by element, or is one number."""
    if block.combine is not None:
        return False
    used = names_read(block)
    if used & {d.name for d in block.dims}:
        return False
    whole = [o for o in block.operands if is_identity(o, block.dims)]
    if any(o not in whole and o.shape != () for o in block.operands):
        return False
    batched = {o.batched for o in whole}
    return len(batched) == 1 and not (ELEMENT_NUMBER in used and lanes > 0 and batched == {True})


# ----------------------------------------------------------------------------------------------- columns

Symbol = str | int
"""A factor of a stride: the name of an extent column, or a literal."""


@dataclass
class Columns:
    """Integer columns of a nest by name, in order of first use."""

    taken: set[str]
    values: dict[str, int] = field(default_factory=dict)

    def column(self, name: str, value: int) -> str:
        if name not in self.values:
            assert name not in self.taken, f"column {name} has the name of something else"
            self.values[name] = value
        return name

    def product(self, factors: Iterable[tuple[Symbol, int]]) -> int | str:
        """A stride: the product of the factors (symbol, value); a literal when all are."""
        pairs = tuple(factors)
        value = math.prod(v for _, v in pairs)
        named = [str(s) for s, _ in pairs if isinstance(s, str)]
        if not named:
            return value
        literal = math.prod(s for s, _ in pairs if isinstance(s, int))
        suffix = f"_{literal}" if literal != 1 else ""
        return self.column("s_" + "_".join(n.removeprefix("n_") for n in named) + suffix, value)


@dataclass
class _Writer:
    block: Block
    machine: Machine
    columns: Columns
    guard_always: bool

    def extent(self, name: str) -> tuple[Symbol, int]:
        """The extent of a dim as a factor."""
        d = self.block.dim(name)
        return (d.extent if d.window else f"n_{d.name}"), d.extent

    def axis_extent(self, o: Operand, p: int) -> tuple[Symbol, int]:
        """The extent of axis p of an operand as a factor: that of its dim when it is exactly that dim."""
        dim = plain(o.index[p])
        if dim is not None and self.block.dim(dim).extent == o.shape[p]:
            return self.extent(dim)
        return f"n_{o.name}_{p}", o.shape[p]

    def stride(self, o: Operand, p: int) -> int | str:
        factors = [self.axis_extent(o, q) for q in range(p + 1, len(o.shape))]
        if o.batched and self.machine.lanes:
            factors.append((self.machine.lanes, self.machine.lanes))
        return self.columns.product(factors)

    def limit(self, factor: tuple[Symbol, int]) -> int | str:
        symbol, value = factor
        return symbol if isinstance(symbol, int) else self.columns.column(symbol, value)

    def inside(self, axis: Affine, extent: int) -> bool:
        """Whether the index stays inside the axis at every point."""
        low = axis.const + sum(c * (self.block.dim(d).extent - 1) for d, c in axis.terms if c < 0)
        high = axis.const + sum(c * (self.block.dim(d).extent - 1) for d, c in axis.terms if c > 0)
        return low >= 0 and high // axis.div < extent

    def axes(self, o: Operand) -> Strided:
        """The access of an operand: one axis per logical axis; the batch is blocks and lanes."""
        found: list[Axis] = []
        last: list[Axis] = []
        for p, axis in enumerate(o.index):
            if p == 0 and o.batched and self.machine.lanes:
                found.append(Axis(((BLOCK, 1),), stride=self.stride(o, 0)))
                last.append(Axis(((LANE, 1),)))
                continue
            stride = self.stride(o, p)
            if plain(axis) is not None:
                found.append(Axis(axis.terms, stride=stride))
                continue
            if not axis.terms:
                assert axis.const == 0, f"{self.block.name}: an axis of {o.tensor} is read at one place only"
                continue
            guarded = self.guard_always or not self.inside(axis, o.shape[p])
            const: int | str = 0
            if guarded or axis.const:
                const = self.columns.column(f"at_{o.name}_{p}", axis.const)
            limit = self.limit((f"n_{o.name}_{p}", o.shape[p])) if guarded else None
            found.append(Axis(axis.terms, const, axis.div, limit, stride))
        return Strided((*found, *last))


# --------------------------------------------------------------------------------------------------- nest


def _number(dims: list[tuple[Expr, Expr]]) -> Expr:
    """Row-major number of the point: dims as (index, extent)."""
    total: Expr = Num(0)
    for index, extent in dims:
        total = index if total == Num(0) else Binary("+", Binary("*", total, extent), index)
    return total


def _dtype(o: Operand, precision: DType) -> DType:
    return precision if o.dtype is None else o.dtype


def _formals(block: Block, accesses: dict[str, Strided], columns: Columns, machine: Machine) -> LoweredNest:
    """Formals in order: arrays, integer columns, the block's numbers. The nest is filled in by the caller."""
    formals: list[Formal] = [
        ArrayFormal(o.name, _dtype(o, machine.precision), o.mode, accesses[o.name]) for o in block.operands
    ]
    formals += [ScalarFormal(n, DType.I64) for n in columns.values]
    formals += [ScalarFormal(s.name, s.dtype or machine.precision) for s in block.scalars]
    scalars: dict[str, ColumnValue] = {**columns.values, **{s.name: s.value for s in block.scalars}}
    return LoweredNest(tuple(formals), Nest(()), {o.name: o.tensor for o in block.operands}, scalars)


def _flat(block: Block, machine: Machine) -> LoweredNest:
    whole = next(o for o in block.operands if is_identity(o, block.dims))
    size = math.prod(whole.shape)
    if whole.batched and machine.lanes:
        size = size // whole.shape[0] * (-(-whole.shape[0] // machine.lanes) * machine.lanes)
    columns = Columns({o.name for o in block.operands} | {s.name for s in block.scalars})
    columns.column("n", size)
    element, scalar = Strided((Axis((("i", 1),)),)), Strided(())
    accesses = {o.name: element if is_identity(o, block.dims) else scalar for o in block.operands}
    done = _formals(block, accesses, columns, machine)
    number: dict[str, Expr] = {ELEMENT_NUMBER: Ref("i")}
    prologue = tuple(Assign(s.target, substitute(s.value, number), s.span) for s in block.prologue)
    return replace(done, nest=Nest((Dim("i", "n"),), prologue))


def lower_nest(block: Block, machine: Machine, *, guard_always: bool = False, collapsed: bool = False) -> LoweredNest:
    """The nest of a block with formals and one row. `guard_always`: indices with more than one term are guarded and
    their constants are columns whatever their values (strategies, whose text does not contain the guards);
    `collapsed`: leave the dims as they are."""
    if not collapsed:
        block = collapse(block)
        if is_flat(block, machine.lanes):
            return _flat(block, machine)
    lanes = machine.lanes if block.batch is not None else 0
    taken = {o.name for o in block.operands} | {s.name for s in block.scalars}
    writer = _Writer(block, machine, Columns(taken), guard_always)
    dims: list[Dim] = []
    trailing: list[Dim] = []
    points: list[tuple[Expr, Expr]] = []
    bindings: dict[str, Expr] = {}
    for d in block.dims:
        kind = DimKind.RED if d.reduced else DimKind.PAR
        if lanes and d.name == block.batch:
            count = writer.columns.column(f"n_{BLOCK}", -(-d.extent // lanes))
            dims.append(Dim(BLOCK, count, kind))
            lane = Dim(LANE, lanes, DimKind.RED if d.reduced else DimKind.LANE)
            (dims if d.reduced and machine.order is Order.BITWISE else trailing).append(lane)
            index: Expr = Binary("+", Binary("*", Ref(BLOCK), Num(lanes)), Ref(LANE))
            bindings[d.name] = index
            points.append((index, Num(0)))
            continue
        symbol, extent = writer.extent(d.name)
        limit = writer.limit((symbol, extent))
        dims.append(Dim(d.name, limit, kind))
        if not d.reduced:
            points.append((Ref(d.name), Num(limit) if isinstance(limit, int) else Ref(limit)))
    bindings[ELEMENT_NUMBER] = _number(points)
    accesses = {o.name: writer.axes(o) for o in block.operands}
    guarded = any(a.guarded for a in accesses.values())
    term = None if block.term is None else substitute(block.term, bindings)
    if lanes and block.combine in ("max", "min") and term is not None and block.dim(block.batch or "").reduced:
        # Lanes beyond the last sample hold zeros, which a sum does not see but a maximum does.
        samples = writer.columns.column("samples", block.dim(block.batch or "").extent)
        worst: Expr = Ref("inf") if block.combine == "min" else Unary("-", Ref("inf"))
        term = Cond(Binary("<", bindings[block.batch or ""], Ref(samples)), term, worst)
    done = _formals(block, accesses, writer.columns, machine)
    nest = Nest(
        tuple(_ordered(dims, trailing)),
        tuple(Assign(s.target, substitute(s.value, bindings), s.span) for s in block.prologue),
        block.combine,
        term,
        ACCUMULATOR,
        tuple(Assign(s.target, substitute(s.value, bindings), s.span) for s in block.epilogue),
        block.fill if guarded else 0.0,
    )
    return replace(done, nest=nest)


def _ordered(dims: list[Dim], trailing: list[Dim]) -> list[Dim]:
    """PAR dims, RED dims, lanes: the order in which loops run."""
    whole = [*dims, *trailing]
    return [d for kind in (DimKind.PAR, DimKind.RED, DimKind.LANE) for d in whole if d.kind is kind]

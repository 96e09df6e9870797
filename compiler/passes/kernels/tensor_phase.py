"""tensor_phase: shared state of lower_tensors while one phase is lowered.

Assumes: nothing.
Guarantees: rows of kernels and their launches are created by one function (`emit_row`).
Does not: inspect nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Final

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.source import Span
from compiler.expr.ast import Expr, Ref
from compiler.ir.level1.builder import axis_dims
from compiler.ir.level2.target import Target
from compiler.ir.space import Affine, DType, Role, along
from compiler.layout.assign_layouts import array_of, strides_of
from compiler.passes.kernels.axis_words import Words, dim_words
from compiler.passes.kernels.nest_builder import Loops, Walk, build_loops
from compiler.passes.program.build_program import ProgramBuilder, Prototype
from compiler.passes.program.decisions import Decision
from compiler.strategies import Choice, choose, problem_key
from compiler.strategies.pins import Pins

_NUMBER: Final = re.compile(r"_\d+(?=[.:]|$)")
"""Of a repeated layer, of one that has no name of its own, or of a part."""

WORKSPACE: Final = l2.ArrayFormal("workspace", DType.F32, l2.Mode.UPDATE, l2.ByName())
"""What the launches of a contraction pass to each other."""
PLACES: Final = l2.ArrayFormal("places", DType.F32, l2.Mode.READ, l2.ByName())
"""Which element of each window an operand of windows (l1.Tensor.windows) has."""


@dataclass(frozen=True)
class Place:
    """The place of a tensor in an array: l2.Array.within, first, by_step and ring."""

    within: str
    first: int
    by_step: int = 0
    ring: int = 0


@dataclass(frozen=True)
class Touched:
    """One array of a kernel, as its nest walks it."""

    walk: Walk
    array: str
    dtype: DType
    mode: l2.Mode


@dataclass
class Phase:
    """State while one phase is lowered."""

    builder: ProgramBuilder
    graph: l1.TensorGraph
    lanes: int
    real_bytes: int
    available: frozenset[str]
    device: Target
    tensors: dict[str, l1.Tensor] = field(default_factory=dict)
    arrays: dict[str, str] = field(default_factory=dict)  # tensor -> array that holds it
    wide: set[str] = field(default_factory=set)
    decisions: list[Decision] = field(default_factory=list)
    pins: Pins = field(default_factory=dict)
    ordered: bool = True  # additions of one launch to one element are ordered (Capabilities.atomic_order)
    rows: bool = False  # threads that share a row go on with its elements (Capabilities.rows)
    places: dict[str, Place] = field(default_factory=dict)  # of tensors that lie in arrays of others
    joined: set[str] = field(default_factory=set)  # tensors that consist of others, as their parts
    slices: dict[str, int] = field(default_factory=dict)  # what is a part of its operand -> its first element there
    held: set[str] = field(default_factory=set)  # tensors whose arrays others share
    ranks: dict[str, int] = field(default_factory=dict)  # layer -> its position in the model
    chosen_in: dict[str, str] = field(default_factory=dict)  # tensor of windows -> array that says which element it has
    tiled: dict[str, list[l1.TileSum]] = field(default_factory=dict)  # product -> the sums in its kernel
    known: dict[object, Loops] = field(default_factory=dict)  # loops of nests that had the same walks
    values: dict[object, Expr] = field(default_factory=dict)  # of maps, by their bodies and what these read
    chosen: dict[object, tuple[Choice | None, str]] = field(default_factory=dict)  # of equal contractions
    words: dict[str, Words] = field(default_factory=dict)  # of the axes of tensors, for the text
    numbers: dict[object, tuple[l2.ScalarFormal, ...]] = field(default_factory=dict)  # of kernels, by their names

    def rank(self, path: str) -> int:
        """The position of a tensor's layer in the model: forward nodes come first in a graph."""
        return self.ranks.setdefault(path.split(".")[0], len(self.ranks))

    def dtype(self, tensor: l1.Tensor) -> DType:
        return self.builder.arrays[self.arrays[tensor.name]].dtype

    def touched(self, walk: Walk, mode: l2.Mode = l2.Mode.READ) -> Touched:
        """The array of a tensor that is computed before the kernel, or by it."""
        return Touched(walk, self.arrays[walk.tensor.name], self.dtype(walk.tensor), mode)

    def loops(
        self,
        walks: Sequence[Walk],
        dims: Sequence[tuple[str, int]],
        parallel: Sequence[str],
        literal: frozenset[str] = frozenset(),
        separate: frozenset[str] = frozenset(),
        guarded: bool = False,
    ) -> Loops:
        """build_loops, once for all nests that are walked in the same way: equal layers have equal ones."""
        walks = [replace(w, tensor=self.placed(w.tensor)) for w in walks]
        walked = tuple((w.formal, w.axes, w.tensor.batched, w.tensor.steps_first, w.guarded, w.chosen) for w in walks)
        extents = tuple((w.tensor.shape, w.tensor.whole or w.tensor.room) for w in walks)
        words = dim_words(((w.tensor.name, [w.dim(a) for a in range(len(w.axes))]) for w in walks), self.words)
        key = (walked, extents, tuple(dims), tuple(parallel), literal, separate, guarded, *words.items())
        if key not in self.known:
            self.known[key] = build_loops(walks, dims, parallel, literal, self.lanes, separate, guarded, words)
        return self.known[key]

    def choose(self, node: l1.Contract) -> tuple[Choice | None, str]:
        """The strategy chosen by rule, and why; the same for equal contractions."""
        key = problem_key(node, self.tensors)
        if key not in self.chosen:
            self.chosen[key] = choose(node, self.tensors, self.lanes, self.real_bytes, self.available, self.device)
        return self.chosen[key]

    def temporary(self, tensor: l1.Tensor, span: Span) -> str:
        """The WORK array of a tensor that is local to this phase."""
        name = f"{self.graph.phase}/{tensor.name}"
        kept = tensor.name in self.graph.outputs
        role = Role.STATE if kept else Role.WORK
        array = array_of(tensor, name, self.builder.precision, self.lanes, role, span=span)
        if (at := self.places.get(tensor.name)) is not None:
            role = self.builder.arrays[at.within].role
            array = replace(array, role=role, within=at.within, first=at.first, by_step=at.by_step, ring=at.ring)
        tensor = self.placed(tensor)
        return self.builder.array(replace(array, strides=strides_of(tensor, self.lanes)) if tensor.whole else array)

    def placed(self, tensor: l1.Tensor) -> l1.Tensor:
        """The tensor as it lies in the array of a larger one, if it does."""
        known = self.tensors.get(tensor.name)
        if known is None or tensor.whole or tensor.steps_first:
            return tensor
        return replace(tensor, whole=known.whole, steps_first=known.steps_first)

    def workspace(self, name: str, elements: int, span: Span) -> str:
        """A WORK array of one contraction."""
        name = f"{self.graph.phase}/{name}"
        self.builder.array(l2.Array(name, self.builder.precision, (elements,), Role.WORK, span=span))
        return name


def axes_of(tensor: l1.Tensor) -> tuple[Affine, ...]:
    return tuple(along(f"d{a}") for a in range(len(tensor.shape)))


_ROLES: Final = frozenset({"weight", "bias", "recurrent", "mean", "var", "inverse", "mask", "count", "first"})
"""What is called so is that in every layer."""


@cache
def _words(label: str) -> tuple[str, ...]:
    return tuple(_NUMBER.sub("", label).split("."))


def meaning(tensor: l1.Tensor, of: l1.Tensor) -> str:
    """What a tensor is in any layer of its kind: `conv1.weight.grad` -> `weight_grad`; of another layer than that of
    `of`, whose kind may be another in the next row: one of _ROLES, or `x`, a value."""
    (layer, *parts), (other, *_) = _words(tensor.name), _words(of.name)
    parts = [x for x in parts if not x.isdigit() and x != "at"]
    if not parts:
        return layer
    if layer == other or "grad" in parts:
        return "_".join(parts)
    return parts[-1] if parts[-1] in _ROLES else "x"


def emit_row(
    p: Phase,
    out: l1.Tensor,
    what: str,
    arrays: list[l2.ArrayFormal],
    bound: Mapping[str, str],
    columns: Mapping[str, int],
    scalars: tuple[tuple[str, float], ...],
    body: l2.Nest | l2.Contract | l2.Attention,
    span: Span,
    keys: Mapping[str, l2.StreamKey] | None = None,
    due: tuple[int, int] = (1, 0),
) -> None:
    """One row of a kernel, which makes `out`, and its launch in this phase, in the steps `due`: (every, offset). Labels
    leave out which of repeated layers a row belongs to: a kernel is named after a row, and its text must not depend on
    their number."""
    label = _NUMBER.sub("", f"{out.name}: {what}")
    names = (tuple(columns), tuple(s for s, _ in scalars), tuple(keys or ()))
    if names not in p.numbers:
        types = zip(names, (DType.I64, p.builder.precision, DType.U64), strict=True)
        p.numbers[names] = tuple(l2.ScalarFormal(n, t) for group, t in types for n in group)
    formals: tuple[l2.Formal, ...] = (*arrays, *p.numbers[names])
    values: dict[str, l2.ColumnValue] = {**columns, **dict(scalars), **(keys or {})}
    kernel = p.builder.rows_of(Prototype, label, span, p.rank(out.name), formals, body)
    kernel.add_row(bound, values, out.name).launch(p.graph.phase, due, join=False)


def emit_walked(
    p: Phase,
    out: l1.Tensor,
    what: str,
    arrays: Sequence[Touched],
    loops: Loops,
    body: l2.Nest | l2.Contract,
    span: Span,
    scalars: tuple[tuple[str, float], ...] = (),
    more: Sequence[tuple[l2.ArrayFormal, str]] = (),
    columns: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """The row of a kernel of the result `out` that walks arrays in `loops`. `more`: formals, and the arrays that they
    are bound to; `columns`: beside those of the loops."""
    formals = [
        l2.ArrayFormal(
            t.walk.formal,
            t.dtype,
            t.mode,
            loops.accesses[t.walk.formal],
            meaning(t.walk.tensor, out if t.mode is l2.Mode.READ else t.walk.tensor),
        )
        for t in arrays
    ]
    bound = {t.walk.formal: t.array for t in arrays} | {f.name: array for f, array in more}
    every = [*formals, *(f for f, _ in more)]
    emit_row(p, out, what, every, bound, {**loops.columns, **columns}, scalars, body, span)


def emit_copy(p: Phase, out: l1.Tensor, what: str, y: Walk, x: Walk, span: Span) -> None:
    """A kernel that copies a tensor, element by element of `y`."""
    arrays, dims = [p.touched(y, l2.Mode.WRITE), p.touched(x)], axis_dims(y.tensor.shape)
    loops = p.loops([y, x], dims, [d for d, _ in dims])
    nest = l2.Nest(loops.dims, (l2.Assign(y.formal, Ref(x.formal), span),))
    emit_walked(p, out, what, arrays, loops, nest, span)

"""nest_builder: dims and affine maps over logical axes become loops over storage.

Assumes: Contracts in gather form; Maps with index maps over output axes.
Guarantees: a loop nest whose structure depends on index maps and kernel extents only, never on sizes: sizes, strides
and paddings are columns `<formal>_...`; adjacent dims that every operand walks contiguously are collapsed into one loop
(elementwise work over a whole tensor is one flat loop). With lanes, a batch dim is split into a loop over blocks and a
LANE dim of literal extent (RED and innermost when the batch is summed over).
Does not: choose strategies.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.ir.space import Affine, plain_dim, stays_inside
from compiler.layout.assign_layouts import strides_of
from compiler.passes.kernels.axis_words import NUMBERED

LANE = "lane"
ROW = "row"
"""The local that holds a row's number."""


@dataclass(frozen=True)
class Walk:
    """One array as the nest walks it: `axes[a]` indexes axis a of `tensor`; batched tensors have lanes. `guarded`:
    axes whose index may be out of bounds, for some sizes. `chosen`: the axis that the local ROW indexes."""

    formal: str
    tensor: l1.Tensor
    axes: tuple[Affine, ...]
    guarded: frozenset[int] = frozenset()
    chosen: int | None = None

    def dim(self, axis: int) -> str | None:
        """The dim that an axis follows within its extent, if it follows one alone, which no axis before it does."""
        before = [plain_dim(self.axes[a]) for a in range(axis) if a not in self.guarded and a != self.chosen]
        found = None if axis in self.guarded or axis == self.chosen else plain_dim(self.axes[axis])
        return None if found in before else found

    def place(self, axis: int) -> int:
        """The position of an axis in the array, with a gap before each that is longer there."""
        t = self.tensor
        gaps = sum(own != extent for own, extent in zip(t.shape[: axis + 1], t.whole or t.room, strict=False))
        return 1 - axis if t.steps_first and axis < 2 else axis + gaps


@dataclass(frozen=True)
class Loops:
    """Dims, the access of every formal, and the columns that they use; `words`: what text calls the dims that they were
    made of."""

    dims: tuple[l2.Dim, ...]
    accesses: Mapping[str, l2.Access]
    columns: Mapping[str, int]
    words: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class _Step:
    """How a formal moves with a loop: elements per iteration, the storage axis (blocks of the batch 0, features
    1.., lanes last) and whether that axis is the innermost feature, whose stride is structure, not size."""

    stride: int
    axis: int
    innermost: bool


@dataclass
class _Physical:
    """A loop over storage while it is being built."""

    name: str
    extent: int
    literal: bool
    kind: l2.DimKind
    merged: bool = False  # of several
    steps: dict[str, _Step] = field(default_factory=dict)  # of the formals that walk it plainly


def _mergeable(a: _Physical, b: _Physical, separate: AbstractSet[str]) -> bool:
    """Whether loop b directly inside loop a can be collapsed with it: every formal walks both, or neither."""
    if a.kind is not b.kind or a.name in separate or b.name in separate or a.literal:
        return False
    if a.steps.keys() != b.steps.keys():
        return False
    return all(a.steps[f].axis + 1 == b.steps[f].axis for f in a.steps)


def _merge(loops: list[_Physical], separate: AbstractSet[str]) -> list[_Physical]:
    done: list[_Physical] = []
    for loop in loops:
        if done and _mergeable(done[-1], loop, separate):
            last = done.pop()
            loop = _Physical(last.name, last.extent * loop.extent, False, last.kind, True, loop.steps)
        done.append(loop)
    return done


def _leaving(w: Walk, extents: Mapping[str, int]) -> frozenset[int]:
    """Axes that follow a dim alone, which goes further than they do."""
    alone = ((a, w.dim(a)) for a in range(len(w.axes)))
    return frozenset(a for a, d in alone if d is not None and extents[d] > w.tensor.shape[a])


def build_loops(
    walks: Sequence[Walk],
    dims: Sequence[tuple[str, int]],
    parallel: Sequence[str],
    literal: frozenset[str],
    lanes: int,
    separate: frozenset[str] = frozenset(),
    guarded: bool = False,
    words: Mapping[str, str] = MappingProxyType({}),
) -> Loops:
    """Loops over `dims` (in order; those in `parallel` are PAR, the others RED).

    `literal`: dims whose extent is structure (kernel windows); `separate`: dims that expressions read by name.
    `guarded`: guard every affine index, even one that stays in bounds: padded and unpadded layers share one text.
    `words`: what text calls dims, where that is not their name; those of several axes, and numbered ones without a
    word, are letters from `i` on. The batch dim,
    when walks have lanes, is the dim that indexes their axis 0.
    """
    extents = dict(dims)
    walks = [replace(w, guarded=w.guarded | _leaving(w, extents)) for w in walks]
    batch = next((w.axes[0].terms[0][0] for w in walks if lanes and w.tensor.batched and w.axes[0].terms), None)
    loops: list[_Physical] = []
    for name, extent in dims:
        kind = l2.DimKind.PAR if name in parallel else l2.DimKind.RED
        blocks = -(-extent // lanes) if name == batch else extent
        loops.append(_Physical(name, blocks, name in literal, kind))
    lane: _Physical | None = None
    if batch is not None:
        lane = _Physical(LANE, lanes, True, l2.DimKind.LANE if batch in parallel else l2.DimKind.RED)
    strides = {w.formal: strides_of(w.tensor, lanes) for w in walks}
    tied = separate | literal | _add_steps(walks, {x.name: x for x in loops}, lane, strides)
    ordered = _in_storage_order(loops, lane, tied)
    columns: dict[str, int] = {}
    final: list[l2.Dim] = []
    letters = iter([w for w in "ijkluvw" if w not in extents and w not in words.values()])
    called = dict[str, str]()
    for x in ordered:
        word = "" if x.merged else words.get(x.name, "")
        if x.merged or (not word and NUMBERED.fullmatch(x.name)):
            word = next(letters, "")
        called[x.name] = word or x.name
        if x.literal:
            final.append(l2.Dim(x.name, x.extent, x.kind, word))
        else:
            columns[f"n_{x.name}"] = x.extent
            final.append(l2.Dim(x.name, f"n_{x.name}", x.kind, word))
    return Loops(
        tuple(final), _accesses(walks, ordered, strides, extents, guarded, columns), columns, {**called, **words}
    )


def _add_steps(
    walks: Sequence[Walk],
    by_name: Mapping[str, _Physical],
    lane: _Physical | None,
    strides: Mapping[str, tuple[int, ...]],
) -> set[str]:
    """Sets the strides of the loops in each array; returns the dims that occur in affine sums of an index."""
    tied: set[str] = set()
    for w in walks:
        for a, axis in enumerate(w.axes):
            for d, _ in axis.terms if a != w.chosen else ():
                if w.dim(a) != d:
                    tied.add(d)
                else:
                    last = a == len(w.axes) - 1
                    by_name[d].steps[w.formal] = _Step(strides[w.formal][a], w.place(a), last)
        if lane is not None and w.tensor.batched:
            lane.steps[w.formal] = _Step(1, w.place(len(w.axes)), True)
    return tied


def _in_storage_order(loops: Sequence[_Physical], lane: _Physical | None, tied: AbstractSet[str]) -> list[_Physical]:
    """The innermost axis of the first batched (else first) array comes last; lanes innermost."""
    every = [*loops] if lane is None else [*loops, lane]
    par = [x for x in every if x.kind is l2.DimKind.PAR]
    red = [x for x in every if x.kind is l2.DimKind.RED]
    if lane is None or lane.kind is not l2.DimKind.LANE:
        return [*_merge(par, tied), *_merge(red, tied)]
    # A lane that everything around it walks contiguously joins the flat loop.
    if par and not red and _flattens(par[-1], lane, tied):
        lane.kind, lane.literal = l2.DimKind.PAR, False
        return _merge([*par, lane], tied)
    return [*_merge(par, tied), *_merge(red, tied), lane]


def _flattens(inner: _Physical, lane: _Physical, tied: AbstractSet[str]) -> bool:
    return inner.name not in tied and inner.steps.keys() == lane.steps.keys()


def _accesses(
    walks: Sequence[Walk],
    ordered: Sequence[_Physical],
    strides: Mapping[str, tuple[int, ...]],
    extents: Mapping[str, int],
    guarded: bool,
    columns: dict[str, int],
) -> dict[str, l2.Access]:
    """Plain walks become one axis per loop; others keep their affine index, guarded where it may be out of bounds.
    Formals that divide the same index have the same columns."""
    accesses: dict[str, l2.Access] = {}
    windows: dict[Hashable, tuple[str, str]] = {}
    kept = {x.name: x for x in ordered}
    for w in walks:
        axes: list[l2.Axis] = []
        for x in ordered:
            step = x.steps.get(w.formal)
            if step is None:
                continue
            if step.innermost:
                axes.append(l2.Axis(((x.name, 1),), stride=step.stride))
            else:
                column = f"{w.formal}_by_{x.name}"
                columns[column] = step.stride
                axes.append(l2.Axis(((x.name, 1),), stride=column))
        for a, axis in enumerate(w.axes):
            if w.dim(a) is not None:
                continue
            if not axis.terms and axis.const == 0:
                continue
            stride: int | str = strides[w.formal][a]
            if a != len(w.axes) - 1:
                columns[f"{w.formal}_stride{a}"] = strides[w.formal][a]
                stride = f"{w.formal}_stride{a}"
            if a == w.chosen:
                columns[f"{w.formal}_extent{a}"] = w.tensor.shape[a]
                axes.append(l2.Axis(axis.terms, 0, 1, f"{w.formal}_extent{a}", stride))
                continue
            assert all(d in kept for d, _ in axis.terms), "dims of affine indices are not merged"
            key = (axis, w.tensor.shape[a]) if axis.div != 1 else (w.formal, a)
            const, bound = windows.setdefault(key, (f"{w.formal}_from{a}", f"{w.formal}_extent{a}"))
            columns[const] = axis.const
            extent: str | None = None
            if guarded or not stays_inside(axis, extents, w.tensor.shape[a]):
                extent = bound
                columns[extent] = w.tensor.shape[a]
            axes.append(l2.Axis(axis.terms, const, axis.div, extent, stride))
        accesses[w.formal] = l2.Strided(tuple(axes))
    return accesses

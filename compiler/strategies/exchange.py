"""exchange: a convolution computed as another one that has the same sums ("swapping", J. Schlueter, The fastest
convolutions in Theano with meta-optimization, 2015).

Where x is an image and w are weights, y[n, o, i, j] = sum over c, r, s of x[n, c, i + r, j + s] w[o, c, r, s] is also
the gradient of the weights of a convolution whose samples are c, whose channels are n and whose window is (i, j); and
the gradient of weights is a convolution in the same way. So the strategies of one direction compute the other, on
copies of the operands with samples and channels exchanged (`exchanged_...`). A window that is walked backwards is one
that is walked forwards over turned weights, and steps between the elements of a gradient are zeros in a copy of it
(`turned_...`): the gradient of an image is a convolution of it, and a convolution such a gradient. No window leaves a
copy of an image with its border (`bordered_...`): that is a product of matrices.

Assumes: Contracts in gather form.
Guarantees: strategies that match a contraction as it is are not proposed for its equivalent. Rules take one where it is
estimated to be faster than what matches as it is: clearly, where the lanes are not those of the batch; both samples and
channels are multiples of them then.
Does not: lower (compiler/passes/kernels/lower_exchanged.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.ir.space import Affine, along
from compiler.strategies.choice import Choice, Exchange, NotApplicable, Problem, product, refuse_if, rounded
from compiler.strategies.convolution import convolution, weight_gradient
from compiler.strategies.cost.cpu import STEPS_BYTES, second_cache
from compiler.strategies.cost.tiles import beyond
from compiler.strategies.strategy import Strategy
from compiler.strategies.window import WindowAxis

EXCHANGED, TURNED, SPREAD, BORDERED = KINDS = ("exchanged_", "turned_", "spread_", "bordered_")
"""What the names of such candidates begin with."""
MOST: Final = 3
"""Exchanges of a contraction that are worth measuring, by estimate, and as many by libraries."""
HOPELESS: Final = 4.0
"""Those that take this many times the estimate of the rule's choice are not."""
LANES_COPY_US, LANES_FAR_COPY_US, LANES_TURNED_COPY_US = 1.8e-4, 5e-4, 4.5e-4
"""Of an element that is copied where the batch stays in the lanes, of copies of fewer than `STEPS_BYTES`, or more;
where lanes become others."""

Dims = tuple[str, ...]
Axes = tuple[Affine, ...]


@dataclass(frozen=True)
class _Equivalent:
    kind: str
    node: l1.Contract
    operands: tuple[l1.Tensor, l1.Tensor]
    sources: tuple[int, int]
    reads: tuple[Axes | None, Axes | None]
    back: Axes


def exchanged(p: Problem, strategies: Iterable[Strategy], best: float) -> list[Choice]:
    """The candidates for a contraction by equivalents of it, libraries last. `best`: the estimate for the choice of the
    rules, 0 where there is none."""
    strategies = [s for s in strategies if s.reads(p) and s.choice(p) is None]
    found = [_outer(p, e, inner) for e in _equivalents(p) for inner in _inner(p, e, strategies)]
    worth = sorted((c for c in found if not best or c.microseconds <= HOPELESS * best), key=lambda c: c.microseconds)
    own = [c for c in worth if c.exchange is not None and c.exchange.inner.microseconds]
    libraries = [c for c in worth if c not in own]  # of which nothing is known
    return [*own[:MOST], *libraries[:MOST]]


def share(p: Problem, choice: Choice) -> float:
    """The share of the estimate of what matches as it is below which rules take an equivalent."""
    if not p.lanes or choice.strategy.startswith(SPREAD):
        return 1.0
    return p.core.exchanged if choice.strategy.startswith(EXCHANGED) else 0.0


def basis(choice: Choice) -> str:
    """The strategy that computes a choice."""
    return choice.strategy if choice.exchange is None else choice.exchange.inner.strategy


def _equivalents(p: Problem) -> Iterator[_Equivalent]:
    for equivalent in (_as_weight_gradient, _as_convolution, _turned, _spread, _bordered):
        with suppress(NotApplicable):
            yield equivalent(p)


def _inner(p: Problem, e: _Equivalent, strategies: Iterable[Strategy]) -> Iterator[Choice]:
    """Of copies with borders products alone: strategies of convolutions make these themselves."""
    tensors = dict(zip(e.node.ins, e.operands, strict=True))
    strategies = [s for s in strategies if s.strided] if e.kind == BORDERED else strategies
    with suppress(NotApplicable):
        problem = product(e.node, tensors, p.lanes, p.real_bytes, p.device)
        yield from (c for s in strategies if (c := s.choice(problem)))


def _outer(p: Problem, e: _Equivalent, inner: Choice) -> Choice:
    exchange = Exchange(e.node, e.operands, e.sources, e.reads, e.back, inner)
    copied = [(t, r, p.operands[k]) for t, r, k in zip(e.operands, e.reads, e.sources, strict=True) if r is not None]
    made = [(_elements(p, t), _each(p, t, r, of)) for t, r, of in copied]
    times = 2 if p.lanes and not exchange.same_lanes else 1
    made.append((times * _elements(p, p.node.out), _each(p, p.node.out, e.back, e.node.out)))
    return replace(
        inner,
        strategy=e.kind + inner.strategy,
        scratch_bytes=inner.scratch_bytes + p.real_bytes * sum(n for n, _ in made),
        microseconds=inner.microseconds + _copies(p, exchange.same_lanes, made) + p.core.copy_start_us * len(made),
        workspace=0,
        exchange=exchange,
    )


def _elements(p: Problem, copy: l1.Tensor) -> int:
    """Elements of a copy, lanes without a sample included."""
    first, *rest = copy.shape
    return (rounded(first, p.lanes) if p.lanes and copy.batched else first) * prod(rest)


def _copies(p: Problem, same_lanes: bool, made: list[tuple[int, float]]) -> float:
    """Microseconds of copies: of so many elements, each of which takes so long where lanes, if any, are others."""
    elements, size = sum(n for n, _ in made), p.real_bytes
    if p.device.bandwidth:
        return 2 * size * elements / (1e3 * p.device.bandwidth)
    if p.lanes and same_lanes:
        return elements * (LANES_COPY_US if size * elements <= STEPS_BYTES else LANES_FAR_COPY_US)
    return sum(n * each for n, each in made)


def _each(p: Problem, copy: l1.Tensor, reads: Axes, of: l1.Tensor) -> float:
    """Microseconds of an element of a copy that is row-major or has other lanes."""
    if p.lanes:
        return LANES_TURNED_COPY_US if copy.batched and of.batched else p.core.copy_us
    if all(a.terms == ((f"d{k}", 1),) for k, a in enumerate(reads)) and any(a.const for a in reads):
        return p.core.copy_border_us * max(1.0, beyond(2 * p.real_bytes * _elements(p, copy), p.device))
    core = p.core
    single = core.copy_us
    if 2 * p.real_bytes * _elements(p, copy) > second_cache(p.device):
        back = all(a.terms[:1] and a.terms[0][0] == f"d{k}" for k, a in enumerate(reads))
        single = core.copy_back_us if back else core.copy_far_us
    return core.copy_near_us + (single - core.copy_near_us) / _run(copy, reads, of)


def _run(copy: l1.Tensor, reads: Axes, of: l1.Tensor) -> int:
    """Neighbours of a copy that are neighbours in what it is copied from."""
    run = 1
    for k in range(1, min(len(copy.shape), len(of.shape)) + 1):
        if reads[-k] != along(f"d{len(copy.shape) - k}"):
            break
        run *= copy.shape[-k]
        if of.shape[-k] != copy.shape[-k]:
            break
    return run


def _as_weight_gradient(p: Problem) -> _Equivalent:
    conv = convolution(p)
    refuse_if(max(conv.rows.div, conv.cols.div) > 1, "rows or columns are divided")
    refuse_if(not _full(p, conv.samples, conv.ins), "some lanes have no sample")
    (n, *group, o, i, j), (c, r, s) = p.out, conv.summed
    flip = _turning(p, (conv.rows, r), (conv.cols, s), False)
    x, w = p.operands[conv.vector], p.operands[1 - conv.vector]
    image, weights = (c, *group, n), (c, *group, o, r, s)
    maps = (*map(along, image), *(_flipped(a, flip) for a in p.axes(conv.vector)[-2:]))
    own = {d: along(f"d{k}") for k, d in enumerate(weights)}
    reads = _swapped(len(x.shape)), tuple(_flipped(a, flip, own) for a in p.axes(1 - conv.vector))
    copies = _copy(p, (*image, x.shape[-2], x.shape[-1]), True, x), _copy(p, weights, True, w)
    out = (*group, o, n, i, j)
    return _equivalent(p, EXCHANGED, conv.vector, out, False, copies, (maps, tuple(map(along, weights))), reads)


def _as_convolution(p: Problem) -> _Equivalent:
    found = weight_gradient(p)
    refuse_if(not _full(p, found.samples, found.ins), "some lanes have no sample")
    refuse_if(min(found.rows.tap, found.cols.tap) < 1, "the window is walked backwards")
    x, d = p.operands[found.vector], p.operands[1 - found.vector]
    *group, o, c, r, s = p.out
    n = p.plain(found.vector)[0]
    assert n is not None
    image = (c, *group, n)
    maps = (*map(along, image), *p.axes(found.vector)[-2:])
    other = p.plain(1 - found.vector)
    weights = (*group, o, n, *(str(q) for q in other[-2:]))
    copies = _copy(p, (*image, x.shape[-2], x.shape[-1]), True, x), _copy(p, weights, False, d)
    reads = _swapped(len(x.shape)), tuple(along(f"d{weights.index(str(q))}") for q in other)
    both = maps, tuple(map(along, weights))
    return _equivalent(p, EXCHANGED, found.vector, (c, *group, o, r, s), True, copies, both, reads)


def _turned(p: Problem) -> _Equivalent:
    """Forwards, without division; or backwards where it is that already."""
    conv = convolution(p)
    refuse_if(conv.rows.taps * conv.cols.taps == 1, "the window has one pixel")
    plain = all(a.div == 1 and a.tap >= 1 for a in (conv.rows, conv.cols))
    _, r, s = conv.summed
    flip = _turning(p, (conv.rows, r), (conv.cols, s), plain)
    x, w = p.operands[conv.vector], p.operands[1 - conv.vector]
    axes, spread = p.axes(conv.vector), (conv.rows.div, conv.cols.div)
    maps = (*axes[:-2], *(replace(_flipped(a, flip), div=1) for a in axes[-2:]))
    wide = tuple(div * (e - 1) + 1 for div, e in zip(spread, x.shape[-2:], strict=True))
    dims = tuple(f"d{k}" for k in range(len(x.shape)))
    apart = (*map(along, dims[:-2]), *(Affine(((q, 1),), 0, div) for q, div in zip(dims[-2:], spread, strict=True)))
    outputs, inputs = p.out[-3], conv.summed[0]
    weights = (*p.out[1:-3], *((inputs, outputs) if plain else (outputs, inputs)), r, s)
    own = {d: along(f"d{k}") for k, d in enumerate(weights)}
    reads = None if spread == (1, 1) else apart, tuple(_flipped(a, flip, own) for a in p.axes(1 - conv.vector))
    copies = replace(x, shape=(*x.shape[:-2], *wide)), _copy(p, weights, False, w)
    both = maps, tuple(map(along, weights))
    return _equivalent(p, TURNED, conv.vector, p.out, p.node.out.batched, copies, both, reads)


def _spread(p: Problem) -> _Equivalent:
    """At the pixels of the gradient that comes in."""
    conv = convolution(p)
    refuse_if(conv.rows.taps * conv.cols.taps > 1, "the window has several pixels")
    refuse_if(max(conv.rows.div, conv.cols.div) == 1, "every pixel is seen")
    refuse_if(max(conv.rows.step, conv.cols.step) > 1, "pixels that are seen lie in steps")
    operands, axes = (p.operands[conv.vector], p.operands[1 - conv.vector]), p.axes(conv.vector)
    *others, i, j = p.out
    rows, cols = operands[0].shape[-2:]
    seen = replace(p, extents={**p.extents, i: rows, j: cols})
    maps = (*axes[:-2], *(replace(a, const=0, div=1) for a in axes[-2:])), p.axes(1 - conv.vector)
    found = _equivalent(seen, SPREAD, conv.vector, p.out, p.node.out.batched, operands, maps, (None, None))
    apart = (
        replace(a, terms=tuple((f"d{k}", c) for q, c in a.terms if q == d))
        for k, (d, a) in enumerate(zip((i, j), axes[-2:], strict=True), len(others))
    )
    return replace(found, back=(*found.back[:-2], *apart))


def _bordered(p: Problem) -> _Equivalent:
    """On copies with their borders, every window walked forwards: a product that no index leaves."""
    refuse_if(p.lanes or p.device.warp > 1, "its tensors are not those of a core, row-major")
    refuse_if(any(t.whole or t.steps_first or t.windows or t.panel for t in p.operands), "an operand is no whole array")
    axes = [a for side in (0, 1) for a in p.axes(side)]
    refuse_if(any(a.div > 1 for a in axes), "rows or columns are divided")
    flip = {d: p.extents[d] for a in axes for d, k in a.terms if k < 0 and d not in p.out}
    walks = [_walked(p, p.operands[side], [_flipped(a, flip) for a in p.axes(side)]) for side in (0, 1)]
    refuse_if(all(reads is None for _, _, reads in walks), "no index leaves its operand")
    (x, x_map, x_reads), (w, w_map, w_reads) = walks
    batched = p.node.out.batched
    return _equivalent(p, BORDERED, 0, p.out, batched, (x, w), (x_map, w_map), (x_reads, w_reads))


def _walked(p: Problem, operand: l1.Tensor, axes: list[Affine]) -> tuple[l1.Tensor, Axes, Axes | None]:
    """A copy of an operand that is walked forwards from its first element, its axes, and what it reads; the operand
    itself where no index leaves it."""
    shape, maps, reads = list[int](), list[Affine](), list[Affine]()
    for number, axis in enumerate(axes):
        back = any(k < 0 for _, k in axis.terms)
        refuse_if(back and any(k > 0 for _, k in axis.terms), "it is walked forwards and backwards at once")
        maps.append(Affine(tuple((d, abs(k)) for d, k in axis.terms)))
        shape.append(1 + sum(abs(k) * (p.extents[d] - 1) for d, k in axis.terms))
        reads.append(Affine(((f"d{number}", -1 if back else 1),), axis.const))
    inside = all(a.const >= 0 and all(k > 0 for _, k in a.terms) for a in axes) and all(
        a.const + n <= e for a, n, e in zip(axes, shape, operand.shape, strict=True)
    )
    if inside:
        return operand, tuple(axes), None
    return replace(operand, shape=tuple(shape)), tuple(maps), tuple(reads)


def _full(p: Problem, *extents: int) -> bool:
    """Whether the lanes, if any, are full with either dim in them."""
    return not p.lanes or all(e % p.lanes == 0 for e in extents)


def _turning(p: Problem, rows: tuple[WindowAxis, str], cols: tuple[WindowAxis, str], back: bool) -> dict[str, int]:
    """The extents of the window's dims that are to be walked the other way round, forwards or `back`."""
    return {d: p.extents[d] for axis, d in (rows, cols) if (axis.tap > 0 if back else axis.tap < 0)}


def _flipped(axis: Affine, flip: dict[str, int], names: dict[str, Affine] | None = None) -> Affine:
    """The index with the dims of `flip` (extents) counted from their ends, in other names."""
    const = axis.const + sum(k * (flip[d] - 1) for d, k in axis.terms if d in flip)
    terms = ((d if names is None else names[d].terms[0][0], -k if d in flip else k) for d, k in axis.terms)
    return Affine(tuple(terms), const, axis.div)


def _swapped(rank: int) -> Axes:
    """(samples, [groups], channels, rows, columns) of an image by (channels, [groups], samples, rows, columns)."""
    first = range(rank - 2)
    return tuple(along(f"d{k}") for k in (first[-1], *first[1:-1], 0, rank - 2, rank - 1))


def _copy(p: Problem, dims: tuple[str | int, ...], batched: bool, of: l1.Tensor) -> l1.Tensor:
    return replace(of, shape=tuple(p.extents[d] if isinstance(d, str) else d for d in dims), batched=batched)


def _equivalent(
    p: Problem,
    kind: str,
    vector: int,
    out: Dims,
    batched: bool,
    copies: tuple[l1.Tensor, l1.Tensor],
    maps: tuple[Axes, Axes],
    reads: tuple[Axes | None, Axes | None],
) -> _Equivalent:
    """`copies`, `maps`, `reads`: of the image, which is its first operand, then of the other one."""
    dims = tuple((d, p.extents[d]) for d in (*out, *(d for d in p.extents if d not in out)))
    result = replace(p.node.out, shape=tuple(p.extents[d] for d in out), batched=batched)
    named = replace(copies[0], name="x0"), replace(copies[1], name="x1")
    node = replace(p.node, out=result, dims=dims, out_map=tuple(map(along, out)), ins=("x0", "x1"), in_maps=maps)
    back = tuple(along(f"d{p.out.index(d)}") for d in out)
    return _Equivalent(kind, node, named, (vector, 1 - vector), reads, back)

"""pack_windows: convolutions of few channels take taps of their windows for channels.

Matrix units take many channels of a tap at a time (compiler/strategies/cuda/stored_products.py). An image of three
channels has none of that; but with the taps of a row of the window, and as many rows as its stride, side by side in
place of its channels, it has: a 7x7 convolution of 3 channels with a stride of 2 is one of 4x1 taps of 2 * 8 * 4
channels with a stride of 1. Rows are those of "space to depth", so that the packed image has each pixel but for overlap
along columns (Ying et al. 2018, "Image Classification at Supercomputer Scale", do so with both).

Assumes: gather form, after channels_last; a target without lanes, that stores bf16.
Guarantees: a packed image is made once for the convolutions and gradients of weights that read it so; each is a sum of
the same products and of products with 0, in another order. All of an image's windows are packed, or none: where that is
faster by estimate, by more than MARGIN. Gradients of weights are unpacked.
Does not: pack gradients of images; keep what is not finite from the outputs of which it is the tap behind the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.expr.functions import ROUNDED
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import Affine, plain_dim
from compiler.passes.program.decisions import Decision
from compiler.strategies import in_rows
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cuda.stored_products import ALIGNED

NAME: Final = "pack_windows"
MARGIN: Final = 0.8
CHANNELS: Final = ALIGNED // 2
"""Those of a packed image are a multiple of so many: the copy engine fetches whole lines of bf16."""
BF16: Final = "bf16"


def pack_windows(nodes: tuple[l1.Node, ...], target: Capabilities) -> tuple[tuple[l1.Node, ...], tuple[Decision, ...]]:
    """The graph with packed images, and a decision for each image that could be one."""
    tensors = {t.name: t for n in nodes for t in l1.results(n)}
    found: dict[str, list[_Window]] = {}
    for node in nodes:
        for name, window in _windows(node, tensors):
            found.setdefault(name, []).append(window)
    made: dict[str, list[l1.Node]] = {}
    decisions = list[Decision]()
    for name, windows in found.items():
        packing = _packing(tensors[name], windows)
        if packing is None or len({w.shape for w in windows}) > 1:
            continue
        packed, decision = _decided(tensors, target, name, windows, packing)
        decisions.append(decision)
        made |= packed
    result = [x for n in nodes for x in made.get(_name(n), [n])]
    return tuple(result), tuple(decisions)


def _name(node: l1.Node) -> str:
    return node.out.name if isinstance(node, l1.Contract) else ""


@dataclass(frozen=True)
class _Shape:
    """A window along rows and columns: its taps, how far it moves, where the first one begins, how many there are."""

    taps: tuple[int, int]
    steps: tuple[int, int]
    first: tuple[int, int]
    many: tuple[int, int]


@dataclass(frozen=True)
class _Window:
    """A contraction that walks an image, by its dims: of samples, outputs, rows and columns, channels and taps.
    `other`: the weights, or (`weights` being summed) the gradient of the result."""

    node: l1.Contract
    other: str
    n: str
    o: str
    at: tuple[str, str]
    c: str
    taps: tuple[str, str]
    shape: _Shape

    @property
    def forward(self) -> bool:
        return self.node.out.batched


def _windows(node: l1.Node, tensors: Mapping[str, l1.Tensor]) -> Iterator[tuple[str, _Window]]:
    """The image that a node walks, with all of its channels, and how."""
    if not isinstance(node, l1.Contract) or not l1.is_sum_of_products(node) or len(node.ins) != 2:
        return
    for image in (0, 1):
        x, y = node.ins[image], node.ins[1 - image]
        if any(tensors[t].dtype != BF16 or len(tensors[t].shape) != 4 for t in (x, y)):
            continue
        found = _window(node, node.in_maps[image], node.in_maps[1 - image], y)
        if found is not None and tensors[x].batched and dict(node.dims)[found.c] == tensors[x].shape[1]:
            yield x, found


def _window(node: l1.Contract, axes: tuple[Affine, ...], others: tuple[Affine, ...], other: str) -> _Window | None:
    """How a node walks an operand with these indices; `others`: those of the operand `other`."""
    plain, out = [plain_dim(a) for a in others], [plain_dim(a) for a in node.out_map]
    n, c = plain_dim(axes[0]), plain_dim(axes[1])
    if n is None or c is None or None in plain or None in out or any(a.div != 1 for a in axes):
        return None
    forward = node.out.batched
    pixels, weights = (out, plain) if forward else (plain, out)
    o = weights[0]
    if len(pixels) != 4 or pixels[0] != n or pixels[3] != o or o is None or weights[1] != c or len(weights) != 4:
        return None
    rows, cols = pixels[1], pixels[2]
    r, s = weights[2], weights[3]
    assert rows is not None and cols is not None and r is not None and s is not None
    down, across = (dict(a.terms) for a in axes[2:])
    if down.keys() != {rows, r} or across.keys() != {cols, s} or down[r] != 1 or across[s] != 1:
        return None
    extents, steps = dict(node.dims), (down[rows], across[cols])
    if len(extents) != 7 or min(steps) < 1:
        return None
    many = extents[rows], extents[cols]
    shape = _Shape((extents[r], extents[s]), steps, (axes[2].const, axes[3].const), many)
    return _Window(node, other, n, o, (rows, cols), c, (r, s), shape)


@dataclass(frozen=True)
class _Packing:
    """Rows, taps of a row and channels that are the channels of a packed image; `high`: its taps."""

    rows: int
    taps: int
    channels: int
    high: int

    @property
    def deep(self) -> int:
        return self.rows * self.taps * self.channels


def _packing(image: l1.Tensor, windows: list[_Window]) -> _Packing | None:
    """The least one whose channels matrix units take; None where there is none, or none is needed."""
    channels, shape = image.shape[1], windows[0].shape
    if channels % CHANNELS == 0:
        return None
    rows, taps = shape.steps[0], shape.taps[1]
    sizes = [
        _Packing(rows, s, c, -(-shape.taps[0] // rows))
        for s, c in product(range(taps, 2 * taps), range(channels, 2 * channels + 1))
        if rows * s * c % CHANNELS == 0
    ]
    return min(sizes, key=lambda x: x.deep, default=None)


def _decided(
    tensors: Mapping[str, l1.Tensor], target: Capabilities, name: str, windows: list[_Window], packing: _Packing
) -> tuple[dict[str, list[l1.Node]], Decision]:
    """What takes the place of each contraction, if it is faster, and the decision."""
    image = _image(tensors[name], windows[0], packing)
    known = {**tensors, **{t.name: t for x in image for t in l1.results(x)}}
    packed = [_packed(w, tensors, image[-1], packing) for w in windows]
    known |= {t.name: t for nodes in packed for x in nodes for t in l1.results(x)}

    def time(node: l1.Contract) -> float:
        found = in_rows(node, known, target)
        return float("inf") if found is None else found.microseconds

    before = sum(time(w.node) for w in windows)
    after = sum(time(x) for nodes in packed for x in nodes if isinstance(x, l1.Contract) and l1.is_sum_of_products(x))
    after += prod(known[_made(image[-1])].shape) / cost.PACK_PER_US * cost.moves(target.device)
    pays = after < MARGIN * before
    why = f"{packing.high}x1 taps of {packing.deep} channels: about {after:.0f} us so, {before:.0f} us as they are"
    decision = Decision(NAME, name, "packed" if pays else "not packed", why)
    if not pays:
        return {}, decision
    packed[0] = [*image, *packed[0]]
    return {w.node.out.name: nodes for w, nodes in zip(windows, packed, strict=True)}, decision


# --------------------------------------------------------------------------------------------------- nodes


def _made(node: l1.Node) -> str:
    (tensor,) = l1.results(node)
    return tensor.name


def _along(**terms: int) -> Affine:
    return Affine(tuple(terms.items()))


def _stored(gathered: l1.Contract, shape: tuple[int, ...]) -> list[l1.Node]:
    """A gathered tensor as it is stored, with axes joined."""
    bf16 = replace(gathered.out, name=f"{gathered.out.name}.{BF16}", dtype=BF16)
    every = tuple(range(len(bf16.shape)))
    rounded = l1.Map(bf16, (gathered.out.name,), (every,), Call(ROUNDED, (Ref("x0"),)), span=gathered.span)
    joined = replace(bf16, name=f"{bf16.name}.joined", shape=shape)
    return [gathered, rounded, l1.Reindex(joined, bf16.name, span=gathered.span)]


def _image(image: l1.Tensor, w: _Window, p: _Packing) -> list[l1.Node]:
    """The packed image, [n][rows][columns][row, tap, channel]: what lies outside is 0, and what is behind the last
    channel or tap, too."""
    high, wide = w.shape.many[0] + p.high - 1, w.shape.many[1]
    out = l1.Tensor(f"{image.name}.packed", (image.shape[0], high, wide, p.rows, p.taps, p.channels), batched=True)
    dims = tuple(zip(("n", "i", "j", "p", "s", "c"), out.shape, strict=True))
    (down, across), (first, left) = w.shape.steps, w.shape.first
    axes = (
        _along(n=1),
        _along(c=1),
        replace(_along(i=down, p=1), const=first),
        replace(_along(j=across, s=1), const=left),
    )
    body: Expr = Ref("x0")
    if p.taps > w.shape.taps[1]:
        body = Cond(Ref("s") < Num(w.shape.taps[1]), body, Num(0.0))
    plain = tuple(_along(**{d: 1}) for d, _ in dims)
    gathered = l1.Contract(out, dims, plain, (image.name,), (axes,), body, span=w.node.span)
    return _stored(gathered, (image.shape[0], high, wide, p.deep))


def _packed(w: _Window, tensors: Mapping[str, l1.Tensor], image: l1.Node, p: _Packing) -> list[l1.Node]:
    """What takes the place of a contraction."""
    old, (r, s) = dict(w.node.dims), w.taps
    sizes = old | {r: p.high, s: 1, w.c: p.deep}
    (rows, cols), one = w.at, {d: _along(**{d: 1}) for d in old}
    walked = (one[w.n], _along(**{rows: 1, r: 1}), _along(**{cols: 1, s: 1}), one[w.c])
    pixels = (one[w.n], one[rows], one[cols], one[w.o])
    name, span = _made(image), w.node.span
    if w.forward:
        weights = _weights(tensors[w.other], w, p)
        order = (w.n, rows, cols, w.o, r, s, w.c)
        maps = (walked, (one[w.o], one[r], one[s], one[w.c]))
        dims = tuple((d, sizes[d]) for d in order)
        return [*weights, replace(w.node, dims=dims, ins=(name, _made(weights[-1])), in_maps=maps)]
    order = (w.o, r, s, w.c, w.n, rows, cols)
    out = l1.Tensor(f"{w.node.out.name}.packed", (old[w.o], p.deep, p.high, 1))
    summed = replace(
        w.node,
        out=out,
        dims=tuple((d, sizes[d]) for d in order),
        out_map=(one[w.o], one[w.c], one[r], one[s]),
        ins=(w.other, name),
        in_maps=(pixels, walked),
    )
    apart = replace(out, name=f"{out.name}.apart", shape=(old[w.o], p.rows, p.taps, p.channels, p.high))
    axes = (_along(o=1), _along(p=1), _along(s=1), _along(c=1), Affine((("r", 1), ("p", -1)), div=p.rows))
    final = w.node.out
    dims = (*zip(("o", "c", "r", "s"), final.shape, strict=True), ("p", p.rows))
    plain = tuple(_along(**{d: 1}) for d in ("o", "c", "r", "s"))
    return [
        summed,
        l1.Reindex(apart, out.name, span=span),
        l1.Contract(final, dims, plain, (apart.name,), (axes,), Ref("x0"), span=span),
    ]


def _weights(weights: l1.Tensor, w: _Window, p: _Packing) -> list[l1.Node]:
    """Packed weights, [output][tap][1][row, tap, channel], 0 behind the last tap or channel."""
    count = weights.shape[0]
    out = l1.Tensor(f"{w.node.out.name}.weights", (count, p.high, p.rows, p.taps, p.channels))
    dims = tuple(zip(("o", "r", "p", "s", "c"), out.shape, strict=True))
    axes = (_along(o=1), _along(c=1), _along(r=p.rows, p=1), _along(s=1))
    plain = tuple(_along(**{d: 1}) for d, _ in dims)
    gathered = l1.Contract(out, dims, plain, (weights.name,), (axes,), Ref("x0"), span=w.node.span)
    return _stored(gathered, (count, p.high, 1, p.deep))

"""fft_conv: a convolution, or the gradient of its input or weights, by Fourier transforms of tiles.

Image and filters are cut into tiles of POINTS x POINTS, transformed, multiplied frequency by frequency, which is a
complex matrix product over the channels, and transformed back (Mathieu, Henaff & LeCun 2013, "Fast Training of
Convolutional Networks through FFTs"; overlap-save: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft"):
y[a, o, i, j] = sum over b, r, s of image[a, b, i + r + from, j + s + from] filter[o, b, r, s]. Forwards and towards the
input a are samples and b channels, and pairs of samples are transformed as one complex tile. Towards the weights a are
channels, b samples and tiles, and the filters are tiles of the gradient of the output.

Assumes: Contracts in gather form, no lanes; float32.
Guarantees: an error no larger than that of a float32 sum in order. What is not finite spreads over the outputs of its
tile, and to the other tile of a pair. A Way is structure, all else is data (`s_...`).
Does not: match strides, dilation, groups, or sums of few terms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, refuse_if
from compiler.strategies.convolution import Convolution, WeightGradient, convolution, weight_gradient
from compiler.strategies.cost import cuda as cost
from compiler.strategies.strategy import Strategy, first_of, found_by
from compiler.strategies.window import WindowAxis

NAME: Final = "fft_conv"
POINTS: Final = (16, 32, 64)
"""Rows and columns of a tile."""
CHANNELS: Final = {16: 16, 32: 8, 64: 2}
"""Tiles that a block of 256 threads transforms at once, by their points."""
BLOCK: Final = 256
FEW_POINTS: Final = 32
MOST_FEW: Final = 4
"""Channels or outputs whose products need no matrix units."""
PAIRS: Final = 32
"""Pairs of images of a block of products."""
OUTS: Final = 64
"""Filters of it."""
DEEP: Final = 32
"""Channels that it has in shared memory at a time."""
PRODUCT_BLOCK: Final = 128
LEAST_TERMS: Final = {16: 288, 32: 480, 64: 480}
"""A float32 sum in order of fewer terms is more exact, by points of a tile."""
LEAST_FEW_TERMS: Final = 144
"""The same where products need no matrix units."""
MOST_BYTES: Final = 2 << 30
"""Of the spectra together."""
MOST_SPLITS: Final = 32
MOST_BLOCKS: Final = 1 << 24


@dataclass(frozen=True)
class Axis:
    """How an axis is cut: `tiles` of `step` outputs each; position 0 of the first one is at the image's index
    `start`."""

    tiles: int
    step: int
    start: int


@dataclass(frozen=True)
class Way:
    """Which kernels sum products. `weights`: b is cut into tiles, and not a. `few`: their number, where there are few
    channels, whose products are summed while they are transformed back, or (`sums`) few outputs, whose sums are kept
    while images are transformed; 0: neither. Sums of the gradient of the weights take the gradient of the output as the
    image, and the image as filters, so the outputs are in reverse."""

    points: int
    weights: bool
    few: int = 0
    sums: bool = False

    @property
    def literals(self) -> tuple[tuple[str, int], ...]:
        return ("points", self.points), ("weights", int(self.weights)), ("few", self.few), ("sums", int(self.sums))


def way_of(literals: Iterable[tuple[str, int]]) -> Way:
    x = dict(literals)
    return Way(x["points"], bool(x["weights"]), x["few"], bool(x["sums"]))


@dataclass(frozen=True)
class Spectra:
    """What is transformed: `pairs` complex tiles for each of `channels` terms of a sum, and `outs` filters. `splits`:
    parts of a sum."""

    pairs: int
    channels: int
    outs: int
    splits: int = 1

    def elements(self, way: Way) -> int:
        """Of the spectra of images, filters and outputs together."""
        images, outs = self.pairs * self.channels, self.pairs * self.outs * self.splits
        kept = (0 if way.sums else images) + (0 if way.few and not way.sums else outs)
        return 4 * frequencies(way.points) * (kept + self.outs * -(-self.channels // 2))

    def blocks(self, way: Way, device: Target) -> tuple[int, ...]:
        """Of each launch. Those of products walk over the tiles."""
        many = CHANNELS[way.points]
        images, filters = self.pairs * self.channels, self.outs * -(-self.channels // 2)
        transforms = (0 if way.sums else -(-images // many)) + -(-filters // many)
        inverse = -(-self.pairs * self.outs // many)
        if way.sums:
            return transforms, -(-self.pairs // 2) * self.splits, inverse
        if way.few:
            return transforms, -(-self.pairs // 2) * -(-self.outs // (many // 2))
        return transforms, min(self.tiles(way) * self.splits, cost.FFT_BLOCKS * device.processors), inverse

    def tiles(self, way: Way) -> int:
        """Of the products."""
        return frequencies(way.points) * -(-self.pairs // PAIRS) * -(-self.outs // OUTS)


def spectra(a: int, b: int, outs: int, tiles: int, weights: bool, splits: int) -> Spectra:
    """Of pairs of a, and of b; tiles are counted with one of them."""
    return Spectra(-(-a // 2) * (1 if weights else tiles), b * (tiles if weights else 1), outs, splits)


def frequencies(points: int) -> int:
    """Of each pair of opposite frequencies of a tile one."""
    return points * points // 2 + 2


def axis(points: int, taps: int, out: int, extent: int, start: int) -> Axis | None:
    """How `out` outputs of `taps` taps are cut; None where a tile has none. One tile is enough, too, where what wraps
    around at its end lies outside the image."""
    step = points - taps + 1
    if step < 1:
        return None
    if out <= step or (out <= points and start + points >= extent and start + out + taps - 2 < points):
        return Axis(1, out, start)
    return Axis(-(-out // step), step, start)


def shared_bytes(way: Way) -> tuple[int, ...]:
    """Dynamic shared memory of a block of each launch: tiles whose lines have one element more, for the banks; or, of
    products, filters in four parts, and two stages of both factors."""
    many = CHANNELS[way.points]
    tiles = many * 8 * (way.points * (way.points + 1) + 16 // many)
    products = 1024 + 2 * OUTS * DEEP * 4 + 2 * (PAIRS * DEEP * 16 + OUTS * DEEP * 8)
    if way.few:
        return (tiles,) * (3 if way.sums else 2)
    return tiles, products, tiles


def choices(p: Problem) -> list[Choice]:
    """By every size of tiles, and with sums of few where they are; the fastest by estimate first."""
    found = _convolution(p)
    weights = isinstance(found, WeightGradient)
    many, outs = (found.outs, found.ins) if weights else (found.ins, found.outs)
    terms = prod(e for d, e in p.extents.items() if d not in p.out)
    ways = [Way(points, weights) for points in POINTS if terms >= LEAST_TERMS[points]]
    if terms >= LEAST_FEW_TERMS:
        ways += [Way(FEW_POINTS, weights, many)] if not weights and many <= MOST_FEW else []
        ways += [Way(FEW_POINTS, weights, outs, True)] if outs <= MOST_FEW else []
    refuse_if(not ways, "a sum in order of so few terms is more exact")
    made = [c for way in ways if (c := _choice(p, found, way)) is not None]
    refuse_if(not made, "its window is larger than a tile, or its spectra would take too much memory")
    return sorted(made, key=lambda c: c.microseconds)


def _convolution(p: Problem) -> Convolution | WeightGradient:
    refuse_if(p.lanes or p.real_bytes != 4, "its tensors are not row-major float32")
    found = convolution(p) if p.node.out.batched else weight_gradient(p)
    refuse_if(found.groups > 1 or len(p.out) != 4, "its channels are in groups")
    for x in (found.rows, found.cols):
        if x.step != 1 or x.div != 1 or abs(x.tap) != 1 or (isinstance(found, WeightGradient) and x.tap < 0):
            raise NotApplicable("the window moves by steps of more than one, or has gaps")
        refuse_if(min(x.out, x.taps) < 2, "its window or its output is one element wide")
    refuse_if(max(prod(t.shape) for t in (*p.operands, p.node.out)) >= LIMIT, "it is larger than 32-bit indices reach")
    return found


def _choice(p: Problem, found: Convolution | WeightGradient, way: Way) -> Choice | None:
    """None where a window does not fit into a tile, or there is too much of something."""
    y, x = found.rows, found.cols
    rows, cols = (axis(way.points, w.taps, w.out, w.extent, w.origin + min(0, w.tap) * (w.taps - 1)) for w in (y, x))
    if rows is None or cols is None:
        return None
    tiles, pixels = rows.tiles * cols.tiles, y.extent * x.extent
    image = {"by_n": found.ins * pixels, "by_c": pixels, "rows": y.extent, "cols": x.extent}
    if isinstance(found, WeightGradient):
        a, b, outs = (found.outs, found.samples, found.ins) if way.sums else (found.ins, found.samples, found.outs)
        kept = y.taps, x.taps
        own = y.out * x.out
        other = {"by_o": own, "by_c": found.outs * own, "by_r": x.out, "by_s": 1, "first": 0}
        other |= {"rows": y.out, "cols": x.out}
    else:
        a, b, outs, kept = found.samples, found.ins, found.outs, (y.out, x.out)
        (by_r, last_r), (by_s, last_s) = _turned(found.w_r, y), _turned(found.w_c, x)
        other = {"by_o": found.w_out, "by_c": found.w_in, "by_r": by_r, "by_s": by_s, "first": last_r + last_s}
        other |= {"rows": y.taps, "cols": x.taps}
    parts = spectra(a, b, outs, tiles, way.weights, 1)
    depth, splits = _split(parts, way, cost.FFT_BLOCKS * p.device.processors)
    parts = replace(parts, splits=splits)
    elements = parts.elements(way)
    most = MOST_BYTES if p.device.workspace is None else min(MOST_BYTES, p.device.workspace)
    if 4 * elements > most or max(parts.blocks(way, p.device)) > MOST_BLOCKS:
        return None
    columns = {"a": a, "b": b, "outs": outs, "tiles": tiles, "across": cols.tiles, "depth": depth, "splits": splits}
    columns |= {f"image_{n}": v for n, v in image.items()} | {f"other_{n}": v for n, v in other.items()}
    columns |= {"from_r": rows.start, "from_c": cols.start, "step_r": rows.step, "step_c": cols.step}
    columns |= {"out_rows": kept[0], "out_cols": kept[1]}
    literals = (("image", found.vector), *way.literals)
    named = tuple((f"s_{n}", v) for n, v in columns.items())
    return Choice(NAME, literals, named, 4 * elements, _microseconds(p, way, parts), workspace=elements)


def _turned(stride: int, axis: WindowAxis) -> tuple[int, int]:
    """Stride and offset of weights along an axis, where the taps of a window that goes backwards are counted from the
    last."""
    return (-stride, stride * (axis.taps - 1)) if axis.tap < 0 else (stride, 0)


def _split(parts: Spectra, way: Way, room: int) -> tuple[int, int]:
    """Channels of a part of a sum, and the number of parts: as many as fill the device, of which each is worth its
    start."""
    if way.few and not way.sums:
        return parts.channels, 1
    unit, blocks = (4, -(-parts.pairs // 2)) if way.sums else (DEEP, parts.tiles(way))
    steps = -(-parts.channels // unit)

    def time(splits: int) -> float:
        """In steps, of which the start of a sum and adding a part take some."""
        waves = -(-blocks * splits // room)
        return waves * (-(-steps // splits) + 2) + splits

    depth = unit * -(-steps // min(range(1, min(steps, MOST_SPLITS) + 1), key=time))
    return depth, -(-parts.channels // depth)


def _microseconds(p: Problem, way: Way, parts: Spectra) -> float:
    elements = sum(prod(t.shape) for t in (*p.operands, p.node.out))
    own = 4 * parts.elements(way) / cost.FFT_RATE[way.points] * cost.moves(p.device)
    launches = cost.FFT_START_US * (len(parts.blocks(way, p.device)) + 1)
    if way.few:
        few = parts.pairs * (parts.channels if way.sums else parts.outs)
        idle = max(1.0, p.device.processors / parts.blocks(way, p.device)[1])
        return cost.FFT_TILE_US * few * idle * cost.works(p.device) + own + launches
    moved = own + 4 * elements / cost.FFT_RATE[way.points] * cost.moves(p.device)
    size = -(-parts.pairs // PAIRS) * PAIRS * -(-parts.outs // OUTS) * OUTS * -(-parts.channels // DEEP) * DEEP
    working = 16 * frequencies(way.points) * size / cost.FFT_OPERATIONS * cost.works(p.device)
    return moved + max(working, 4 * parts.elements(way) / cost.FFT_BANDWIDTH * cost.moves(p.device)) + launches


STRATEGY: Final = Strategy(NAME, first_of(choices), found_by(choices), "float32")

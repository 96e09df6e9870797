"""stored_products: products of matrices whose factors matrix units take as they are in memory, as fast as these are.

On NVIDIA's sm_90 a thread fetches tiles of both operands with the tensor copy engine into a ring in shared memory, from
which two warpgroups multiply (wgmma); elsewhere warps multiply (mma.sync). Sums are those of the unit, which truncates:
after 4,096 terms the error is about 4e-6. Two kinds, each in any of the four transposes: of bf16, exactly in float32;
of float32, which the engine rounds to tf32 on the way. Units take tf32 from shared memory only where terms are
neighbours in memory: an operand where they are not comes from registers, and where neither has them so, four warps turn
the other one in shared memory.

Convolutions of images whose channels come last, and their gradients, are such products of which the engine gathers the
row operand (`stored_conv`): it walks the image as a window does, row after row over all samples, and what lies outside
is 0, channels behind the last one too. So 128 pixels by 64 channels of one tap of the window are a stage, whose terms
are (row and column of the window, channel); in the gradient of the weights these are the rows, and pixels the terms.
The other operand is a matrix. In the gradient of a strided convolution's image, whose rows and columns are divided,
pixels with the same rests see the same taps, and are a product each.

Assumes: what implicit_gemm assumes; both operands bf16, or float32; every index a plain dim, or the image a window.
Guarantees: taken only for operands that the copy engine reads: batch dims, rows (or columns) and terms lie in memory as
at most MOST_BATCH batch dims and one stride each, one of them 1, the others multiples of 16 bytes. Convolutions on
sm_90 alone, where channels of the image come last and are whole lines of ALIGNED bytes, those of weights come last too,
and the window begins and ends near the image's border. Tile shape and split follow from the extents alone.
Does not: match groups (tensor_cores does), strides of more than 2, or operands of which only one is bf16 (implicit_gemm
does). Float32 is taken only where `numerics: {products: ...}` permits tf32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, prod
from typing import Final

from compiler.ir.level2.target import Target
from compiler.ir.space import Affine, plain_dim
from compiler.strategies.choice import Choice, NotApplicable, Problem, Tiles, either, refuse_if, rounded
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda import direct_conv, direct_conv_weights, implicit_gemm
from compiler.strategies.cuda.direct_conv import Window
from compiler.strategies.cuda.implicit_gemm import sides
from compiler.strategies.cuda.tensor_conv import DIVISOR
from compiler.strategies.strategy import Strategy, found_by
from compiler.strategies.tilings import MOST_VARIANTS, Tiling, choices, parts, tiled

NAME: Final = "stored_products"
TF32: Final = "stored_products_tf32"
CONV: Final = "stored_conv"
"""The row operand is the image of a convolution, and is gathered."""
BYTES: Final = {NAME: 2, TF32: 4, CONV: 2}
"""Of a factor, by kind."""
ROWS: Final = 128
"""Of a tile."""
COLUMNS: Final = (64, 128, 256)
"""Of a tile, by shape."""
STAGES: Final = (4, 3, 4)
"""Of the ring, by shape."""
STAGES_HELD: Final = (6, 6, 4)
"""As STAGES, of tiles of which an operand comes from registers."""
RESIDENT: Final = (2, 2, 1)
"""Blocks that a processor holds, by shape; one where an operand comes from registers."""
LINE: Final = 128
"""Bytes of the terms of a stage: a line of the copy engine."""
MOST_BATCH: Final = 3
"""The copy engine knows arrays of five axes."""
ALIGNED: Final = 16
"""Bytes."""
CHANNELS: Final = LINE // 2
"""That are gathered of a pixel at once: a line of bf16, of which some may be empty."""
LEAST: Final = 16
"""Rows, columns and terms of a product that fills enough of a tile."""
_REAL: Final = 4
"""Bytes of a sum."""
_NEIGHBOURS: Final = 8
"""Columns that a thread stores together, at most."""
SPLITS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
WAITING: Final = 16
"""Blocks of a tile wait for each other: no more than any device has processors or, on sm_90, places for blocks."""
AHEAD: Final = 2048
"""Bytes before the ring: its barriers, and up to the next multiple of 1024."""


@dataclass(frozen=True)
class Matrix:
    """How the copy engine sees an operand, in elements: `batch`: (extent, stride) of each batch dim; of the side and of
    the terms together. `across`: it is contiguous along the side, not along the terms."""

    batch: tuple[tuple[int, int], ...]
    side: tuple[int, int]
    deep: tuple[int, int]

    @property
    def across(self) -> bool:
        return self.side[1] == 1 and self.deep[1] != 1


def number_of(shape: int, rows: bool, columns: bool) -> int:
    """The tile (`s_tile`): its shape, and which operands are contiguous across (Matrix)."""
    return 4 * shape + 2 * rows + columns


def shape_of(number: int) -> tuple[int, bool, bool]:
    """The inverse of number_of."""
    return number // 4, bool(number & 2), bool(number & 1)


NUMBERS: Final = 4 * len(COLUMNS)


def is_held(kind: str, number: int) -> bool:
    """Whether an operand of the tile comes from registers."""
    return kind == TF32 and number % 4 != 0


def size_of(kind: str, number: int) -> tuple[int, int]:
    """Rows and columns of the tile: where units take tf32 of columns from registers, columns of the tile are rows of an
    instruction."""
    size = ROWS, COLUMNS[shape_of(number)[0]]
    return size[::-1] if kind == TF32 and number % 4 == number_of(0, False, True) else size


def stages_of(kind: str, number: int) -> int:
    """Of the ring."""
    return (STAGES_HELD if is_held(kind, number) else STAGES)[shape_of(number)[0]]


def resident_of(kind: str, number: int) -> int:
    """Blocks that a processor holds."""
    return 1 if is_held(kind, number) else RESIDENT[shape_of(number)[0]]


def shared_bytes(kind: str, numbers: Iterable[int], elsewhere: bool = False) -> int:
    """Dynamic shared memory of a block for the larger of its ring and its sums, for tiles of these numbers;
    `elsewhere`: on other architectures than sm_90, which have no ring."""
    found = 0
    for number in set(numbers):
        shape = shape_of(number)[0]
        stage = (ROWS + COLUMNS[shape]) * LINE
        ring = stage * 5 // 4 if elsewhere else stages_of(kind, number) * stage
        found = max(found, ring, 4 * ROWS * COLUMNS[shape])
    return found + AHEAD


def joined(dims: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """(extent, stride) of dims that lie in memory as one, the last varying fastest; None where they do not."""
    found: tuple[int, int] | None = None
    for extent, stride in reversed([d for d in dims if d[0] != 1]):
        if found is None:
            found = extent, stride
        elif stride == found[0] * found[1]:
            found = extent * found[0], found[1]
        else:
            return None
    return found if found is not None else (1, 1)


def matrix_of(
    batch: Sequence[tuple[int, int]], side: Sequence[tuple[int, int]], deep: Sequence[tuple[int, int]], size: int
) -> Matrix | None:
    """The operand with these (extent, stride) and elements of `size` bytes, or None where the copy engine cannot read
    it."""
    one, other = joined(side), joined(deep)
    if one is None or other is None or len(batch) > MOST_BATCH:
        return None
    if one[1] != 1 and other[1] != 1:
        return None
    far = [stride for extent, stride in (*batch, one, other) if stride != 1 and extent != 1]
    return Matrix(tuple(batch), one, other) if all(size * x % ALIGNED == 0 and x < 2**38 for x in far) else None


def _matrices(p: Problem, size: int) -> tuple[Matrix, Matrix] | None:
    """The row operand and the column operand."""
    used = [frozenset(d for a in p.axes(x) for d, _ in a.terms) for x in (0, 1)]
    found = sides(p.out, tuple(d for d in p.extents if d not in p.out), (used[0], used[1]))
    made = []
    for x, own in ((found.rows, found.m), (1 - found.rows, found.n)):
        by = dict(zip(p.plain(x), p.operands[x].strides, strict=True))
        parts = [[(p.extents[d], by.get(d, 0)) for d in part] for part in (found.batch, own, found.k)]
        made.append(matrix_of(parts[0], parts[1], parts[2], size))
    first, second = made
    return None if first is None or second is None else (first, second)


def tiles(kind: str, number: int, batch: int, m: int, n: int) -> int:
    tall, wide = size_of(kind, number)
    return batch * -(-m // tall) * -(-n // wide)


_PLAIN: Final = False, False


def tilings(
    batch: int, m: int, n: int, k: int, device: Target = H200, kind: str = NAME, across: tuple[bool, bool] = _PLAIN
) -> list[Tiling]:
    """All tilings, the fastest by estimate first. `across`: of the row operand and the column operand."""
    found, deep = list[Tiling](), deep_of(kind)
    for shape in range(len(COLUMNS)):
        number = number_of(shape, *across)
        step, start = (x[shape] for x in _times(kind, is_held(kind, number) and all(across)))
        many = tiles(kind, number, batch, m, n)
        most = WAITING * (resident_of(kind, number) if device.architecture == "sm_90" else 1)
        for splits, depth in parts(k, deep, SPLITS, 4 * deep):
            if splits > most:
                continue
            turns = -(-many * splits // device.processors)
            started = -(-turns // resident_of(kind, number))
            working = turns * depth // deep * step + started * start
            join = cost.STORED_JOIN_US[shape] if splits > 1 else 0.0
            found.append(Tiling((working + join) * cost.waits(device), number, splits, depth))
    return sorted(found)


def _times(kind: str, turned: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Microseconds of a stage, and of a block beside its stages, by shape of the tile."""
    if kind == CONV:
        return cost.STORED_CONV_STEP_US, cost.STORED_CONV_START_US
    return cost.STORED_TURNED_US if turned else cost.STORED_STEP_US, cost.STORED_START_US


def deep_of(kind: str) -> int:
    """Terms of a stage."""
    return LINE // BYTES[kind]


def _match(p: Problem, kind: str) -> Choice:
    found, gemm = variants(p, kind)[0], implicit_gemm.tiling(*product_of(p, kind).extents, p.device)
    refuse_if(found.microseconds > gemm.microseconds, "it is too small to gain")
    return found


def variants(p: Problem, kind: str, most: int = MOST_VARIANTS) -> list[Choice]:
    """The tilings, the fastest by estimate first, `most` of them."""
    x = product_of(p, kind)
    (rests, m, n, k), more = x.extents, {"joined": True, "wins": kind != CONV}
    found = tilings(rests, m, n, k // rests if kind == CONV else k, p.device, kind, x.across)
    if kind == CONV and rests > 1:  # each sees a part of the taps, and no sum is split
        found = [replace(t, depth=k) for t in found if t.splits == 1]

    def made(t: Tiling) -> Choice:
        many, elements = tiles(kind, t.tile, rests, m, n), prod(size_of(kind, t.tile))
        sums = _tiles_of(p, kind, t, x.extents)
        return tiled(p, kind, t, many, elements, x.literals, microseconds=t.microseconds, tiled=sums, **more)

    return choices(made, found, most)


@dataclass(frozen=True)
class Product:
    """Batch, rows, columns and terms; whether each operand is contiguous across; literals of its template."""

    extents: tuple[int, int, int, int]
    across: tuple[bool, bool]
    literals: tuple[tuple[str, int], ...] = ()


def product_of(p: Problem, kind: str) -> Product:
    if kind == CONV:
        return either(0, partial(_convolution, p))
    stored = kind == NAME
    refuse_if(p.stored != (stored, stored), "its operands are not both bf16" if stored else "an operand is bf16")
    refuse_if(p.real_bytes != 4, "its reals are not float32")
    found = implicit_gemm.extents(p)
    if any(plain_dim(a) is None and a != Affine() for x in (0, 1) for a in p.axes(x)):
        raise NotApplicable("an operand is read through a window")
    refuse_if(min(found[1:]) < LEAST, "it would leave most of a tile empty")
    made = _matrices(p, BYTES[kind])
    if made is None:
        raise NotApplicable("an operand has strides that the copy engine does not know")
    return Product(found, (made[0].across, made[1].across))


def _tiles_of(p: Problem, kind: str, best: Tiling, product: tuple[int, int, int, int]) -> Tiles | None:
    """The tiles over whose rows a kernel may sum: where the last axis of the output is that of the columns, of which a
    thread has whole groups, and all others are rows. Blocks that share a tile have some lines of it each, in eights."""
    batch, m, n, _ = product
    tall, _ = size_of(kind, best.tile)
    last, read = p.out[-1], [{d for a in p.axes(x) for d, _ in a.terms} for x in (0, 1)]
    columns = n == p.extents[last] and (last in read[0]) != (last in read[1])
    alone = batch == 1 if kind == NAME else p.node.out.batched
    if kind == TF32 or not columns or not alone or n % _NEIGHBOURS or batch * m * n != prod(p.node.out.shape):
        return None
    lines = rounded(ceil(tall / best.splits), 8)
    return Tiles(batch, -(-m // tall) * -(-tall // lines), lines, n)


def scratch_of(kind: str, best: Tiling, product: tuple[int, int, int, int]) -> int:
    """Bytes of the sums that blocks leave for others."""
    many = tiles(kind, best.tile, *product[:3])
    return prod((many, best.splits, *size_of(kind, best.tile), _REAL)) if best.splits > 1 else 0


# ------------------------------------------------------------------------------------------- convolutions

_LAST: Final = (3,)
"""The axis of channels."""
_TAPS: Final = range(1, 12)
"""Of a row of the window."""
_CORNERS: Final = range(-128, 128)


def corners(first: int, window: Window, extent: int) -> tuple[int, int]:
    """Where the first output's first tap is along an axis, and where the last output's is, from the last pixel on.
    `first`: where the tap that is counted as the first one is."""
    low = -(-(first + min(0, window.tap * (window.taps - 1))) // window.div)
    return low, low + window.step * (window.out // window.div - 1) - (extent - 1)


def _convolution(p: Problem, image: int) -> Product:
    """The convolution of the operand `image` as a product."""
    refuse_if(p.stored != (True, True) or p.real_bytes != 4, "its operands are not both bf16")
    refuse_if(p.device.architecture != "sm_90", "the device has no copy engine that gathers pixels")
    forward = p.node.out.batched
    if forward:
        x = direct_conv.convolution(p, image, _TAPS, DIVISOR, _LAST)
    else:
        x = direct_conv_weights.convolution(p, image, _TAPS, _LAST)
    refuse_uneven(x)
    refuse_if(x.c % (ALIGNED // 2), f"its channels are no multiple of {ALIGNED // 2}")
    _, rows, cols, channels = p.axes(image)
    refuse_corners((rows.const, cols.const), x, p.operands[image].shape[1:3])
    pixels, window = x.n * x.i * x.j, x.rows.taps * x.cols.taps * rounded(x.c, CHANNELS)
    (c,) = (d for d, _ in channels.terms)
    weights = {d for d in p.extents if (d in p.out) != forward}
    taps = [next(d for d, _ in a.terms if d in weights) for a in (rows, cols)]
    if [d for d in p.extents if d in {*taps, c}] != [*taps, c]:
        raise NotApplicable("its channels are not counted before the taps of its window")
    across = _is_across(p, 1 - image, c, taps if forward else [])
    if across is None:
        raise NotApplicable("its other operand is no matrix that the copy engine reads")
    rests = x.rows.div * x.cols.div
    m, k = (pixels // rests, window) if forward else (window, pixels)
    refuse_if(min(m, x.o, k) < LEAST, "it would leave most of a tile empty")
    literals = ("image", image), ("weights", int(not forward))  # which operand is walked; what the sums are
    return Product((rests, m, x.o, k), (not forward, across), literals)


def refuse_uneven(x: direct_conv.Convolution) -> None:
    """Raises NotApplicable where the pixels of some rests are more than those of others, or their taps not every
    `div`-th one."""
    if x.rows.div > 1 and (x.i % x.rows.div or x.j % x.cols.div or abs(x.rows.tap) != 1 or abs(x.cols.tap) != 1):
        raise NotApplicable("its pixels with the same rests see different numbers of others")


def refuse_corners(first: Sequence[int], x: direct_conv.Convolution, extents: Sequence[int]) -> None:
    """Raises NotApplicable where the copy engine cannot gather the pixels of an image with these rows and columns;
    `first`: where the first output's tap that is counted as the first one is."""
    edges = (corners(a, w, e) for a, w, e in zip(first, (x.rows, x.cols), extents, strict=True))
    if not all(corner in _CORNERS for edge in edges for corner in edge):
        raise NotApplicable("its window begins or ends where the copy engine cannot")


def _is_across(p: Problem, operand: int, c: str, window: Sequence[str]) -> bool | None:
    """Whether the other operand is contiguous along its own side, None where it is no matrix: weights of the dims
    `window` and `c`, or else pixels."""
    axes = p.plain(operand)
    by = dict(zip(axes, p.operands[operand].strides, strict=True))
    if any(stride % (ALIGNED // 2) for stride in by.values() if stride != 1):
        return None

    def lies(dims: Sequence[str | None]) -> tuple[int, int] | None:
        return joined([(p.extents[d], by[d]) for d in dims if d is not None])

    if not window:
        return True if by[axes[3]] == 1 and lies(axes[:3]) is not None else None
    if lies([*window, c]) == (p.extents[window[0]] * p.extents[window[1]] * p.extents[c], 1):
        return False
    (o,) = (d for d in axes if d not in {*window, c})
    return True if by[o] == 1 and lies(window) is not None else None


STRATEGIES: Final = tuple(
    Strategy(kind, partial(_match, kind=kind), found_by(partial(variants, kind=kind)), products, bf16=kind != TF32)
    for kind, products in ((NAME, "exact"), (TF32, "tf32"), (CONV, "exact"))
)

"""launch_geometry: partition of the rows of a launch over thread blocks.

Assumes: the host's tables (compiler/layout/write_tables.py) and the sizes known so far.
Guarantees: the result is data and follows from extents alone: calls of functions with a grid, a list of jobs and
counters. Which of a reduction's two functions a row takes depends on its own extents and the device, so merging rows
changes no bit. Grids stay below MOST_BLOCKS: larger work gets larger parts.
Does not: depend on devices beyond what fills them (compiler/strategies/cost/cuda.py), or launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.cuda.kernels.contract import GATHERED, LIBRARY, SPLIT_FACTORS, SPLITS_OF_PIXELS, SPLITS_OF_TERMS, sides_of
from backends.cuda.kernels.direct import (
    DEPTHWISE,
    FILTERS,
    FORWARD,
    GROUPED,
    Line2,
    Number,
    Roles,
    gathered_pixels,
    parts_of,
    roles,
)
from backends.cuda.kernels.kernel import BLOCK, COLUMNS
from backends.cuda.kernels.launch_work import (
    Call,
    Ints,
    TensorMap,
    Work,
    in_blocks,
    in_kernels,
    places_of,
    spread,
)
from backends.cuda.kernels.nests.nest import NEIGHBOURS, WARP
from backends.kernel_ir.descriptor import CompiledFunction, Division
from backends.protocol import BackendError
from compiler.connect import drawing_of
from compiler.connect.drawing import Numbered
from compiler.expr.ast import refs
from compiler.expr.interp import evaluate
from compiler.ir.level2.target import Target
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda import (
    depthwise_conv,
    direct_conv,
    direct_conv_weights,
    fft_conv,
    grouped_conv,
    matmul,
    stored_products,
    tensor_conv,
    tensor_conv_weights,
    tensor_products,
)
from compiler.strategies.cuda.direct_conv import Window
from compiler.strategies.cuda.fft_conv import way_of
from compiler.strategies.cuda.fused_attention import ROWS, shared_bytes
from compiler.strategies.cuda.implicit_gemm import TILES
from compiler.strategies.cuda.split import split_conv, split_products
from compiler.strategies.cuda.stored_products import Matrix, joined, matrix_of, shape_of, size_of

WORKSPACE: Final = "workspace"
"""The formal of the array that the kernels of a contraction pass to each other, or that a library may use."""
_FIRST_OF_TERMS: Final = next(iter(SPLITS_OF_TERMS))
"""That looks at rows alone."""
_SPLITTING: Final = frozenset({SPLIT_FACTORS, *SPLITS_OF_PIXELS, *SPLITS_OF_TERMS})
"""Kernels that make parts of operands for others."""
_AXES: Final = 5
"""Of a tensor map."""


def group_size(points: int, terms: int, along: bool = False, device: Target = H200) -> int:
    """Threads that share one point of a reduction: 1, a warp, a block or several blocks. `along`: its terms are
    neighbours in memory, so that a warp reads them at once."""
    if terms < WARP or points >= cost.at_once(device, cost.POINT_THREADS):
        return WARP if terms >= WARP and along else 1
    busy = cost.at_once(device, cost.SUM_THREADS)
    blocks = min(terms // cost.LONG_SUM, busy // (points * BLOCK), cost.MOST_SHARES)
    if terms >= 4 * cost.LONG_SUM and blocks > 1:
        return blocks * BLOCK
    few = points * (WARP if terms >= cost.LONG_SUM else BLOCK) < busy
    return BLOCK if few and terms >= BLOCK else WARP


def _check_windows(w: Work, nest: l2.Nest) -> None:
    """Indices of windowed axes are 32-bit in the text."""
    for access in w.template.strided.values():
        extents = {a.extent for a in access.guards}
        extents |= {d.extent for d in nest.dims for a in access.guards if d.name in dict(a.terms)}
        for extent in extents:
            if isinstance(extent, str) and int(w.column(extent).max(initial=0)) >= 1 << 30:
                what = f"`{w.template.name}` reads through windows along an axis of 2^30 elements or more"
                raise BackendError("E0903", what)


def _nest(function: str, w: Work, nest: l2.Nest) -> list[Call]:
    _check_windows(w, nest)
    points, terms, last = w.extent(nest.dims, False), w.extent(nest.dims, True), w.kernel.functions[-1]
    most = w.at_once(cost.POINT_BLOCKS)
    match last.division:
        case Division.POSITIONS:  # those that ask are those that are summed over
            return spread(function, w, terms, 1, most=most)
        case Division.FEW | Division.EIGHT as kind:
            large, many = points >= w.at_once(cost.MAP_THREADS), 4 if kind is Division.FEW else 8
            fewer = most if kind is Division.FEW else w.at_once(cost.LONG_BLOCKS)
            calls = spread(function, w, points, many * BLOCK, np.flatnonzero(large), fewer)
            return [*calls, *spread(function, w, points, BLOCK, np.flatnonzero(~large), most)]
        case Division.POINTS:
            return spread(function, w, points, BLOCK, most=most)
        case Division.COLUMNS:
            return _columns(function, w, points, terms, len(nest.sums))
        case Division.WIDE_COLUMNS:
            wide = np.where(w.extent((nest.par[-1],), False) % NEIGHBOURS == 0, NEIGHBOURS, 1)
            return _columns(function, w, points, terms, len(nest.sums), wide)
    return _shared(function, last.name, w, nest, last.division)


def _shared(function: str, shared: str, w: Work, nest: l2.Nest, division: Division) -> list[Call]:
    """Sums by threads alone, in `function`, and by several threads."""
    points, terms = w.extent(nest.dims, False), w.extent(nest.dims, True)
    along = division in (Division.NEIGHBOURS, Division.ROWS)
    sizes = [group_size(int(p), int(t), along, w.device) for p, t in zip(points, terms, strict=True)]
    groups = np.minimum(sizes, BLOCK) if division is Division.ROWS else np.array(sizes, np.int64)
    calls = spread(function, w, points, BLOCK, np.flatnonzero(groups == 1), w.at_once(cost.POINT_BLOCKS))
    for group in (WARP, BLOCK):
        calls += spread(shared, w, points, BLOCK // group, np.flatnonzero(groups == group), group=group)
    for group in np.unique(groups[groups > BLOCK]).tolist():
        rows, shares = np.flatnonzero(groups == group), group // BLOCK
        words = (points[rows] + 1) // 2 * 2 + 2 * len(nest.sums) * points[rows] * shares
        places, memory = places_of(rows, words)
        parts = points[rows] * shares
        calls += in_blocks(shared, w, rows, parts, 1, group=group, places=places, memory=memory)
    return calls


def _columns(function: str, w: Work, points: Ints, terms: Ints, sums: int, wide: Ints | None = None) -> list[Call]:
    """Sums over the rows of a matrix, so many of a point: blocks of COLUMNS points each, several of which share the
    terms. `wide`: points of a thread, where it has room for NEIGHBOURS."""
    calls = []
    groups, blocks, most = -(-points // COLUMNS), w.at_once(cost.COLUMN_BLOCKS), cost.MOST_SHARES
    if wide is not None:
        groups, blocks = -(-points // (wide * COLUMNS)), w.at_once(cost.WIDE_BLOCKS)
        most, sums = blocks, sums * NEIGHBOURS
    splits = np.minimum(terms // cost.COLUMN_TERMS, blocks // np.maximum(groups, 1)).clip(1, most)
    for shared in np.unique(splits).tolist():
        rows = np.flatnonzero((splits == shared) & (points > 0))
        words = (groups[rows] + 1) // 2 * 2 + 2 * sums * COLUMNS * groups[rows] * shared
        places, memory = places_of(rows, words if shared > 1 else 0 * words)
        calls += in_blocks(function, w, rows, groups[rows] * shared, 1, group=shared, places=places, memory=memory)
    return calls


def _product(w: Work, contract: l2.Contract) -> list[Call]:
    """A block for each tile and split, in the kernel that the template shares with others."""
    dims = {d.name: d for d in contract.nest.dims}
    found = sides_of(w.template, contract.nest)
    batch, m, n = (w.extent(tuple(dims[d] for d in part), False) for part in (found.batch, found.m, found.n))
    if contract.strategy in GATHERED:  # pixels with the same rests are a product
        r = roles(w.template, contract)
        batch, m = batch * r.row.axis.div**2, m // r.row.axis.div**2
        if r.c in found.m:  # its channels come in whole groups
            channels = w.extent((dims[r.c],), False)
            m = m // channels * -(-channels // stored_products.CHANNELS) * stored_products.CHANNELS
    splits = w.column("s_splits")
    shapes = _shapes(contract.strategy)
    tall, wide = (np.array([x[side] for x in shapes], np.int64)[w.column("s_tile")] for side in (0, 1))
    many = batch * -(-m // tall) * -(-n // wide)
    sums = np.where(splits > 1, many * splits, 0)
    words = np.where(sums > 0, (many + 3) // 4 * 4 + sums * (tall * wide * w.real_bytes // 4), 0)
    numbers, kind = w.column("s_tile").tolist(), contract.strategy

    def more(function: CompiledFunction, rows: list[int]) -> dict[str, Any]:
        if function.name in _SPLITTING:
            rows_alone = function.name == _FIRST_OF_TERMS
            found = w.column("s_row_blocks") + (0 if rows_alone else w.column("s_column_blocks"))
            return {"parts": found, "places": None, "memory": 0}
        if kind == split_products.NAME:
            return {"shared": split_products.shared_bytes()}
        here = [numbers[r] for r in rows]
        if kind not in {split_conv.NAME, *stored_products.BYTES}:
            return {"shared": tensor_products.shared_bytes(kind, here)}
        maps = _maps(w, contract, range(len(numbers)) if len(rows) > 1 else rows)
        if kind == split_conv.NAME:
            return {"maps": maps, "shared": max(map(split_conv.shared_bytes, here))}
        shared, enough = (stored_products.shared_bytes(kind, here, x) for x in (False, True))
        return {"maps": maps, "shared": shared, "enough": enough}

    return in_kernels(w, many * splits, words, more)


def _maps(w: Work, contract: l2.Contract, rows: Iterable[int]) -> tuple[TensorMap, ...]:
    """Of the operands of these rows of the launch, one after the other."""

    def number(x: int | str, row: int) -> int:
        return x if isinstance(x, int) else int(w.column(x)[row])

    made = (tensor_maps(w.template, contract, w.launch.lo + r, partial(number, row=r)) for r in rows)
    return tuple(m for one in made for m in one)


def tensor_maps(template: l2.Template, contract: l2.Contract, row: int, number: Number) -> tuple[TensorMap, ...]:
    """What the tensor copy engine is told of the row operand and of the column operand of one row (of split_conv: of
    the pixels). Axes are, from the
    fastest on, the contiguous one of side and terms, the other one, and the batch dims from the last to the first;
    those that there are not have extent 1. `number`: of a literal or a column."""
    if contract.strategy == split_conv.NAME:
        return (TensorMap(WORKSPACE, row, *gathered_pixels(template, contract, number, 2)),)
    dims = {d.name: d for d in contract.nest.dims}
    found = sides_of(template, contract.nest)
    _, *across = shape_of(number("s_tile"))
    tall, wide = size_of(contract.strategy, number("s_tile"))
    gathered = contract.strategy == stored_products.CONV
    made = []
    for x, own, turned, side in (
        (found.rows, found.m, across[0], tall),
        (1 - found.rows, found.n, across[1], wide),
    ):
        access = template.strided[f"x{x}"]

        def walked(names: Sequence[str], access: l2.Strided = access) -> list[tuple[int, int]]:
            return [(number(dims[d].extent), _stride(access, d, number)) for d in names]

        size = stored_products.BYTES[contract.strategy]
        if gathered and x == found.rows:
            made.append(TensorMap(f"x{x}", row, *gathered_pixels(template, contract, number, size)))
            continue
        batch, deep = walked(found.batch), found.k
        if gathered and across == [False, True]:  # the channels of one tap are a stage
            taps, deep = joined(walked(deep[:2])), deep[2:]
            assert taps is not None, template.name
            batch = [taps]
        matrix = matrix_of(batch, walked(own), walked(deep), size)
        assert matrix is not None and matrix.across == turned, template.name
        made.append(_map(f"x{x}", row, matrix, side, size))
    first, second = made
    return first, second


def _stride(access: l2.Strided, dim: str, number: Number) -> int:
    return sum(c * number(axis.stride) for axis, c in access.along(dim))


def _map(formal: str, row: int, matrix: Matrix, side: int, size: int) -> TensorMap:
    inner, outer = (matrix.side, matrix.deep) if matrix.across else (matrix.deep, matrix.side)
    axes = [inner, outer, *reversed(matrix.batch)]
    axes += [(1, 0)] * (_AXES - len(axes))
    strides = tuple(size * (stride if extent != 1 else inner[0] + -inner[0] % 8) for extent, stride in axes[1:])
    deep = stored_products.LINE // size
    box = (deep, deep if matrix.across else side, 1, 1, 1)
    return TensorMap(formal, row, tuple(extent for extent, _ in axes), strides, box, size)


def _shapes(strategy: str) -> list[tuple[int, int]]:
    """Rows and columns of the tiles of a strategy, by number."""
    if strategy == matmul.NAME:
        return [(x, x) for x in matmul.TILES]
    if strategy in stored_products.BYTES:
        return [size_of(strategy, n) for n in range(stored_products.NUMBERS)]
    if strategy in tensor_products.KINDS:
        return [(tensor_products.ROWS, n) for n in tensor_products.COLUMNS]
    if strategy == split_products.NAME:
        return [(split_products.SIZE,) * 2] * split_products.NUMBERS
    if strategy == split_conv.NAME:
        return [(stored_products.ROWS, n) for n in split_conv.COLUMNS]
    return [(x.m, x.n) for x in TILES]


def _direct(w: Work, contract: l2.Contract) -> list[Call]:
    """A block for each part of the pixels and outputs; the rows of one number of outputs per thread are one call."""
    r = roles(w.template, contract)
    dims = {d.name: d for d in contract.nest.dims}
    extents = [w.extent((dims[d],), dims[d].kind is l2.DimKind.RED) for d in (r.n, r.o, r.i, r.j)]
    units = parts_of(contract.strategy)
    tiles = direct_conv.tiles if units is None else tensor_conv.tiles
    values = [
        {f.name: int(w.column(f.name)[row]) for f in w.template.formals if f.name.startswith("s_")}
        for row in range(len(extents[0]))
    ]
    many = np.array([tiles(x, *(int(e[row]) for e in extents)) for row, x in enumerate(values)], np.int64)
    sizes = [0] * len(values)
    if units is not None:
        both = zip(values, _windows(w, r, dims), strict=True)
        sizes = [tensor_conv.shared_bytes(x, units[0], *windows) for x, windows in both]
    return in_kernels(w, many, 0 * many, lambda _, rows: {"shared": max(sizes[r] for r in rows)})


def _windows(w: Work, r: Roles, dims: Mapping[str, l2.Dim]) -> Iterable[tuple[Window, Window]]:
    """How the window walks rows and columns, for each row of the launch."""

    def along(x: Line2) -> list[Window]:
        out, taps = (w.extent((dims[d],), dims[d].kind is l2.DimKind.RED).tolist() for d in (x.out, x.window))
        return [Window(a, b, x.step, x.tap, x.axis.div) for a, b in zip(out, taps, strict=True)]

    return zip(along(r.row), along(r.col), strict=True)


def _direct_weights(w: Work, contract: l2.Contract) -> list[Call]:
    """A block for each tile and split of the samples."""
    r = roles(w.template, contract)
    taps = dict(contract.literals)["taps"]
    dims = {d.name: d for d in contract.nest.dims}
    o, c, window = (w.extent((dims[d],), False) for d in (r.o, r.c, r.r))
    blocks, channels, splits = w.column("s_blocks"), w.column("s_channels"), w.column("s_splits")
    rows = np.arange(len(o), dtype=np.int64)
    many, words = np.zeros_like(rows), np.zeros_like(rows)
    for n in rows.tolist():
        shape = int(blocks[n]), int(channels[n])
        many[n] = direct_conv_weights.tiles(*shape, taps, int(o[n]), int(c[n]))
        elements = direct_conv_weights.elements_of(*shape, int(window[n]), taps)
        words[n] = _joining(int(many[n]), int(splits[n]), elements, w.real_bytes)
    sizes = [0] * len(rows)
    if (units := parts_of(contract.strategy)) is not None:
        tiles = [tensor_conv_weights.tile(*x, taps) for x in zip(blocks.tolist(), channels.tolist(), strict=True)]
        each = zip(tiles, w.column("s_rows").tolist(), _windows(w, r, dims), strict=True)
        sizes = [tensor_conv_weights.shared_bytes(tile, high, units[0], *windows) for tile, high, windows in each]
    return in_kernels(w, many * splits, words, lambda _, rows: {"shared": max(sizes[r] for r in rows)})


def _joining(tiles: int, splits: int, elements: int, bytes_: int) -> int:
    """Words in which blocks that share tiles of so many sums leave them, behind their counters."""
    counters, sums = direct_conv_weights.words_of(splits, elements)
    words = tiles * sums * bytes_ // 4
    return (tiles * counters + 1) // 2 * 2 + words + words % 2


def _grouped(w: Work, contract: l2.Contract) -> list[Call]:
    """A block for each part of the pixels of an output channel, or for each share of them and pair of channels."""
    r, dims = roles(w.template, contract), {d.name: d for d in contract.nest.dims}
    n, g, o, c, i, j = (w.extent((dims[d],), dims[d].kind is l2.DimKind.RED) for d in (r.n, r.g, r.o, r.c, r.i, r.j))
    if contract.strategy == grouped_conv.NAME:
        each = map(grouped_conv.blocks, n.tolist(), i.tolist(), j.tolist())
        return in_kernels(w, g * o * np.array([*each], np.int64), 0 * g, lambda _, rows: {})
    pairs, splits, taps = g * o * c, w.column("s_splits"), grouped_conv.taps(contract.literals)
    both = zip(pairs.tolist(), splits.tolist(), strict=True)
    words = np.array([_joining(*x, taps, w.real_bytes) for x in both], np.int64)
    return in_kernels(w, pairs * splits, words, lambda _, rows: {})


def _depthwise(w: Work, contract: l2.Contract) -> list[Call]:
    """A block for each tile of pixels and channels, or for each share of the pixels, channels and rows of taps."""
    r, dims = roles(w.template, contract), {d.name: d for d in contract.nest.dims}
    n, g, i, j = (w.extent((dims[d],), dims[d].kind is l2.DimKind.RED) for d in (r.n, r.g, r.i, r.j))
    wide, literals = w.column("s_wide"), dict(contract.literals)
    chunks = -(-g // wide)
    if contract.strategy == depthwise_conv.NAME:
        shared = depthwise_conv.shared_bytes(contract.literals)
        tiles = -(-n * i * j // depthwise_conv.PIXELS)
        return in_kernels(w, tiles * chunks, 0 * g, lambda _, rows: {"shared": shared})
    at_once, splits = depthwise_conv.rows_at_once(literals["down"], literals["along"]), w.column("s_splits")
    filters = chunks * (literals["down"] // at_once)
    each = zip(filters.tolist(), splits.tolist(), wide.tolist(), strict=True)
    words = np.array([_joining(a, b, at_once * literals["along"] * c, w.real_bytes) for a, b, c in each], np.int64)
    return in_kernels(w, filters * splits, words, lambda _, rows: {})


def _transformed(w: Work, contract: l2.Contract) -> list[Call]:
    """For each row a launch of its own for each kernel."""
    way, names = way_of(contract.literals), ("s_a", "s_b", "s_outs", "s_tiles", "s_splits")
    calls = []
    for row in range(w.launch.hi - w.launch.lo):
        a, b, outs, tiles, splits = (int(w.column(name)[row]) for name in names)
        spectra = fft_conv.spectra(a, b, outs, tiles, way.weights, splits)
        for x, grid, shared in zip(
            w.kernel.functions, spectra.blocks(way, w.device), fft_conv.shared_bytes(way), strict=True
        ):
            calls.append(Call(x.name, grid, x.block, w.launch.lo + row, 1, group=w.template.index, shared=shared))
    return calls


def _library(w: Work, contract: l2.Contract) -> list[Call]:
    """A call of the library for each row."""
    names = [f.name for f in w.template.columns if f.name.startswith("s_")]
    columns = {name: w.column(name).tolist() for name in names}
    rows = range(w.launch.hi - w.launch.lo)
    return [
        Call(contract.strategy, 0, 0, w.launch.lo + r, 1, library={name: values[r] for name, values in columns.items()})
        for r in rows
    ]


def _attention(function: str, w: Work, a: l2.Attention) -> list[Call]:
    """A launch for each row: a block owns a part of what a head of a sample has."""
    by_keys = {"key", "value"} & {*a.of}
    grids = w.column("batch") * w.column("heads") * -(-w.column("keys" if by_keys else "steps") // ROWS)
    shared, block = shared_bytes(a.wide, a.factors, "context" not in a.of), w.kernel.functions[0].block
    return [Call(function, int(n), block, w.launch.lo + r, 1, shared=shared) for r, n in enumerate(grids)]


def propagated(w: Work, p: l2.Propagate) -> npt.NDArray[np.float64]:
    """Approximate number of synapses of each row of a propagation."""
    match p.relation:
        case l2.Csr(_, col):
            names = w.rows.arrays[col][w.launch.lo : w.launch.hi]
            return np.array([w.synapses(n) for n in names], np.float64)
        case l2.Dense(n_pre, n_post):
            return w.column(n_pre).astype(np.float64) * w.column(n_post)
        case l2.OneToOne():
            return w.column(p.events.n if isinstance(p.events, l2.Every) else p.events.stride).astype(np.float64)
        case l2.Bitmask(words):
            names = w.rows.arrays[words][w.launch.lo : w.launch.hi]
            return np.array([32 * w.synapses(n) for n in names], np.float64)
        case l2.Toeplitz(kernel):
            sources = w.column("in_c") * w.column("in_h") * w.column("in_w")
            return sources.astype(np.float64) * w.column("out_c") * kernel[0] * kernel[1]
        case l2.Procedural():
            return w.column("n_pre").astype(np.float64) * w.column("n_post")


def _propagate(function: str, w: Work, p: l2.Propagate) -> list[Call]:
    """Half of the blocks evenly (a step may bring events to any row), half by the synapses that the events of a step
    reach: of n neurons about sqrt(n) spike, since small populations are often the faster ones. In total no more than
    run concurrently. Many small rows take a small block each."""
    rows = w.launch.hi - w.launch.lo
    weight = propagated(w, p)
    if isinstance(p.events, l2.Events):
        weight = weight / np.sqrt(np.maximum(w.column(p.events.stride), 1))
    even = max(1, w.blocks // (2 * rows))
    rest = max(0, w.blocks - even * rows)
    wanted = rest * weight / max(weight.sum(), 1.0)
    parts = even + np.floor(wanted).astype(np.int64)
    if rest and weight.any():
        left = max(0, w.blocks - int(parts.sum()))
        parts[np.argsort(np.floor(wanted) - wanted, kind="stable")[:left]] += 1
    block = BLOCK if rows <= w.blocks else 2 * WARP
    return in_blocks(function, w, np.arange(rows, dtype=np.int64), parts, 1, block)


def _connect(function: str, w: Work, c: l2.Connect) -> list[Call]:
    n_pre = w.column("n_pre")
    one = np.ones(len(n_pre), np.int64)
    if c.stage == "scan":
        return spread(function, w, one, 1)
    if c.rule == "transpose":
        return _transpose(function, w, c.stage)
    rule = drawing_of(c.rule)
    if not isinstance(rule, Numbered) or (c.stage == "count" and rule.by_source):
        return spread(function, w, n_pre, BLOCK)
    owners = {"i": n_pre, "j": w.column("n_post"), "": one}[rule.owner]
    columns = {name: w.column(name).tolist() for name in refs(rule.each) - {"skip"}}
    each = [evaluate(rule.each, {"skip": False, **{n: x[row] for n, x in columns.items()}}) for row in range(len(one))]
    synapses = owners * np.array(each, np.int64)
    if c.stage == "count" or not rule.pools:
        return spread(function, w, synapses, BLOCK)
    if rule.by_source:
        return [*spread(function, w, synapses, BLOCK), *spread(w.kernel.functions[1].name, w, n_pre, 1)]
    return _filled(function, w, synapses, n_pre)


def _transpose(function: str, w: Work, stage: str) -> list[Call]:
    synapses = np.array([w.synapses(n) for n in w.rows.arrays["col"][w.launch.lo : w.launch.hi]], np.int64)
    if stage == "count":
        return spread(function, w, synapses, BLOCK)
    n_post = w.column("n_post")
    if stage == "refill":
        return [*spread(function, w, synapses, BLOCK), *spread(w.kernel.functions[1].name, w, n_post, 1)]
    return _filled(function, w, synapses, n_post)


def _filled(function: str, w: Work, synapses: Ints, ends: Ints) -> list[Call]:
    """Rows of synapses that are filled in any order, with a counter for each end, and then sorted."""
    places = (2 * len(ends) + np.cumsum(ends) - ends).astype(np.uint64)
    fill = spread(function, w, synapses, BLOCK, memory=8 * len(ends) + 4 * int(ends.sum()), places=places)
    return [*fill, *spread(w.kernel.functions[1].name, w, ends, 1)]


_CONTRACTS: Final[Mapping[str, Callable[[Work, l2.Contract], list[Call]]]] = {
    **dict.fromkeys(FORWARD, _direct),
    **dict.fromkeys(FILTERS, _direct_weights),
    **dict.fromkeys(GROUPED, _grouped),
    **dict.fromkeys(DEPTHWISE, _depthwise),
    **dict.fromkeys(LIBRARY, _library),
    fft_conv.NAME: _transformed,
}
"""By strategy; those that are not here are products."""


def calls_of(w: Work) -> list[Call]:
    """The calls of one launch, in order."""
    name = w.kernel.function
    rows = w.launch.hi - w.launch.lo
    one = np.ones(rows, np.int64)
    match w.template.body:
        case l2.Nest() as nest:
            return _nest(name, w, nest)
        case l2.Contract() as c:
            return _CONTRACTS.get(c.strategy, _product)(w, c)
        case l2.Attention() as a:
            return _attention(name, w, a)
        case l2.Propagate() as p:
            return _propagate(name, w, p)
        case l2.Connect() as c:
            return _connect(name, w, c)
        case l2.RecordTrace():
            return spread(name, w, w.column("m"), BLOCK, memory=4 * rows)
        case l2.RecordEvents() | l2.EmitScheduled():
            return spread(name, w, one, 1)


def array_elements(sizes: Mapping[str, int], physical: Mapping[str, int]) -> Callable[[str], int]:
    """Stored elements of an array: found by connecting, or known from its shape."""
    return lambda name: sizes[name] if name in sizes else max(physical[name], 0)

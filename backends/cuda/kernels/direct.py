"""Convolutions in registers: operands and epilogues of direct_conv, tensor_conv, grouped_conv, depthwise_conv, and of
their gradients of weights.

Assumes: a Contract that a strategy of FORWARD or FILTERS took (compiler/strategies/cuda): two axes of the image are
guarded sums of a dim of the output and one of the window, everything else is plain.
Guarantees: the roles of dims follow from the accesses alone. The walk of a window along a row (its taps, dilation,
stride) is literal in the kernel that such convolutions share, all else is data: the taps of a reversed window are
counted from the last one. The epilogue is printed from the nest.
Does not: choose the layout of blocks: columns hold it (see the strategies), from which launch_geometry.py computes
numbers of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import PrintError
from backends.cuda.kernels.nests.nest import NestPrinter
from backends.cuda.kernels.stores import (
    Lines,
    Tile,
    apart,
    epilogue,
    fields,
    loaded,
    read_of,
    sum_and_fields,
    taken,
    together,
    unrolled,
)
from backends.kernel_ir.expr import Operand, braces, call, cast, code, form, name
from backends.kernel_ir.stmt import Closure, Do, For, Kind, Leave, Let, Set, Stmt, Struct, constants, when
from backends.kernel_ir.tree import Code
from compiler.ir.space import DType
from compiler.strategies.cuda import (
    depthwise_conv,
    direct_conv,
    direct_conv_weights,
    grouped_conv,
    stored_products,
    tensor_conv,
    tensor_conv_weights,
)
from compiler.strategies.cuda.direct_conv import Window
from compiler.strategies.cuda.split import split_conv

DEPTHWISE: Final = frozenset({depthwise_conv.NAME, depthwise_conv.WEIGHTS})
GROUPED: Final = frozenset({grouped_conv.NAME, grouped_conv.WEIGHTS, *DEPTHWISE})
FORWARD: Final = frozenset(
    {direct_conv.NAME, grouped_conv.NAME, depthwise_conv.NAME, *(s.name for s in tensor_conv.STRATEGIES)}
)
_OF_GROUPS: Final = frozenset({grouped_conv.WEIGHTS, depthwise_conv.WEIGHTS})
FILTERS: Final = frozenset({direct_conv_weights.NAME, *_OF_GROUPS, *(s.name for s in tensor_conv_weights.STRATEGIES)})
STRATEGIES: Final = FORWARD | FILTERS
Number = Callable[[int | str], int]
_SUMS: Final = "const real *"
_FAR: Final = Set(name("nl_at"), "nl_own.far", "+=")
"""To the sum of the next output."""
_SUFFIXES: Final = ("", "_narrow", "_six")
"""Of the kernels of direct_conv, by `s_tile`: a thread sums eight outputs, four, or six."""


@dataclass(frozen=True)
class Line2:
    """One windowed axis of the image: index = step * out + tap * window + const."""

    out: str
    window: str
    step: int
    tap: int
    axis: l2.Axis


@dataclass(frozen=True)
class Roles:
    """Dims by role, and the formals of the image and of the other operand; `g`: empty without groups."""

    image: str
    other: str
    n: str
    g: str
    o: str
    c: str
    i: str
    j: str
    r: str
    s: str
    row: Line2
    col: Line2


def roles(template: l2.Template, contract: l2.Contract) -> Roles:
    """The roles of the dims. Raises PrintError where the accesses are of another form."""
    image, other = (f"x{dict(contract.literals)['image']}", f"x{1 - dict(contract.literals)['image']}")
    kinds = {d.name: d.kind for d in contract.nest.dims}
    forward = contract.strategy in FORWARD or dict(contract.literals).get("weights") == 0
    windowed = [a for a in template.strided[image].axes if len(a.terms) == 2]
    if len(windowed) != 2:
        raise PrintError("the image has not two windowed axes", template.span)
    lines = []
    for axis in windowed:
        (d1, c1), (d2, c2) = axis.terms
        if (kinds[d1] is l2.DimKind.RED) == forward:  # pixels are summed over only in the gradient of the weights
            (d1, c1), (d2, c2) = (d2, c2), (d1, c1)
        lines.append(Line2(d1, d2, c1, c2, axis))
    row, col = lines
    plain = [d for a in template.strided[image].axes if len(a.terms) == 1 for d, _ in a.terms]
    shared = template.strided[other].dims
    g = next((d for d in plain if d in shared and kinds[d] is l2.DimKind.PAR), "")
    c = next(d for d in plain if d != g and (kinds[d] is l2.DimKind.RED) == forward)
    n = next(d for d in plain if d not in {g, c})
    o = next(d for d in shared if d not in {n, g, c, row.out, row.window, col.out, col.window})
    return Roles(image, other, n, g, o, c, row.out, col.out, row.window, col.window, row, col)


def walk(template: l2.Template, contract: l2.Contract) -> tuple[int, int, int]:
    """The walk of a window along a row: its taps, stride, and dilation."""
    cols = roles(template, contract).col
    return dict(contract.literals)["taps"], cols.step, abs(cols.tap)


def walk_of_groups(template: l2.Template, contract: l2.Contract) -> Mapping[str, tuple[int, ...]]:
    """The walk of a window of a convolution in groups down and along rows: its taps, strides, and dilations, and
    (forwards) what places are divided by."""
    r, literals = roles(template, contract), dict(contract.literals)
    taps, dilations = (literals["down"], literals["along"]), (abs(r.row.tap), abs(r.col.tap))
    div = {} if contract.strategy in _OF_GROUPS else {"div": (r.row.axis.div, r.col.axis.div)}
    return {"": taps, "step": (r.row.step, r.col.step), "tap": dilations, **div}


def stored(template: l2.Template, contract: l2.Contract) -> dict[str, bool]:
    """Of a strategy of groups: whether its image, and its other operand, are bf16 in memory; of those that take no
    others nothing."""
    if contract.strategy in DEPTHWISE:
        return {}
    r, types = roles(template, contract), {f.name: f.dtype for f in template.formals}
    other = "gradient" if contract.strategy in _OF_GROUPS else "weights"
    return {"image": types[r.image] is DType.BF16, other: types[r.other] is DType.BF16}


def chosen(contract: l2.Contract) -> tuple[int, ...]:
    """Rows and columns of the windows that have one element, where an operand is of such (l1.Tensor.windows)."""
    literals = dict(contract.literals)
    return (literals["down"], literals["along"]) if "chosen" in literals else ()


def parts_of(strategy: str) -> tuple[int, str] | None:
    """Of a strategy on matrix units: the parts of a factor, and the type of an operand's elements."""
    name, _, kind = strategy.rpartition("_")
    units = name in {tensor_conv.NAME, tensor_conv_weights.NAME}
    return (tensor_conv.KINDS[kind], "nl_bfloat" if kind == "stored" else "real") if units else None


def suffixes(strategy: str) -> Sequence[str]:
    """Of the kernels of a strategy of FORWARD, by `s_tile`."""
    return _SUFFIXES if parts_of(strategy) is None else [f"_{tall}_by_{wide}" for tall, wide in tensor_conv.TILES]


def family(strategy: str) -> str:
    """A strategy without its kind."""
    return strategy if parts_of(strategy) is None else strategy.rpartition("_")[0]


class _Printer:
    """The texts of one convolution."""

    def __init__(self, k: Kernel, contract: l2.Contract) -> None:
        self.k = k
        self.contract = contract
        self.roles = roles(k.template, contract)
        self.chosen = chosen(contract)
        self.nest = NestPrinter(k, contract.nest)
        self.dims = {d.name: d for d in contract.nest.dims}

    def extent(self, dim: str) -> Code:
        return cast("nl_i32", self.k.extent(self.dims[dim].extent))

    def _last(self, x: Line2) -> Code:
        """The number of the last tap."""
        return self.k.extent(self.dims[x.window].extent) - 1

    def stride(self, formal: str, dim: str) -> Code:
        return next(self.k.extent(a.stride) for a in self.k.template.strided[formal].axes if a.terms == ((dim, 1),))

    def seen(self, x: Line2) -> Code:
        """The extent of the image along an axis."""
        if x.axis.extent is not None:
            return cast("nl_i32", self.k.extent(x.axis.extent))
        last = x.step * (self.k.extent(self.dims[x.out].extent) - 1)  # no index leaves it
        if x.tap > 0:
            last += x.tap * self._last(x)
        return cast("nl_i32", last + self.k.extent(x.axis.const) + 1)

    def low(self, x: Line2) -> Code:
        """The position of the first output's first tap, or of its last one in a reversed window."""
        first = self.k.extent(x.axis.const)
        if x.tap < 0:
            first -= -x.tap * self._last(x)
        return cast("nl_i32", first)

    def image(self) -> Code:
        r = self.roles
        strides = self.stride(r.image, r.c), *(self.k.extent(x.axis.stride) for x in (r.row, r.col))
        by = [self.stride(r.image, r.n), *(cast("nl_i32", x) for x in strides)]
        sizes = [self.extent(r.n), self.extent(r.c), self.seen(r.row), self.seen(r.col)]
        return self._nl_image(r.image, [*by, *sizes, self.low(r.row), self.low(r.col), *self._places(r.image)])

    def out(self) -> Code:
        """The gradient of the output, as an image."""
        r = self.roles
        by = [self.stride(r.other, r.n), *(cast("nl_i32", self.stride(r.other, d)) for d in (r.o, r.i, r.j))]
        sizes = map(self.extent, (r.n, r.o, r.i, r.j))
        return self._nl_image(r.other, [*by, *sizes, "0", "0", *self._places(r.other)])

    def _places(self, formal: str) -> list[Code]:
        """The array that says which element of each window there is, where an operand has them."""
        own = self.chosen and formal == f"x{dict(self.contract.literals)['chosen']}"
        return [self.k.pointers["places"]] if own else []

    def _nl_image(self, formal: str, values: Sequence[Operand]) -> Code:
        pointer = self._pointer(formal, self.k.pointers[formal])
        return braces(pointer, *values, type="nl_image")

    def _pointer(self, formal: str, place: Code) -> Code:
        """An operand's memory; of bf16 elements, whatever the structure calls it."""
        return cast("const real *", place) if self.k.formal(formal).dtype is DType.BF16 else place

    def weights(self) -> Code:
        """The offset of the weights of the tap that is counted as the first."""
        r, first = self.roles, self.k.pointers[self.roles.other]
        for x in (r.row, r.col):
            first = first + self._last(x) * self.stride(r.other, x.window) if x.tap < 0 else first
        return self._pointer(r.other, first)

    def _weights_by(self) -> dict[str, Operand]:
        """The strides of the weights, whose taps go forwards."""
        r, found = self.roles, dict[str, Operand]()
        back = {line.window for line in (r.row, r.col) if line.tap < 0}
        for x, d in zip("ocrs", (r.o, r.c, r.r, r.s), strict=True):
            by = cast("nl_i32", self.stride(r.other, d))
            found[f"by_{x}"] = -by if d in back else by
        return found

    def indices(self, **values: str) -> Let:
        """Of dims of these roles."""
        return constants("nl_i64", **{self.nest.vars[getattr(self.roles, x)].text: v for x, v in values.items()})

    def over_outs(self, end: Sequence[Stmt], kind: Kind) -> For:
        """A loop over the outputs of a thread, whose sums are nl_at."""
        var = self.nest.vars[self.roles.o]
        return For(var, "nl_own.o", "nl_own.o_end", end, "nl_own.by_o", kind=kind, then=[_FAR])

    def filters(self) -> list[Stmt]:
        """A thread has elements of weights' gradients."""
        r, taps = self.roles, dict(self.contract.literals)["taps"]
        row = "nl_own.taps - 1 - nl_row" if r.row.tap < 0 else "nl_row"
        tap = f"{taps - 1} - nl_tap" if r.col.tap < 0 else "nl_tap"
        each = [
            constants("int", nl_tap=f"nl_e % {taps}", nl_line=f"nl_e / {taps}"),
            constants("int", nl_row="nl_line % nl_own.taps", nl_filter="nl_line / nl_own.taps"),
            constants("int", nl_channel="nl_filter % nl_own.stride", nl_out="nl_filter / nl_own.stride"),
            when("nl_out >= nl_own.outs || nl_channel >= nl_own.channels", Leave("continue")),
            self.indices(o="nl_own.o + nl_out", c="nl_own.c + nl_channel"),
            self.indices(r=row, s=tap),
            *epilogue(self.nest, "nl_own.at[nl_e]"),
        ]
        loop = For(name("nl_e"), 0, "nl_own.size", each, type="int", kind=Kind.TOGETHER)
        return [constants("nl_filters", nl_own="nl_s"), loop]

    def strips(self) -> list[Stmt]:
        """A thread has pixels of outputs, four of each at a time: what these read is loaded together, before the first
        one is computed and stored."""
        loads, j = loaded(self.nest), self.nest.vars[self.roles.j]
        place, end = "((nl_p + nl_own.turn) & 3) * nl_own.by_q", code("nl_own.j_end")
        read = [constants("int", nl_q=f"nl_own.q + {place}"), self.indices(j="nl_own.j + nl_q")]
        store = [self.indices(j=f"nl_own.j + nl_own.q + {place}")]
        return [
            sum_and_fields(loads),
            constants("nl_strips", nl_own="nl_s"),
            self.indices(n="nl_own.n", i="nl_own.i"),
            Let(_SUMS, name("nl_at"), call("nl_in_shared", "nl_own.at"), const=False),
            self.over_outs(together(self.nest, loads, "nl_p", 4, j, end, read, store, "nl_at[nl_q]"), Kind.ONCE),
        ]

    def pixels(self) -> list[Stmt]:
        """A thread has outputs of a pixel; what four of them read is loaded together, before the first one is computed
        and stored."""
        loads, at, out = loaded(self.nest), name("nl_at"), Let("nl_i64", self.nest.vars[self.roles.o])
        end, first = epilogue(self.nest, "*nl_at", loads), Let(_SUMS, at, "nl_own.at", const=False)
        start = [constants("nl_outputs", nl_own="nl_s"), self.indices(n="nl_own.n", i="nl_own.i", j="nl_own.j")]
        if not loads:
            return [*start, first, self.over_outs(end, Kind.FOUR)]
        given = [out, Let(_SUMS, at), Let("const nl_read &", name("nl_x"))]
        o, four, all_outs = name("nl_o"), "nl_o + 3 * nl_own.by_o < nl_own.o_end", "nl_own.o_end"
        load = Set(code("nl_x[nl_n]"), "nl_load(nl_o + nl_n * nl_own.by_o)")
        store = Do("nl_finish(nl_o + nl_n * nl_own.by_o, nl_at, nl_x[nl_n])")
        several = [Let("nl_read", code("nl_x[4]")), unrolled("nl_n", 4, [load]), unrolled("nl_n", 4, [store], [_FAR])]
        one = [Do("nl_finish(nl_o, nl_at, nl_load(nl_o))")]
        return [
            *start,
            Struct("struct nl_read", fields(loads)),
            Closure("nl_load", [out], [Leave("return", read_of(loads))]),
            Closure("nl_finish", given, [*taken(loads, "nl_x"), *end]),
            Let("nl_i64", o, "nl_own.o", const=False),
            first,
            For(o, None, None, several, "4 * nl_own.by_o", kind=Kind.ONCE, test=four),
            For(o, None, all_outs, one, "nl_own.by_o", kind=Kind.ONCE, then=[_FAR]),
        ]

    def grouped(self) -> tuple[dict[str, Operand], Sequence[Stmt]]:
        """The members of nl_groups, or of nl_group_weights, and what a thread does with its sums."""
        r, k = self.roles, self.k
        own: dict[str, Operand] = {"image": self.image(), "by_g": cast("nl_i32", self.stride(r.image, r.g))}
        other = cast("nl_i32", self.stride(r.other, r.g))
        if self.contract.strategy == grouped_conv.WEIGHTS:
            own |= {"out": self.out(), "out_by_g": other, "splits": cast("nl_i32", k.extent("s_splits"))}
            return own, self._filter()
        own |= {"weights": self.weights(), "w_by_g": other, **self._weights_by()}
        own |= {"outs": self.extent(r.o), "rows": self.extent(r.i), "cols": self.extent(r.j)}
        return own, self._column()

    def depthwise(self) -> tuple[dict[str, Operand], Sequence[Stmt]]:
        """The members of nl_depthwise, or of nl_depthwise_weights, and what a thread does with its sums."""
        r, column = self.roles, self.k.extent
        own: dict[str, Operand] = {"image": self.image(), "groups": self.extent(r.g)}
        own["wide"] = cast("nl_i32", column("s_wide"))
        if self.contract.strategy == depthwise_conv.WEIGHTS:
            return own | {"out": self.out(), "splits": cast("nl_i32", column("s_splits"))}, self._channel_filters()
        own |= {"weights": self.weights(), "w_by_g": cast("nl_i32", self.stride(r.other, r.g))}
        own |= {n: by for n, by in self._weights_by().items() if n in ("by_r", "by_s")}
        own |= {"rows": self.extent(r.i), "cols": self.extent(r.j)}
        for weight in {s.weight for s in self.contract.sums if s.weight}:
            own["row_weights"] = self.k.pointers[weight]
        slow = [d.name for d in self.contract.nest.par if d.name != r.g]
        pixels = apart(self.nest, "nl_slow", slow, self.contract.flat)
        fast, each = (apart(self.nest, index, [r.g]) for index in ("nl_fast", "nl_own"))
        return own, Lines(Tile(self.nest, [r.g], slow, (), fast, pixels, each), self.contract).all()

    def _channel_filters(self) -> list[Stmt]:
        """A block has taps of several channels."""
        literals = dict(self.contract.literals)
        row = f"nl_own.row + nl_tap / {literals['along']}"
        tap = f"nl_tap % {literals['along']}"
        each = [
            constants("int", nl_channel="nl_e % nl_own.wide", nl_tap="nl_e / nl_own.wide"),
            when("nl_channel >= nl_own.channels", Leave("continue")),
            self.indices(g="nl_own.g + nl_channel", o="0", c="0"),
            self._taps(row, tap),
            *epilogue(self.nest, "nl_own.at[nl_e]"),
        ]
        loop = For(name("nl_e"), 0, "nl_own.size", each, type="int", kind=Kind.TOGETHER)
        return [constants("nl_channel_filters", nl_own="nl_s"), loop]

    def _taps(self, row: str, tap: str) -> Let:
        """The indices of a tap, which are counted from the last one where a window is walked backwards."""
        r, literals = self.roles, dict(self.contract.literals)
        first = f"{literals['down'] - 1} - ({row})" if r.row.tap < 0 else row
        return self.indices(r=first, s=f"{literals['along'] - 1} - ({tap})" if r.col.tap < 0 else tap)

    def _filter(self) -> list[Stmt]:
        """A block has all taps of a pair of channels."""
        literals = dict(self.contract.literals)
        down, along = literals["down"], literals["along"]
        row, tap = f"nl_e / {along}", f"nl_e % {along}"
        each = [self._taps(row, tap), *epilogue(self.nest, "nl_own.at[nl_e]")]
        return [
            constants("nl_group_filter", nl_own="nl_s"),
            self.indices(g="nl_own.g", o="nl_own.o", c="nl_own.c"),
            For(name("nl_e"), 0, down * along, each, type="int", kind=Kind.TOGETHER),
        ]

    def _column(self) -> list[Stmt]:
        """A thread has rows of a column: what these read is loaded together, before the first one is computed and
        stored."""
        loads, i, many = loaded(self.nest), self.nest.vars[self.roles.i], grouped_conv.ROWS
        row, end = self.indices(i="nl_own.i + nl_q"), code("nl_own.i_end")
        own = [
            constants("nl_column", nl_own="nl_s"),
            self.indices(n="nl_own.n", g="nl_own.g", o="nl_own.o", j="nl_own.j"),
        ]
        if not loads:
            alone = [row, when(i >= end, Leave("break")), *epilogue(self.nest, "nl_own.at[nl_q]")]
            return [*own, unrolled("nl_q", many, alone)]
        rows = together(self.nest, loads, "nl_q", many, i, end, [row], [row], "nl_own.at[nl_q]")
        return [*own, sum_and_fields(loads), *rows]

    def operands(self) -> dict[str, Operand]:
        """The members of nl_convolution, or of nl_weights."""
        r, units = self.roles, parts_of(self.contract.strategy) is not None
        found: dict[str, Operand] = {"image": self.image()}
        columns = {"blocks": "blocks", "channels": "channels", "height": "rows", "shares": "shares", "splits": "splits"}
        if self.contract.strategy in FORWARD:
            found["weights"] = self.weights()
            found |= self._weights_by()
            found |= {"outs": self.extent(r.o), "rows": self.extent(r.i), "cols": self.extent(r.j)}
            columns = {n: n for n in ("strips", "height", "samples", "blocks", "deep", "channels")} | {"height": "rows"}
        else:
            found["out"] = self.out()
        found |= {"taps": self.extent(r.r), "step": r.row.step, "tap": abs(r.row.tap)}
        if units:
            found |= {"col_step": r.col.step, "col_tap": abs(r.col.tap)}
        if units and self.contract.strategy in FORWARD:
            found["shift"] = r.col.axis.div.bit_length() - 1
        return found | {n: cast("nl_i32", self.k.extent(f"s_{x}")) for n, x in columns.items()}


def window_of(k: Kernel, contract: l2.Contract) -> list[tuple[str, Operand]]:
    """The members of nl_window of a convolution whose pixels the copy engine gathers."""
    p = _Printer(k, contract)
    r = p.roles
    found: list[tuple[str, Operand]] = [("by_n", p.stride(r.image, r.n))]
    for x, prefix in ((r.row, ""), (r.col, "col_")):
        first = k.extent(x.axis.const)
        found += [
            (f"{prefix}by", cast("nl_i32", k.extent(x.axis.stride))),
            (f"{prefix}seen", p.seen(x)),
            (f"{prefix}out", p.extent(x.out) / x.axis.div),
            (f"{prefix}taps", p.extent(x.window)),
            (f"{prefix}step", x.step),
            (f"{prefix}tap", x.tap),
            (f"{prefix}first", cast("nl_i32", first)),
            (f"{prefix}low", form("({} + {}) >> {}", p.low(x), x.axis.div - 1, x.axis.div.bit_length() - 1)),
        ]
    found.append(("div", r.row.axis.div))
    channels = k.extent(p.dims[r.c].extent)
    groups = form("(nl_i32)(({} + {}) / {})", channels, stored_products.CHANNELS - 1, stored_products.CHANNELS)
    return [*found, ("channels", cast("nl_i32", channels)), ("groups", groups)]


def apart_in_memory(k: Kernel, contract: l2.Contract) -> dict[str, Operand]:
    """Members of nl_product of a convolution by split_conv: pixels of the image; elements between its channels, and
    those of the other operand."""
    p = _Printer(k, contract)
    r = p.roles
    pixels = cast("nl_u32", p.extent(r.n) * p.seen(r.row) * p.seen(r.col))
    other = (r.o, r.n, r.i, r.j) if dict(contract.literals)["weights"] else (r.o, r.c, r.r, r.s)
    by = {f"other_by[{n}]": p.stride(r.other, d) for n, d in enumerate(other)}
    return {"pixels": pixels, "channel_by": p.stride(r.image, r.c), **by}


def gathered_pixels(
    template: l2.Template, contract: l2.Contract, number: Number, size: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, int], int, tuple[tuple[int, int], ...], tuple[int, int]]:
    """The image of such a convolution as the tensor copy engine sees it (TensorMap of launch_work.py):
    extents, strides in bytes, box, `size` of an element, corners, steps. `number`: of a literal or a column."""
    r = roles(template, contract)
    dims = {d.name: number(d.extent) for d in contract.nest.dims}
    seen, by, edges = list[int](), list[int](), list[tuple[int, int]]()
    for x in (r.col, r.row):
        window, first = Window(dims[x.out], dims[x.window], x.step, x.tap, x.axis.div), number(x.axis.const)
        high = first + x.step * (window.out - 1) + max(0, x.tap * (window.taps - 1))
        seen.append(high // x.axis.div + 1 if x.axis.extent is None else number(x.axis.extent))  # none: it stays inside
        by.append(size * number(x.axis.stride))
        edges.append(stored_products.corners(first, window, seen[-1]))
    (by_n,) = (number(a.stride) for a in template.strided[r.image].axes if a.terms == ((r.n, 1),))
    pixels = stored_products.CHANNELS if dict(contract.literals)["weights"] else stored_products.ROWS
    box, steps = (stored_products.CHANNELS, pixels), (r.col.step, r.row.step)
    channels = dims[r.c]
    if contract.strategy == split_conv.NAME:  # in parts, as its first kernel writes them
        channels = split_conv.numbers_of(channels)
        by = [size * channels, size * channels * seen[0]]
        by_n = channels * seen[0] * seen[1]
    return (channels, *seen, dims[r.n]), (*by, size * by_n), box, size, tuple(edges), steps


def convolved(k: Kernel, contract: l2.Contract) -> tuple[dict[str, Operand], Sequence[Stmt]]:
    """The members of the operands, and what a thread does with its sums."""
    p = _Printer(k, contract)
    if contract.strategy in GROUPED:
        return p.depthwise() if contract.strategy in DEPTHWISE else p.grouped()
    if contract.strategy in FILTERS:
        return p.operands(), p.filters()
    return p.operands(), p.strips() if contract.strategy == direct_conv.NAME else p.pixels()

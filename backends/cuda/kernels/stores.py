"""What a thread does with its sums of a contraction: the epilogue of each, in the order in which it takes them.

Assumes: `nl_s`, the sums of a block, as the kernel has them (templates/products.cu.j2).
Guarantees: an epilogue is printed from the nest. On matrix units (`Lines`) elements that are neighbours in memory are
read and written together, and what is read is asked for before it is needed.
Does not: sum, or choose which sums a thread has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.kernels.nests.lines import besides, even, held, many_of
from backends.cuda.kernels.nests.nest import NEIGHBOURS, NestPrinter
from backends.kernel_ir.expr import Operand, braces, call, cast, code, every, form, member, name
from backends.kernel_ir.stmt import Closure, Do, For, Kind, Leave, Let, Set, Stmt, Struct, constants, moved, when
from backends.kernel_ir.tree import Code
from compiler.expr.ast import refs

MOMENTS: Final = ("mean", "square", "weight")
"""Sums over tiles that a thread has together."""
_AHEAD: Final = 4
"""Lines of NEIGHBOURS that a thread reads before it needs them."""
_TOGETHER: Final = 32
"""Sums, and elements that belong to them, that a thread reads before it stores the first one."""
_SLOW: Final = "nl_s.slow + (nl_e >> nl_s.bits)"


def epilogue(nest: NestPrinter, value: str, loads: Iterable[str] = ()) -> list[Stmt]:
    """The epilogue of one sum. `loads`: formals that are in locals already."""
    body = nest.body()
    body.load(loads)
    return nest.ended(value, body)


def apart(nest: NestPrinter, index: str, dims: Sequence[str], flat: bool = False) -> list[Stmt]:
    """Declarations of the dims of a flat index of less than 32 bits; the last one varies fastest. `flat`: all arrays
    have their elements as if the dims were one, for which the last one stands."""
    if flat:
        return [Let("nl_i64", nest.vars[d], index if d == dims[-1] else 0) for d in dims]
    known = {d.name: d for d in nest.nest.dims}
    return nest.split(code(index), [known[d] for d in dims], True)


def loaded(nest: NestPrinter) -> dict[str, Let]:
    """The arrays that an epilogue reads and does not change, with the declarations of the locals that hold them."""
    changed = {s.target for s in nest.nest.epilogue if not isinstance(s, l2.Emit)}
    wanted = {n for s in nest.nest.epilogue if not isinstance(s, l2.Emit) for n in refs(s.value)} - changed
    read = [n for n, element in nest.elements.items() if n in wanted and element.mode is l2.Mode.READ]
    return {n: x for n in read for x in nest.body().load([n]) if isinstance(x, Let)}


def unrolled(var: str, many: int, body: Sequence[Stmt], then: Sequence[Set] = ()) -> For:
    """A loop over what a thread has in registers."""
    return For(name(var), 0, many, body, type="int", kind=Kind.UNROLLED, then=then)


def fields(loads: Mapping[str, Let]) -> list[Let]:
    """Of a structure of locals."""
    return [Let(x.type, x.name) for x in loads.values()]


def sum_and_fields(loads: Mapping[str, Let]) -> Struct:
    """That structure, with the sum of a point."""
    return Struct("struct nl_read", [Let("real", name("sum")), *fields(loads)])


def read_of(loads: Mapping[str, Let], *first: str) -> Code:
    """Such a structure, with the values of the locals."""
    return braces(*first, *(x.value for x in loads.values() if x.value is not None), type="nl_read")


def taken(loads: Mapping[str, Let], structure: str) -> list[Stmt]:
    """The locals, from that structure."""
    return [replace(x, value=member(code(structure), x.name)) for x in loads.values()]


def together(
    nest: NestPrinter,
    loads: Mapping[str, Let],
    var: str,
    many: int,
    dim: Code,
    end: Code,
    read: Sequence[Stmt],
    store: Sequence[Stmt],
    at: str,
) -> list[Stmt]:
    """What so many points of `dim` below `end` read is loaded, then each is computed and stored. `read`, `store`: the
    declarations of `dim` in both loops over `var`; `at`: the sum of a point."""
    x = f"nl_x[{var}]"
    first = [*read, when(dim < end, Set(code(x), read_of(loads, at)))]
    then = [*store, when(dim >= end, Leave("continue")), *taken(loads, x), *epilogue(nest, f"{x}.sum", loads)]
    return [Let("nl_read", code(f"nl_x[{many}]")), unrolled(var, many, first), unrolled(var, many, then)]


def undivided(number: Operand, rows: Operand, cols: Operand) -> Code:
    """The pixel that is so many of those of a product, which have the same rests."""
    return call("nl_undivided", cast("nl_u32", number), "(int)nl_s.batch", rows, cols)


def _structure(called: str, fields: Sequence[Let], values: Iterable[Code]) -> list[Stmt]:
    """A constant one, if it has fields."""
    return [Struct("const struct", fields, name(called), braces(*values))] if fields else []


def _line(many: Code, channels: Code | None = None, stays: bool = False, outs: Sequence[Code] = ()) -> list[Stmt]:
    """The first of `many` sums of a thread in a line of a tile. `channels`: which are rows in whole groups. `outs`:
    along which are pixels with the same rests. `stays`: a thread that has none waits for the others at barriers."""
    lane = form("{} & ((1u << nl_s.bits) - 1)", many)
    if stays:
        return [
            Let("nl_i64", name("nl_column"), code("nl_s.fast") + lane),
            Let("bool", name("nl_inside"), "nl_column < nl_s.fast_end"),
            Let("nl_i64", name("nl_fast"), "nl_inside ? nl_column : nl_s.fast"),
        ]
    if channels is None and not outs:
        first = Let("nl_i64", name("nl_fast"), code("nl_s.fast") + lane)
        return [first, when("nl_fast >= nl_s.fast_end", Leave("return"))]
    found: list[Stmt] = [
        Let("nl_i64", name("nl_row"), code("nl_s.fast") + lane),
        when("nl_row >= nl_s.fast_end", Leave("return")),
    ]
    if channels is None:
        return [*found, Let("nl_i64", name("nl_fast"), undivided("nl_row", *outs))]
    return [
        *found,
        Let("nl_i64", name("nl_fast"), call("nl_of_channels", "(nl_u32)nl_row", cast("nl_u32", channels))),
        when("nl_fast < 0", Leave("return")),
    ]


@dataclass(frozen=True)
class Tile:
    """How the sums of a product lie in a tile: along the dims `fast` for neighbouring threads, along `slow` from line
    to line. What takes flat indices apart: `batch`, of `nl_s.batch`; `of_fast`, of `nl_fast`; `of_slow`, of `nl_slow`;
    `own`, of `nl_own`, one of neighbours. `outs`: lines and columns of pixels of which those with the same rest are a
    product. `channels`: their number, where what is along `fast` are taps by whole groups of these."""

    nest: NestPrinter
    fast: Sequence[str]
    slow: Sequence[str]
    batch: Sequence[Stmt]
    of_fast: Sequence[Stmt]
    of_slow: Sequence[Stmt]
    own: Sequence[Stmt] = ()
    outs: Sequence[Code] = ()
    channels: Code | None = None

    def one_by_one(self) -> list[Stmt]:
        """All sums."""
        each = [
            constants("nl_i64", nl_slow=_SLOW),
            when("nl_slow >= nl_s.slow_end", Leave("return")),
            *self.of_slow,
            *epilogue(self.nest, "nl_s.at[nl_e]"),
        ]
        loop = For(name("nl_e"), "threadIdx.x", "nl_s.size", each, BLOCK, "int", Kind.ONCE)
        return [*_line(code("threadIdx.x")), *self.batch, *self.of_fast, loop]

    def several(self) -> list[Stmt]:
        """All sums of a tile on matrix units: of several lines what belongs to them is read before the first one is
        stored."""
        loads, at = loaded(self.nest), "nl_s.at[nl_swizzled(nl_e, nl_s.bits)]"
        many = min(_TOGETHER // 2, _TOGETHER // (1 + len(loads)))
        place = [
            constants("int", nl_e=f"nl_first + nl_u * {BLOCK}"),
            constants("nl_i64", nl_slow=_SLOW),
            *self.of_slow,
        ]
        end = Let("nl_i64", name("nl_end"), "nl_least(nl_s.slow_end, nl_s.slow + (nl_s.size >> nl_s.bits))")
        each = together(self.nest, loads, "nl_u", many, name("nl_slow"), name("nl_end"), place, place, at)
        loop = For(name("nl_first"), "threadIdx.x", "nl_s.size", each, many * BLOCK, "int", Kind.ONCE)
        line = _line(code("threadIdx.x"), self.channels, outs=self.outs)
        return [sum_and_fields(loads), *line, *self.batch, *self.of_fast, end, loop]


class Lines:
    """All sums of a tile, of which a thread takes `many` neighbours of a line at a time; it reads what belongs to them
    `ahead` lines ahead: a place for each, as to move what was read to another place would wait for it."""

    def __init__(self, tile: Tile, contract: l2.Contract) -> None:
        self.tile, self.contract, self.k = tile, contract, tile.nest.k
        self.end, self.tally = epilogue(tile.nest, "nl_sum.x[nl_n]"), self._tally()
        self.found, self.guarded = besides(tile.nest, [*self.end, *self.tally], tile.fast, tile.slow)
        self.fixed, self.arrays = ([x for x in self.found if x.fixed == same] for same in (True, False))
        self.read = [x for x in self.arrays if x.read]
        self.many = many_of(tile.nest, self.found)
        self.ahead = _AHEAD * NEIGHBOURS // self.many
        if self.tally:  # sums take registers, too
            self.ahead = min(self.ahead, max(1, _AHEAD // max(1, sum(x.few for x in self.read))))
        self.few = f"nl_few<real, {self.many}>"
        self.first = code(self.many) * code("threadIdx.x")

    def _tally(self) -> list[Stmt]:
        """What a point adds to the sums over tiles of its thread (templates/tile_sums.cu.j2)."""
        body, made, plain = self.tile.nest.body(), list[Stmt](), 0
        for s in self.contract.sums:
            if s.of not in ("sum", "mean"):
                continue
            made += body.load(refs(s.value))
            value = self.k.dialect.expr(s.value, body.scope, self.k.dialect.precision)
            if s.of == "sum":
                made.append(Set(code(f"nl_tally[{plain}].x[nl_n]"), value, "+="))
                plain += 1
            else:
                sums = (f"nl_tally[{n}].x[nl_n]" for n in range(2))
                made.append(Do(call("nl_add_off", *sums, value, "nl_shift.x[nl_n]", "nl_weight")))
        return made

    def _targets(self, *of: str) -> list[Code]:
        """The arrays of sums over tiles."""
        return [self.k.pointers[s.target] for kind in of for s in self.contract.sums if s.of == kind]

    def _sums_at(self, place: Operand) -> Code:
        swizzled = call("nl_swizzled", place, "nl_s.bits")
        return form("{}<{}>(nl_s.at + {})", name("nl_sums_at"), self.many, swizzled)

    def _place(self) -> list[Stmt]:
        """The line of sum nl_e."""
        slow = code(_SLOW)
        if self.tile.outs:
            slow = undivided(slow, "nl_out", "nl_col_out")
        return [Let("nl_i64", name("nl_slow"), slow), *self.tile.of_slow]

    def _ahead(self) -> list[Stmt]:
        """The first lines that a thread reads."""
        line = "nl_line"
        fields = [Let(f"nl_words<{x.stored}, {self.many}>" if x.few else x.type, x.pointer) for x in self.read]
        got = Leave("return", braces(*(x.got(self.many) for x in self.read), type=line))
        place = form("{} * (threadIdx.x + nl_u * {})", self.many, BLOCK)
        begin = when(place < name("nl_here"), Set(code("nl_next[nl_u]"), call("nl_read_line", place)))
        return [
            Struct(f"struct {line}", fields),
            Closure("nl_read_line", [Let("int", name("nl_e"))], [*self._place(), got]),
            Let(line, code(f"nl_next[{self.ahead}]")),
            unrolled("nl_u", self.ahead, [begin]),
        ]

    def all(self) -> list[Stmt]:
        """What a thread does."""
        tile, many = self.tile, self.many
        tests = even(self.k, [x for x in self.found if x.few], tile.fast[0], many) if tile.fast else []
        outs = dict(zip(("nl_out", "nl_col_out"), tile.outs, strict=bool(tile.outs)))
        same = [x.member(many) for x in self.fixed]
        lines = [unrolled("nl_u", self.ahead, self._several())]
        here = "(int)nl_least((nl_s.slow_end - nl_s.slow) << nl_s.bits, nl_s.size)"
        return [
            *([constants("nl_i32", **outs)] if outs else []),
            *_line(self.first, tile.channels, bool(self.tally)),
            Let("int", name("nl_many"), cast("int", call("nl_least", many, "nl_s.fast_end - nl_fast"))),
            Let("bool", name("nl_even"), every(tests) or "true"),
            *tile.batch,
            *tile.of_fast,
            *_structure("nl_same", same, (x.value(many) for x in self.fixed)),
            constants("int", nl_here=f"nl_inside ? {here} : 0" if self.tally else here),
            *(self._ahead() if self.read else []),
            *(self._begun() if self.tally else []),
            For(name("nl_first"), self.first, "nl_here", lines, many * self.ahead * BLOCK, "int", Kind.ONCE),
            *(self._joined() if self.tally else []),
        ]

    def _several(self) -> list[Stmt]:
        """The neighbours of a line."""
        many, later = self.many, form("nl_e + {}", self.many * self.ahead * BLOCK)
        again = [
            Let("nl_line", name("nl_got"), "nl_next[nl_u]"),
            when(later < name("nl_here"), Set(code("nl_next[nl_u]"), call("nl_read_line", later))),
        ]
        fields = [x.member(many) for x in self.arrays]
        values = [x.computed(code(f"nl_got.{x.pointer}") if x.read else None) for x in self.arrays]
        guard = [when("nl_n >= nl_many", Leave("break"))] if self.guarded else []
        return [
            constants("int", nl_e=f"nl_first + {many * BLOCK} * nl_u"),
            when("nl_e >= nl_here", Leave("break")),
            *(again if self.read else []),
            *self._place(),
            Struct("struct", fields, name("nl_x"), braces(*values)),
            Let(self.few, name("nl_sum"), self._sums_at("nl_e")),
            unrolled("nl_n", many, [*guard, *self._own(), *held(self.end, self.found)]),
            *(self._added() if self.tally else []),
            *(Do(x.store) for x in self.arrays if x.written),
        ]

    def _own(self) -> list[Stmt]:
        return [constants("nl_i64", nl_own="nl_fast + nl_n"), *self.tile.own]

    # ----------------------------------------------------------------------------------- sums over tiles

    def _begun(self) -> list[Stmt]:
        """Those of a thread, which begin at 0; of moments, of what is off one of their values."""
        moments = self._targets(*MOMENTS)
        sums = Let(self.few, code(f"nl_tally[{len(self._targets('sum')) or 2}]"), braces(), const=False)
        lane = form("{} & ((1u << nl_s.bits) - 1)", self.first)
        shift = [Let(self.few, name("nl_shift"), self._sums_at(lane)), Let("real", name("nl_weights"), 0, const=False)]
        return [sums, *(shift if moments else [])]

    def _added(self) -> list[Stmt]:
        """What neighbours add: of what is stored."""
        narrow = [x for x in self.found if x.narrow and x.written]
        values = (call("nl_as_stored", f"nl_x.{x.pointer}") for x in narrow)
        places = {x.formal: x.place for x in self.found}
        places |= {x.formal: code(f"nl_stored.{x.pointer}.x[nl_n]") for x in narrow}
        weight = "nl_weight_of(nl_s, nl_e >> nl_s.bits)" if any(s.weight for s in self.contract.sums) else 1
        weights = [Let("real", name("nl_weight"), weight), Set(name("nl_weights"), "nl_weight", "+=")]
        return [
            *_structure("nl_stored", [x.member(self.many) for x in narrow], values),
            *(weights if self._targets(*MOMENTS) else []),
            unrolled("nl_n", self.many, [*(self._own() if self.guarded else []), *moved(self.tally, places)]),
        ]

    def _joined(self) -> list[Stmt]:
        """The sums of a tile."""
        sums, moments, column = self._targets("sum"), self._targets(*MOMENTS), self.k.extent
        sides = (cast("nl_u32", column(x)) for x in ("tile_lines", "tile_rows"))
        number = call("nl_tile_number", "nl_s", *sides)
        found: list[Stmt] = [constants("nl_i64", nl_tiles=column("tiles"), nl_tile=number)]
        if sums:
            found.append(Let("real *const", code("nl_to")[name("")], braces(*sums), const=False))
            found.append(Do("nl_store_tally(nl_s, nl_tally, nl_to, nl_tile, nl_tiles)"))
        if moments:
            given: tuple[Operand, ...] = ("nl_tally", "nl_shift", "nl_weights", *moments, "nl_tile", "nl_tiles")
            found.append(Do(call("nl_store_moments", "nl_s", *given)))
        return found

"""The CUDA function of one template: its row, the loads of its columns, and its share of a launch.

Assumes: a kernel that backends/c_family/access.py has opened; blocks of at most BLOCK threads.
Guarantees: a row holds device addresses and numbers in the types that they are used in (the host converts the words of
the table when it uploads them); a column is loaded only where its name is used; work is counted in 64 bits. The work of
one block is a function of an nl_task; the kernel around it has the same arguments for all templates (NL_ARGUMENTS in
templates/module.cu.j2).
Does not: print bodies (nests/nest.py, events.py) or files (backends/cuda/emit/emit.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

import backends.kernel_ir.stmt as ir
from backends.c_family.access import Kernel, columns, mentioned
from backends.c_family.cprint import STEP
from backends.c_family.skeletons import Skeletons
from backends.kernel_ir.copies import without_copies
from backends.kernel_ir.descriptor import Division
from backends.kernel_ir.expr import ONE, ZERO, Operand, call, cast, code, form, name, total
from backends.kernel_ir.inline import inlined
from backends.kernel_ir.stmt import Block, Definition, Do, For, Kind, Let, Stmt, Text, names_of

SKELETONS: Final = Skeletons("backends.cuda")
BLOCK: Final = 256
"""Threads of a block; a warp is 32 of them."""
COLUMNS: Final = 32
"""Points that a block has where they are columns of a matrix, or so many times its points of a thread."""
WORK: Final = "_block"
"""Suffix of the device function that does the work of one block."""


@dataclass(frozen=True)
class Function:
    """One __global__ function of a template. `suffix` tells the functions of one template apart. `resident`: minimum
    blocks per multiprocessor for register allocation (0: the compiler decides). `given`: its parameters beside its row,
    if it is a device function of a kernel that several templates share (contract.py), or (`inlined`) one that another
    function calls: the `event` of a delivery, for the synapses of an event (propagate.py). `ahead`: code that depends
    on the step and the row alone, run before preceding kernels have ended; `waits`: the body itself waits for them.
    `block`: threads of a block, at most; `division`: how they share the work of a row."""

    suffix: str
    body: tuple[Stmt, ...]
    early: tuple[Stmt, ...] = ()
    resident: int = 0
    given: tuple[Let, ...] = ()
    ahead: tuple[Stmt, ...] = ()
    waits: bool = False
    block: int = BLOCK
    division: Division = Division.OWN
    inlined: bool = False
    event: Function | None = None

    @property
    def statements(self) -> tuple[Stmt, ...]:
        """Its own and those of the function that it calls."""
        return *(self.event.statements if self.event else ()), *self.ahead, *self.early, *self.body


@dataclass(frozen=True)
class Shared:
    """A kernel of several contractions. `operands` and `sums`: the structures that their functions fill in and store;
    `call`: the summation. `resident`: minimum blocks per multiprocessor for register allocation (0: the compiler
    decides). `numbers`: `s_tile` of the rows that it is for (None: of all). `block`: its threads. Without `sums` it has
    no epilogue: another kernel of the contraction comes after it. `part`: its kernels that are compiled together (its
    own name: alone). `early`: what runs before preceding kernels have ended; `waits`: the call itself waits for
    them. `users`: the contractions."""

    name: str
    call: str
    operands: str
    sums: str
    resident: int
    numbers: frozenset[int] | None = None
    block: int = BLOCK
    part: str = ""
    early: str = ""
    waits: bool = False
    users: tuple[Kernel, ...] = ()

    def with_rows(self, numbers: Mapping[int, frozenset[int]] | None) -> Shared:
        """For those contractions alone of which a row, with these numbers by template (None: all), needs it."""
        if self.numbers is None or numbers is None:
            return self
        users = (k for k in self.users if numbers.get(k.template.index, frozenset()) & self.numbers)
        return replace(self, users=tuple(users))


def structure(fields: str, size: int | None = None) -> np.dtype[np.void]:
    """A structure that kernels read: "from:u8 at,pitch:i4" names its fields, with NumPy's types. `size`: its bytes, if
    there are more behind them."""
    named = [(name, kind) for names, kind in (x.split(":") for x in fields.split()) for name in names.split(",")]
    names, formats = zip(*named, strict=True)
    return np.dtype({"names": names, "formats": formats, "itemsize": size or np.dtype(named).itemsize})


def read_by(k: Kernel, functions: Iterable[Function]) -> set[str]:
    """The formals that functions name: the columns of a row."""
    return mentioned(k, (s for f in functions for s in f.statements))


def function(k: Kernel, made: Function, whole: bool = True) -> list[Stmt]:
    """The text of a function: the work of one block, and the kernel (if `whole`). `early` runs first, with its own
    columns, and may return."""
    first = mentioned(k, (*made.ahead, *made.early))
    rest = mentioned(k, made.body) - first
    stepped = "step" in names_of((*made.ahead, *made.early, *made.body))
    called, row = k.function + made.suffix, f"const {k.row_type} *"
    if made.given:
        given = [Let(row, name("self")), Let("nl_i64", STEP), *made.given]
        kind = "NL_FN" if made.inlined else "NL_PART"
        return [Definition(f"{kind} void {called}", given, _brief(k, [*columns(k, rest), *of_block(made.body)]))]
    late = rest if made.early else set[str]()
    own = [Let(f"{row}const", name("self"), cast(row, "nl_t.self"), const=False)]
    inner = [
        *(own if first or rest or made.event else []),
        *([Let("nl_i64", STEP, "nl_t.step")] if stepped else []),
        *columns(k, (first | rest) - late),
        *made.ahead,
        *([] if made.waits else [WAIT]),
        *(*made.early, *columns(k, late), *of_block(made.body)),
    ]
    bounds = f"__launch_bounds__({made.block}, {made.resident})" if made.resident else "NL_BLOCK"
    call_of_block = Text(f"{called}{WORK}(NL_TASK({k.row_type}));")
    kernel = Block(f'extern "C" __global__ void {bounds} {called}(NL_ARGUMENTS)', [call_of_block])
    event = function(k, made.event) if made.event else []
    task = Let("const nl_task &", name("nl_t"))
    inner = _brief(k, inner)
    if not names_of(inner).isdisjoint(("nl_me", "NL_EACH")):
        inner.insert(0, Let("const nl_job &", code("nl_me"), "nl_t.me", const=False))
    work = [*event, Definition(f"NL_FN void {called}{WORK}", [task], inner)]
    return [*work, kernel] if whole else work


def _brief(k: Kernel, statements: Sequence[Stmt]) -> list[Stmt]:
    """Without what no one reads, nor names of what is read once."""
    return inlined(without_copies(ir.used(statements)), k.reads)


WAIT: Final = Do(call("nl_wait"))
"""Until preceding kernels have ended."""
SYNC: Final = Do(call("__syncthreads"))


_LOOPS: Final = {
    Kind.THREADS: ("nl_me.part", "threadIdx.x", "blockDim.x"),
    Kind.BLOCKS: ("nl_me.part", "0", "1"),
    Kind.GROUPS: ("nl_me.part", "threadIdx.x >> nl_bits", "blockDim.x >> nl_bits"),
    Kind.SHARED: ("nl_part", "threadIdx.x >> nl_bits", "blockDim.x >> nl_bits"),
    Kind.TOGETHER: ("", "threadIdx.x", "blockDim.x"),
    Kind.TURNS: ("", "nl_me.part * blockDim.x + threadIdx.x", "nl_me.parts * blockDim.x"),
    Kind.WARPS: (
        "",
        "nl_me.part * (nl_i64)(blockDim.x / 32) + threadIdx.x / 32",
        "nl_me.parts * (nl_i64)(blockDim.x / 32)",
    ),
}
"""Which part of a loop a block has, if it has one, where a thread begins in it, and its steps."""


def until(count: Operand, part: str = "nl_me.part") -> Let:
    """The end of the part of `count` elements that a block has."""
    return Let("nl_i64", code("nl_end"), call("nl_least", count, form("({} + 1ll) * nl_t.chunk", part)))


def of_block(statements: Iterable[Stmt]) -> list[Stmt]:
    """Statements whose loops by threads, groups of these and blocks are what this thread does. Most of them run once in
    a thread: unrolled, they take twice as long to compile and run no faster."""
    found = list[Stmt]()
    for s in statements:
        if isinstance(s, For) and s.kind in (Kind.COLUMNS, Kind.ROUNDS):
            found += _column(s) if s.kind is Kind.COLUMNS else _rounds(s)
            continue
        if isinstance(s, For) and s.kind is Kind.EVENTS:
            share = code(s.first or "")
            found.append(Let("nl_events_share", share, call("nl_my_share", "nl_me", s.end or 0)))
            s = replace(s, first=form("{}.first", share), by=form("{}.groups", share), kind=Kind.ONCE)
        elif isinstance(s, For) and s.kind in _LOOPS:
            part, first, by = _LOOPS[s.kind][0], *map(code, _LOOPS[s.kind][1:])
            if s.kind in (Kind.THREADS, Kind.TOGETHER) and s.by != ONE:
                first, by = (code(s.by or ONE) * x for x in (first, by))
            if part and s.end is not None:
                found.append(until(s.end, part))
            first = total([form("{} * nl_t.chunk", part) if part else s.first or ZERO, first])
            s = replace(s, first=first, end="nl_end" if part else s.end, by=by, kind=Kind.ONCE)
        found.append(s)
    return found


def _rounds(loop: For) -> list[Stmt]:
    """The part of a block in whole neighbourhoods, and then what is left of it."""
    own = replace(loop, first=code("nl_from"), end=code("nl_to"), by=code("nl_width"), test=None, kind=Kind.TOGETHER)
    to = ir.constants("nl_i64", nl_to="nl_end - (nl_end - nl_from) % nl_width")
    rest = [ir.when("nl_to == nl_end", ir.Leave("break")), ir.Set(code("nl_from"), "nl_to")]
    inner = [ir.constants("int", nl_width=loop.by or ONE), to, *of_block([own]), *rest]
    start = Let("nl_i64", code("nl_from"), "nl_me.part * nl_t.chunk", const=False)
    twice = For(code("nl_wide"), loop.test, None, inner, "false", "bool", Kind.ONCE, test="true", op="=")
    return [until(loop.end or ONE), start, twice]


def _column(loop: For) -> list[Stmt]:
    """The points of a thread that are columns, or the last ones: a thread has `by` of them, or none. Where there are
    fewer than a warp takes, its threads have several rows of them."""
    by = code(loop.by or ONE)
    place = form("nl_me.part / nl_splits * {} + threadIdx.x % nl_lanes", f"{COLUMNS}ll")
    point, last = place if by == ONE else place * by, form("nl_points - {}", by)
    return [
        Let("nl_i64", code("nl_points"), loop.end),
        Let("nl_u32", code("nl_lanes"), call("nl_lanes_of", "nl_points", by)),
        Let("nl_i64", code("nl_point"), point),
        Let("nl_i64", loop.var, call("nl_least", "nl_point", last)),
        *loop.body,
    ]

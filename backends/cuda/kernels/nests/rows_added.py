"""rows_added: sums of rows of a table's gradient, which positions ask for (compiler/passes/kernels/lower_gathers.py).

Assumes: a nest whose points are positions (and elements of a row), and whose terms are those of all positions that ask
for the same row.
Guarantees: a block for each position. Only the first position that asks for a row sums it: the block collects those
that ask for it, 256 at a time, and each thread adds what they have to its own elements, in the order of the positions,
from 0 on. Those are the additions of a thread alone that tests every position, but for zeros, so the bits are the same.
Does not: sort: a block looks at the indices of all positions, or of those up to one that asks for the same row before.
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Body
from backends.cuda.kernels.kernel import BLOCK, SYNC, Function
from backends.cuda.kernels.nests.nest import NestPrinter
from backends.kernel_ir.descriptor import Division
from backends.kernel_ir.expr import braces, code
from backends.kernel_ir.stmt import Closure, Do, Each, For, Kind, Leave, Let, Set, Stmt, constants, when
from compiler.expr.ast import Binary, Cond, Num, Ref, refs

_ELEMENTS: Final = 4
"""Elements of a row that a thread sums at a time."""


def asked_dims(nest: l2.Nest) -> int | None:
    """How many dims the positions have, if this is a nest of such sums: they are the first ones, and the dims that are
    summed over are the same in the same order."""
    term, prologue = nest.term, nest.prologue
    if nest.combine != "add" or not isinstance(term, Cond) or term.orelse != Num(0.0) or len(prologue) != 1:
        return None
    asks, row, test = prologue[0], None, term.test
    if isinstance(asks, l2.Assign) and asks.value == Ref("place"):
        row = asks.target
    if row is None or not isinstance(test, Binary) or test.op != "==" or test.right != Ref(row):
        return None
    par, red = ([d.name for d in dims] for dims in (nest.par, nest.red))
    return len(red) if red and par[: len(red)] == [f"at_{d}" for d in red] else None


def rows_added(k: Kernel, nest: l2.Nest, asked: int) -> list[Function]:
    """The function of such a nest, whose positions have `asked` dims."""
    p = NestPrinter(k, nest)
    assert isinstance(nest.term, Cond)
    positions, kept = p.par[:asked], p.par[asked:]
    real = k.dialect.real
    position, at, element = code("nl_position"), code("nl_at"), code("nl_element")
    body = p.body()
    start = [*p.split(position, positions), *body.run(nest.prologue)]

    test = Body(k.dialect, dict(body.scope), p.elements, k.namer)
    asks = [
        when("nl_at >= nl_positions", Leave("return", "false")),
        *p.split(at, p.red),
        *test.load(refs(nest.term.test)),
        Leave("return", k.dialect.test(nest.term.test, test.scope)),
    ]

    term = Body(k.dialect, dict(body.scope), p.elements, k.namer)
    adds = [*p.split(at, p.red), *p.split(element, kept), *term.load(refs(nest.term.then))]
    adds.append(Set(code("nl_sum"), k.dialect.expr(nest.term.then, term.scope, k.dialect.precision), "+="))

    store = [*p.split(element, kept), *p.ended("nl_sums[nl_e]", body)]
    row = [
        *start,
        Closure("nl_asks", [Let("nl_i64", code("nl_at"))], asks, "bool"),
        *_first(),
        Closure("nl_add", [Let(f"{real} &", code("nl_sum")), Let("nl_i64", at), Let("nl_i64", element)], adds),
        _sums(real, store),
    ]
    made = Function(
        "",
        (
            Let("__shared__ nl_i64", code(f"nl_found[{BLOCK}]")),
            Let("__shared__ nl_u32", code(f"nl_counts[{BLOCK // 32}]")),
            constants("nl_i64", nl_positions=p.extent(positions), nl_width=p.extent(kept)),
            For(position, 0, "nl_positions", row, kind=Kind.BLOCKS),
        ),
        division=Division.POSITIONS,
    )
    return p.with_inverses([made])


def _first() -> list[Stmt]:
    """Leaves the position where an earlier one asks for its row."""
    asked = "__syncthreads_or(nl_at < nl_position && nl_asks(nl_at))"
    inner = [constants("nl_i64", nl_at="nl_from + threadIdx.x"), Set(code("nl_earlier"), asked)]
    return [
        Let("bool", code("nl_earlier"), code("false"), const=False),
        For(code("nl_from"), 0, None, inner, BLOCK, kind=Kind.ONCE, test="nl_from < nl_position && !nl_earlier"),
        when("nl_earlier", Leave("continue")),
    ]


def _each(body: list[Stmt]) -> Stmt:
    """What happens at each element of a thread."""
    element = constants("nl_i64", nl_element=f"nl_column + nl_e * {BLOCK}")
    return Each(code("nl_e"), _ELEMENTS, [element, *body])


def _sums(real: str, store: list[Stmt]) -> Stmt:
    """The sums of all elements of a row, some for each thread, over the positions that ask for it."""
    add = when("nl_element < nl_width", Do("nl_add(nl_sums[nl_e], nl_at, nl_element)"))
    many = For(code("nl_n"), 0, "nl_many", [constants("nl_i64", nl_at="nl_found[nl_n]"), _each([add])],
               type="nl_u32", kind=Kind.FOUR)  # fmt: skip
    body = [
        constants("nl_i64", nl_column="nl_columns + threadIdx.x"),
        Let(real, code(f"nl_sums[{_ELEMENTS}]"), braces(), const=False),
        For(code("nl_from"), "nl_position", "nl_positions", [*_collected(), many, SYNC], BLOCK, kind=Kind.ONCE),
        _each([when("nl_element >= nl_width", Leave("return")), *store]),
    ]
    return For(code("nl_columns"), 0, "nl_width", body, _ELEMENTS * BLOCK, kind=Kind.ONCE)


def _collected() -> list[Stmt]:
    """The positions from nl_from on, one for each thread, that ask for the row: nl_many in nl_found, in their order."""
    counted = [
        when("nl_n == nl_warp", Set(code("nl_before"), "nl_many")),
        Set(code("nl_many"), "nl_counts[nl_n]", "+="),
    ]
    return [
        constants("bool", nl_here="nl_asks(nl_from + threadIdx.x)"),
        constants("nl_u32", nl_who="__ballot_sync(0xffffffffu, nl_here)", nl_warp="threadIdx.x / 32"),
        when("threadIdx.x % 32 == 0", Set(code("nl_counts[nl_warp]"), "__popc(nl_who)")),
        SYNC,
        Let("nl_u32", code("nl_before"), 0, const=False, beside=[Let("nl_u32", code("nl_many"), 0, const=False)]),
        For(code("nl_n"), 0, BLOCK // 32, counted, type="nl_u32"),
        Set(code("nl_before"), "__popc(nl_who & ((1u << (threadIdx.x % 32)) - 1))", "+="),
        when("nl_here", Set(code("nl_found[nl_before]"), "nl_from + threadIdx.x")),
        SYNC,
    ]

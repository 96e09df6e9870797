"""rows_added: sums of rows of a table's gradient, which positions ask for (compiler/passes/kernels/lower_one_hot.py).

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
from backends.c_family.cprint import Body, Line, Symbol, indent
from backends.cuda.kernels.kernel import BLOCK, ONCE, Function
from backends.cuda.kernels.nest import NestPrinter
from compiler.expr.ast import Binary, Cond, Num, Ref, refs

_ELEMENTS: Final = 4
"""Elements of a row that a thread sums at a time."""
_UNROLL: Final = Line("#pragma unroll 4")


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
    red = [d.name for d in nest.dims if d.kind is l2.DimKind.RED]
    par = [d.name for d in nest.dims if d.kind is not l2.DimKind.RED]
    return len(red) if red and par[: len(red)] == [f"at_{d}" for d in red] else None


def rows_added(k: Kernel, nest: l2.Nest, asked: int) -> list[Function]:
    """The function of such a nest, whose positions have `asked` dims."""
    p = NestPrinter(k, nest)
    assert isinstance(nest.term, Cond)
    positions, kept = p.par[:asked], p.par[asked:]
    real = k.dialect.real
    body = p.body()
    start = [*p.split("nl_position", positions), *body.run(nest.prologue)]

    test = Body(k.printer, dict(body.scope), p.elements, k.namer)
    asks = [
        Line("if (nl_at >= nl_positions) return false;"),
        *p.split("nl_at", p.red),
        *test.load(refs(nest.term.test)),
        Line(f"return {k.printer.test(nest.term.test, test.scope)};"),
    ]

    term = Body(k.printer, dict(body.scope), p.elements, k.namer)
    adds = [*p.split("nl_at", p.red), *p.split("nl_element", kept), *term.load(refs(nest.term.then))]
    adds.append(Line(f"nl_sum += {k.printer.expr(nest.term.then, term.scope, k.dialect.precision)};"))

    acc = k.namer.own(nest.acc)
    body.scope[nest.acc] = Symbol(acc, k.dialect.precision)
    store = [
        *p.split("nl_element", kept),
        Line(f"const {real} {acc} = nl_sums[nl_e];"),
        *body.finish(nest.epilogue),
    ]
    return [
        Function(
            "",
            (
                Line(f"__shared__ nl_i64 nl_found[{BLOCK}];"),
                Line(f"__shared__ nl_u32 nl_counts[{BLOCK // 32}];"),
                Line(f"const nl_i64 nl_positions = {p.extent(positions)}, nl_width = {p.extent(kept)};"),
                Line("const nl_i64 nl_end = nl_least(nl_positions, (nl_me.part + 1ll) * nl_t.chunk);"),
                ONCE,
                Line("for (nl_i64 nl_position = nl_me.part * nl_t.chunk; nl_position < nl_end; nl_position++) {"),
                *indent([*start, *_lambda("nl_asks = [&](nl_i64 nl_at) -> bool", asks), *_first()]),
                *indent(
                    _sums(real, _lambda(f"nl_add = [&]({real} &nl_sum, nl_i64 nl_at, nl_i64 nl_element)", adds), store)
                ),
                Line("}"),
            ),
        )
    ]


def _lambda(head: str, lines: list[Line]) -> list[Line]:
    return [Line(f"const auto {head} {{"), *indent(lines), Line("};")]


def _first() -> list[Line]:
    """Leaves the position where an earlier one asks for its row."""
    return [
        Line("bool nl_earlier = false;"),
        ONCE,
        Line(f"for (nl_i64 nl_from = 0; nl_from < nl_position && !nl_earlier; nl_from += {BLOCK}) {{"),
        Line("const nl_i64 nl_at = nl_from + threadIdx.x;", 1),
        Line("nl_earlier = __syncthreads_or(nl_at < nl_position && nl_asks(nl_at));", 1),
        Line("}"),
        Line("if (nl_earlier) continue;"),
    ]


def _sums(real: str, add: list[Line], store: list[Line]) -> list[Line]:
    """The sums of all elements of a row, some for each thread, over the positions that ask for it."""
    each = f"nl_each<{_ELEMENTS}>([&](int nl_e) {{"
    element = f"const nl_i64 nl_element = nl_column + nl_e * {BLOCK};"
    return [
        *add,
        ONCE,
        Line(f"for (nl_i64 nl_columns = 0; nl_columns < nl_width; nl_columns += {_ELEMENTS * BLOCK}) {{"),
        Line("const nl_i64 nl_column = nl_columns + threadIdx.x;", 1),
        Line(f"{real} nl_sums[{_ELEMENTS}] = {{}};", 1),
        *indent([ONCE]),
        Line(f"for (nl_i64 nl_from = nl_position; nl_from < nl_positions; nl_from += {BLOCK}) {{", 1),
        *indent(indent(_collected())),
        *indent(indent([_UNROLL])),
        Line("for (nl_u32 nl_n = 0; nl_n < nl_many; nl_n++) {", 2),
        Line("const nl_i64 nl_at = nl_found[nl_n];", 3),
        Line(each, 3),
        Line(element, 4),
        Line("if (nl_element < nl_width) nl_add(nl_sums[nl_e], nl_at, nl_element);", 4),
        Line("});", 3),
        Line("}", 2),
        Line("__syncthreads();", 2),
        Line("}", 1),
        Line(each, 1),
        Line(element, 2),
        Line("if (nl_element >= nl_width) return;", 2),
        *indent(indent(store)),
        Line("});", 1),
        Line("}"),
    ]


def _collected() -> list[Line]:
    """The positions from nl_from on, one for each thread, that ask for the row: nl_many in nl_found, in their order."""
    return [
        Line("const bool nl_here = nl_asks(nl_from + threadIdx.x);"),
        Line("const nl_u32 nl_who = __ballot_sync(0xffffffffu, nl_here), nl_warp = threadIdx.x / 32;"),
        Line("if (threadIdx.x % 32 == 0) nl_counts[nl_warp] = __popc(nl_who);"),
        Line("__syncthreads();"),
        Line("nl_u32 nl_before = 0, nl_many = 0;"),
        Line(f"for (nl_u32 nl_n = 0; nl_n < {BLOCK // 32}; nl_n++) {{"),
        Line("if (nl_n == nl_warp) nl_before = nl_many;", 1),
        Line("nl_many += nl_counts[nl_n];", 1),
        Line("}"),
        Line("nl_before += __popc(nl_who & ((1u << threadIdx.x % 32) - 1));"),
        Line("if (nl_here) nl_found[nl_before] = nl_from + threadIdx.x;"),
        Line("__syncthreads();"),
    ]

"""several_points: maps whose threads process several points at a time, so that their loads overlap: two or four that
lie a block of threads apart.

Assumes: the statements of one point (cprint.Body): declarations, assignments, stores at the end, which print an element
by its `place`; points of a thread share no element.
Guarantees: the same operations in the same order for each point. Random numbers are drawn for both points before
preceding kernels have ended, if they are drawn first (`wait` follows them); then both points are loaded, then
processed. Compilers do not move loads across stores to possibly aliased arrays.
Does not: change the statements, or choose how many points a block has (backends/cuda/kernels/launch_geometry.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from itertools import chain
from typing import Final

import backends.kernel_ir.stmt as ir
from backends.cuda.kernels.kernel import of_block
from backends.kernel_ir.expr import braces, code, form
from backends.kernel_ir.stmt import Do, For, If, Kind, Leave, Let, Stmt, when
from backends.kernel_ir.tree import Code, Variable

_MANY: Final = Let("int", code("nl_many"), "nl_first + blockDim.x < nl_end ? 2 : 1")


def in_pairs(points: For, wait: Do, pointers: Set[str]) -> list[Stmt]:
    """A loop over points by threads, of which each takes two at a time: what a stage finds for later ones stands in
    arrays of two, which are registers, as the loops over both points are unrolled."""
    inner, index, u = list(points.body), points.var, code("u")
    drawn = inner.index(wait) if wait in inner else 0
    rest = inner[drawn + 1 if drawn else 0 :]
    first = _loaded(rest, pointers)
    early, work = [x for x in (inner[:drawn], first) if x], _without(rest, first)
    found = [x for n, own in enumerate(early, 1) for x in _read(own, [*chain(*early[n:]), *work])]
    held = {x.name: x.name[u] for x in found}

    def both(statements: Sequence[Stmt], ends: Sequence[Stmt] = ()) -> Stmt:
        here = Let("nl_i64", index, form("nl_first + {} * blockDim.x", u))
        return For(u, 0, 2, [here, *ends, *statements], type="int", kind=Kind.UNROLLED)

    def stored(s: Stmt) -> Stmt:
        return ir.Set(held[s.name], s.value, span=s.span) if isinstance(s, Let) and s.name in held and s.value else s

    def of_points(statements: Sequence[Stmt]) -> list[Stmt]:
        return [stored(s) for s in ir.rewritten(statements, held.get)]

    loop: list[Stmt] = [_MANY]
    loop += [_arrays(x for x in found if x.type == kind) for kind in dict.fromkeys(x.type for x in found)]
    for statements in early:
        loop.append(both([If("u < nl_many", of_points(statements))]))
        loop += [wait] if drawn and statements is early[0] else []
    loop.append(both(of_points(work), [when("u >= nl_many", Leave("break"))]))
    *end, one = of_block([replace(points, var=code("nl_first"), body=loop)])
    assert isinstance(one, For)
    return [*end, replace(one, by=form("2 * {}", code(one.by or 1)))]


def _arrays(found: Iterable[Let]) -> Let:
    """Their declarations, as arrays of two, which begin with 0: else registers of the points before are kept."""
    first, *others = (Let(x.type, x.name[code(2)], braces(), const=False) for x in found)
    return replace(first, beside=others)


def in_fours(points: For, pointers: Set[str]) -> list[Stmt]:
    """As in_pairs, four points at a time, which lie a block of threads (a step of the loop) apart; those that are left
    one at a time. Functions, as loops are not unrolled where the text is compiled quickly (nl_each)."""
    inner, index = points.body, points.var
    *until, loop = of_block([points])
    assert isinstance(loop, For)
    begin, end, by = loop.first, loop.end, loop.by
    loaded = _loaded(inner, pointers)
    rest = _without(inner, loaded)
    given, one = (", nl_load_of[nl_n]", ", nl_load(nl_a)") if loaded else ("", "")
    a, n = code("nl_a"), code("nl_n")
    loads: list[Stmt] = [
        Let("nl_load_found", code("nl_load_of[4]")),
        ir.Each(n, 4, [ir.Set(code("nl_load_of[nl_n]"), f"nl_load(nl_a + nl_n * {by})")], ir.Style.BESIDE),
    ]
    work = ir.Each(n, 4, [Do(f"nl_work(nl_a + nl_n * {by}{given})")], ir.Style.BESIDE)
    four, fours = f"nl_a + 3ll * {by} < {end}", f"4 * {by}"
    return [
        *until,
        *(_functions(index, loaded, rest) if loaded else [ir.Closure("nl_work", [Let("nl_i64", index)], rest)]),
        Let("nl_i64", a, begin, const=False),
        For(a, None, None, [*(loads if loaded else []), work], fours, kind=Kind.ONCE, test=four),
        For(a, None, end, [Do(f"nl_work(nl_a{one})")], by, kind=Kind.ONCE),
    ]


def _functions(index: Code, loaded: Sequence[Stmt], rest: Sequence[Stmt]) -> list[Stmt]:
    """The loads of a point, as a function that gives a structure of what the rest reads, and the rest, as one that is
    given it."""
    found, point, kind = _read(loaded, rest), Let("nl_i64", index), "nl_load_found"
    result = Leave("return", braces(*(x.name for x in found), type=kind))
    copies = [Let(x.type, x.name, code(f"nl_load_of.{x.name}"), const=False) for x in found]
    return [
        ir.Struct(f"struct {kind}", [Let(x.type, x.name) for x in found]),
        ir.Closure("nl_load", [point], [*loaded, result]),
        ir.Closure("nl_work", [point, Let(f"const {kind} &", code("nl_load_of"))], [*copies, *rest]),
    ]


def _read(own: Sequence[Stmt], later: Sequence[Stmt]) -> list[Let]:
    """Declarations that are read later."""
    read = ir.names_of(later)
    return [x for x in own if isinstance(x, Let) and x.name.text in read]


def _without(statements: Sequence[Stmt], others: Sequence[Stmt]) -> list[Stmt]:
    return [x for x in statements if not any(x is y for y in others)]


def _loaded(statements: Sequence[Stmt], pointers: Set[str]) -> list[Stmt]:
    """The loads, and earlier declarations that depend on no assigned value."""
    changed: set[str] = set()
    found: list[Stmt] = []
    last = 0
    for x in statements:
        if isinstance(x, Let) and x.value is not None and not code(x.value).names & changed:
            found.append(x)
            last = len(found) if code(x.value).names & pointers else last
            continue
        for inside in ir.walk([x]):
            if isinstance(inside, Let):
                changed |= inside.name.names
            elif isinstance(inside, ir.Set):
                changed |= inside.target.names if isinstance(inside.target, Variable) else set()
    return found[:last]

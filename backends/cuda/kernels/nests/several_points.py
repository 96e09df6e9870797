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

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import backends.kernel_ir.stmt as ir
from backends.cuda.kernels.kernel import of_block
from backends.kernel_ir.expr import braces, code, form
from backends.kernel_ir.stmt import Do, For, Kind, Let, Stmt, when
from backends.kernel_ir.tree import Code, Variable


@dataclass(frozen=True)
class _Stage:
    """What is computed for several points before the rest: its declarations that what is `later` reads become a
    structure."""

    name: str
    own: Sequence[Stmt]
    later: Sequence[Stmt]

    @property
    def declared(self) -> list[Let]:
        read = ir.names_of(self.later)
        return [x for x in self.own if isinstance(x, Let) and x.name.text in read]

    def copies(self) -> list[Let]:
        """The declarations again, from the structure."""
        return [Let(x.type, x.name, code(f"nl_{self.name}_of.{x.name}"), const=False) for x in self.declared]


def in_pairs(points: For, wait: Do, pointers: Set[str]) -> list[Stmt]:
    """A loop over points by threads, of which each takes two at a time."""
    inner, index = points.body, points.var
    drawn = list(inner).index(wait) if wait in inner else 0
    rest = inner[drawn + 1 if drawn else 0 :]
    first = _loaded(rest, pointers)
    stages = [_Stage("draw", inner[:drawn], rest)] if drawn else []
    stages += [_Stage("load", first, _without(rest, first))] if first else []
    made = [x for n in range(len(stages)) for x in _stage(stages[: n + 1], index)]
    loop: list[Stmt] = [
        Let("nl_i64", code("nl_b"), code("nl_a + blockDim.x")),
        Let("bool", code("nl_two"), code("nl_b < nl_end")),
    ]
    for n, stage in enumerate(stages):
        a, b = ("".join(f", nl_{x.name}_{p}" for x in stages[:n]) for p in "ab")
        found = f"nl_{stage.name}_found"
        loop += [
            Let(found, code(f"nl_{stage.name}_a"), f"nl_{stage.name}(nl_a{a})"),
            Let(found, code(f"nl_{stage.name}_b"), f"nl_{stage.name}_a", const=False),
            when("nl_two", ir.Set(code(f"nl_{stage.name}_b"), f"nl_{stage.name}(nl_b{b})")),
            *([wait] if stage.name == "draw" else []),
        ]
    a, b = ("".join(f", nl_{x.name}_{p}" for x in stages) for p in "ab")
    loop += [Do(f"nl_work(nl_a{a})"), when("nl_two", Do(f"nl_work(nl_b{b})"))]
    *end, one = of_block([replace(points, var=code("nl_a"), body=loop)])
    assert isinstance(one, For)
    return [*end, *made, _work(stages, rest, index), replace(one, by=form("2 * {}", code(one.by or 1)))]


def in_fours(points: For, pointers: Set[str]) -> list[Stmt]:
    """As in_pairs, four points at a time, which lie a block of threads (a step of the loop) apart; those that are left
    one at a time."""
    inner, index = points.body, points.var
    *until, loop = of_block([points])
    assert isinstance(loop, For)
    begin, end, by = loop.first, loop.end, loop.by
    first = _loaded(inner, pointers)
    stages = [_Stage("load", first, _without(inner, first))] if first else []
    given, one = (", nl_load_of[nl_n]", ", nl_load(nl_a)") if stages else ("", "")
    a, n = code("nl_a"), code("nl_n")
    loads: list[Stmt] = [
        Let("nl_load_found", code("nl_load_of[4]")),
        ir.Each(n, 4, [ir.Set(code("nl_load_of[nl_n]"), f"nl_load(nl_a + nl_n * {by})")], ir.Style.BESIDE),
    ]
    work = ir.Each(n, 4, [Do(f"nl_work(nl_a + nl_n * {by}{given})")], ir.Style.BESIDE)
    four, fours = f"nl_a + 3ll * {by} < {end}", f"4 * {by}"
    return [
        *until,
        *(_stage(stages, index) if stages else []),
        _work(stages, inner, index),
        Let("nl_i64", a, begin, const=False),
        For(a, None, None, [*(loads if stages else []), work], fours, kind=Kind.ONCE, test=four),
        For(a, None, end, [Do(f"nl_work(nl_a{one})")], by, kind=Kind.ONCE, style=ir.Style.BESIDE),
    ]


def _work(stages: Sequence[_Stage], inner: Sequence[Stmt], index: Code) -> Stmt:
    """The rest, as a function of the point and of what the stages found."""
    rest = _without(inner, [x for stage in stages for x in stage.own])
    body = [*(x for stage in stages for x in stage.copies()), *rest]
    return ir.Closure("nl_work", _given(stages, index), body)


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


def _given(stages: Sequence[_Stage], index: Code) -> list[Let]:
    return [Let("nl_i64", index), *(Let(f"const nl_{x.name}_found &", code(f"nl_{x.name}_of")) for x in stages)]


def _stage(stages: Sequence[_Stage], index: Code) -> list[Stmt]:
    """The results of the last stage for a point, as a structure, and the function that computes it."""
    *before, last = stages
    used, found = ir.names_of(last.own), f"nl_{last.name}_found"
    copies = [x for stage in before for x in stage.copies() if x.name.text in used]
    result = ir.Leave("return", braces(*(x.name for x in last.declared), type=found))
    return [
        ir.Struct(f"struct {found}", [Let(x.type, x.name) for x in last.declared]),
        ir.Closure(f"nl_{last.name}", _given(before, index), [*copies, *last.own, result]),
    ]

"""two_per_thread: maps whose threads process two points at a time, so that the loads of both overlap.

Assumes: the statements of one point (cprint.Body): declarations, assignments, stores at the end; points of a thread
share no element.
Guarantees: the same operations in the same order for each point. Random numbers are drawn for both points before
preceding kernels have ended, if they are drawn first (`wait` follows them); then both points are loaded, then
processed. Compilers do not move loads across stores to possibly aliased arrays.
Does not: change the statements.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from backends.kernel_ir import stmt
from backends.kernel_ir.expr import Code, code, form, name
from backends.kernel_ir.stmt import Block, Do, For, Kind, Let, Stmt, Text, names_of, walk


@dataclass(frozen=True)
class _Stage:
    """What is computed for both points before the rest: its declarations become a structure."""

    name: str
    own: Sequence[Stmt]

    @property
    def declared(self) -> list[Let]:
        return [x for x in self.own if isinstance(x, Let)]

    def copies(self) -> list[Let]:
        """The declarations again, from the structure."""
        return [Let(x.type, x.name, form("nl_{}_of.{}", self.name, x.name), const=False) for x in self.declared]


def in_pairs(inner: Sequence[Stmt], index: Code, wait: Do, pointers: Set[str]) -> list[Stmt]:
    """The loop over the points of a block, from `nl_me.part * nl_t.chunk` to `nl_end`; `index`: the name of the point
    in `inner`."""
    drawn = list(inner).index(wait) if wait in inner else 0
    rest = inner[drawn + 1 if drawn else 0 :]
    first = _loaded(rest, pointers)
    stages = [_Stage("draw", inner[:drawn])] if drawn else []
    stages += [_Stage("load", first)] if first else []
    made = [x for n in range(len(stages)) for x in _stage(stages[: n + 1], index)]
    loop: list[Stmt] = [
        Let("nl_i64", code("nl_b"), code("nl_a + blockDim.x")),
        Let("bool", code("nl_two"), code("nl_b < nl_end")),
    ]
    for n, stage in enumerate(stages):
        a, b = ("".join(f", nl_{x.name}_{p}" for x in stages[:n]) for p in "ab")
        found = f"nl_{stage.name}_found"
        loop += [
            Do(f"const {found} nl_{stage.name}_a = nl_{stage.name}(nl_a{a})"),
            Do(f"{found} nl_{stage.name}_b = nl_{stage.name}_a"),
            Do(f"if (nl_two) nl_{stage.name}_b = nl_{stage.name}(nl_b{b})"),
            *([wait] if stage.name == "draw" else []),
        ]
    a, b = ("".join(f", nl_{x.name}_{p}" for x in stages) for p in "ab")
    loop += [Do(f"nl_work(nl_a{a})"), Do(f"if (nl_two) nl_work(nl_b{b})")]
    points = For(
        code("nl_a"), "nl_me.part * nl_t.chunk + threadIdx.x", "nl_end", loop, "2 * blockDim.x", kind=Kind.ONCE
    )
    return [*made, _work(stages, rest, index), points]


def in_fours(inner: Sequence[Stmt], index: Code, pointers: Set[str]) -> list[Stmt]:
    """As in_pairs, four points at a time, which lie a block of threads apart; those that are left one at a time."""
    first = _loaded(inner, pointers)
    stages = [_Stage("load", first)] if first else []
    given, one = (", nl_load_of[nl_n]", ", nl_load(nl_a)") if stages else ("", "")
    loads = [
        Do("nl_load_found nl_load_of[4]"),
        _each("nl_load_of[nl_n] = nl_load(nl_a + nl_n * blockDim.x)"),
    ]
    return [
        *(_stage(stages, index) if stages else []),
        _work(stages, inner, index),
        Do("nl_i64 nl_a = nl_me.part * nl_t.chunk + threadIdx.x"),
        Text(Kind.ONCE),
        Block("for (; nl_a + 3ll * blockDim.x < nl_end; nl_a += 4 * blockDim.x)", [
            *(loads if stages else []),
            _each(f"nl_work(nl_a + nl_n * blockDim.x{given})"),
        ]),
        Text(Kind.ONCE),
        Do(f"for (; nl_a < nl_end; nl_a += blockDim.x) nl_work(nl_a{one})"),
    ]  # fmt: skip


def _each(statement: str) -> Stmt:
    return Do(form("{}<4>([&](int nl_n) {{ {}; }})", name("nl_each"), statement))


def _work(stages: Sequence[_Stage], inner: Sequence[Stmt], index: Code) -> Stmt:
    """The rest, as a function of the point and of what the stages found."""
    before = [x for stage in stages for x in stage.own]
    rest = [x for x in inner if not any(x is y for y in before)]
    body = [*(x for stage in stages for x in stage.copies()), *rest]
    return Block(f"const auto nl_work = [&](nl_i64 {index}{_given(stages)})", body, "};")


def _loaded(statements: Sequence[Stmt], pointers: Set[str]) -> list[Stmt]:
    """The loads, and earlier declarations that depend on no assigned value."""
    changed: set[str] = set()
    found: list[Stmt] = []
    last = 0
    for x in statements:
        if isinstance(x, Let) and x.value is not None and not x.value.names & changed:
            found.append(x)
            last = len(found) if x.value.names & pointers else last
            continue
        for inside in walk([x]):
            if isinstance(inside, Let):
                changed |= inside.name.names
            elif isinstance(inside, stmt.Set):
                changed |= inside.target.names if inside.target.text in inside.target.names else set()
    return found[:last]


def _given(stages: Sequence[_Stage]) -> str:
    return "".join(f", const nl_{x.name}_found &nl_{x.name}_of" for x in stages)


def _stage(stages: Sequence[_Stage], index: Code) -> list[Stmt]:
    """The results of the last stage for a point, as a structure, and the function that computes it."""
    *before, last = stages
    used, found = names_of(last.own), f"nl_{last.name}_found"
    copies = [x for stage in before for x in stage.copies() if x.name.text in used]
    result = Do(f"return {found}{{{', '.join(x.name.text for x in last.declared)}}}")
    return [
        Block(f"struct {found}", [Text(f"{x.type} {x.name};") for x in last.declared], "};"),
        Block(f"const auto nl_{last.name} = [&](nl_i64 {index}{_given(before)})", [*copies, *last.own, result], "};"),
    ]

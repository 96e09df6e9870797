"""two_per_thread: maps whose threads process two points at a time, so that the loads of both overlap.

Assumes: the lines of one point (cprint.Body): declarations, assignments, stores at the end; points of a thread share no
element.
Guarantees: the same operations in the same order for each point. Random numbers are drawn for both points before
preceding kernels have ended, if they are drawn first (`wait` follows them); then both points are loaded, then
processed. Compilers do not move loads across stores to possibly aliased arrays.
Does not: interpret the lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from backends.c_family.cprint import Line, indent

_DECLARED = re.compile(r"(?:const )?(\w+) (\w+) = (.*);")
_TARGET = re.compile(r"(?:(?:const )?\w+ )?(\w+) (?:=|\+=) ")


def in_pairs(inner: Sequence[Line], index: str, wait: Line, pointers: Set[str]) -> list[Line]:
    """The loop over the points of a block, from `nl_me.part * nl_t.chunk` to `nl_end`; `index`: the name of the point
    in `inner`."""
    drawn = list(inner).index(wait) if wait in inner else 0
    rest = inner[drawn + 1 if drawn else 0 :]
    first = _loaded(rest, pointers)
    stages = [("draw", inner[:drawn])] if drawn else []
    stages += [("load", [rest[n] for n in first])] if first else []
    lines = [x for n in range(len(stages)) for x in _stage(stages[: n + 1], index)]
    tail = [x for n, x in enumerate(rest) if n not in first]
    lines += [
        Line(f"const auto nl_work = [&](nl_i64 {index}{_given(stages)}) {{"),
        *indent([line for name, own in stages for line in _copies(name, own)]),
        *indent(tail),
        Line("};"),
        Line("#pragma unroll 1"),
        Line("for (nl_i64 nl_a = nl_me.part * nl_t.chunk + threadIdx.x; nl_a < nl_end; nl_a += 2 * blockDim.x) {"),
        Line("const nl_i64 nl_b = nl_a + blockDim.x;", 1),
        Line("const bool nl_two = nl_b < nl_end;", 1),
    ]
    for n, (name, _) in enumerate(stages):
        args = ["".join(f", nl_{x}_{p}" for x, _ in stages[:n]) for p in "ab"]
        lines += [
            Line(f"const nl_{name}_found nl_{name}_a = nl_{name}(nl_a{args[0]});", 1),
            Line(f"nl_{name}_found nl_{name}_b = nl_{name}_a;", 1),
            Line(f"if (nl_two) nl_{name}_b = nl_{name}(nl_b{args[1]});", 1),
            *([Line(wait.text, 1)] if name == "draw" else []),
        ]
    args = ["".join(f", nl_{x}_{p}" for x, _ in stages) for p in "ab"]
    return [
        *lines,
        Line(f"nl_work(nl_a{args[0]});", 1),
        Line(f"if (nl_two) nl_work(nl_b{args[1]});", 1),
        Line("}"),
    ]


def in_fours(inner: Sequence[Line], index: str, pointers: Set[str]) -> list[Line]:
    """As in_pairs, four points at a time, which lie a block of threads apart; those that are left one at a time."""
    first = _loaded(inner, pointers)
    stages = [("load", [inner[n] for n in first])] if first else []
    each, one = (", nl_load_of[nl_n]", ", nl_load(nl_a)") if stages else ("", "")
    several = [
        Line("nl_load_found nl_load_of[4];", 1),
        Line("nl_each<4>([&](int nl_n) { nl_load_of[nl_n] = nl_load(nl_a + nl_n * blockDim.x); });", 1),
    ]
    return [
        *(_stage(stages, index) if stages else []),
        Line(f"const auto nl_work = [&](nl_i64 {index}{_given(stages)}) {{"),
        *indent([line for name, own in stages for line in _copies(name, own)]),
        *indent([x for n, x in enumerate(inner) if n not in first]),
        Line("};"),
        Line("nl_i64 nl_a = nl_me.part * nl_t.chunk + threadIdx.x;"),
        Line("#pragma unroll 1"),
        Line("for (; nl_a + 3ll * blockDim.x < nl_end; nl_a += 4 * blockDim.x) {"),
        *(several if stages else []),
        Line(f"nl_each<4>([&](int nl_n) {{ nl_work(nl_a + nl_n * blockDim.x{each}); }});", 1),
        Line("}"),
        Line("#pragma unroll 1"),
        Line(f"for (; nl_a < nl_end; nl_a += blockDim.x) nl_work(nl_a{one});"),
    ]


def _loaded(lines: Sequence[Line], pointers: Set[str]) -> list[int]:
    """The loads, and earlier lines that depend on no assigned value."""
    changed: set[str] = set()
    found: list[int] = []
    last = -1
    for n, x in enumerate(lines):
        declared = _DECLARED.fullmatch(x.text)
        words = set(re.findall(r"\w+", declared[3] if declared else x.text))
        if declared and x.depth == 0 and not words & changed:
            found.append(n)
            last = n if words & pointers else last
        elif target := _TARGET.match(x.text):
            changed.add(target[1])
    return [n for n in found if n <= last]


def _declared(lines: Sequence[Line]) -> list[tuple[str, str]]:
    """(type, name) of the declarations in the lines."""
    return [(m[1], m[2]) for x in lines if (m := _DECLARED.fullmatch(x.text))]


def _given(stages: Sequence[tuple[str, Sequence[Line]]]) -> str:
    return "".join(f", const nl_{name}_found &nl_{name}_of" for name, _ in stages)


def _copies(name: str, lines: Sequence[Line]) -> list[Line]:
    return [Line(f"{kind} {x} = nl_{name}_of.{x};") for kind, x in _declared(lines)]


def _stage(stages: Sequence[tuple[str, Sequence[Line]]], index: str) -> list[Line]:
    """The results of the last stage for a point, as a structure, and the function that computes it."""
    *before, (name, own) = stages
    found = _declared(own)
    used = {w for x in own for w in re.findall(r"\w+", x.text)}
    copies = [x for stage in before for x in _copies(*stage) if _declared([x])[0][1] in used]
    return [
        Line(f"struct nl_{name}_found {{"),
        *(Line(f"{kind} {x};", 1) for kind, x in found),
        Line("};"),
        Line(f"const auto nl_{name} = [&](nl_i64 {index}{_given(before)}) {{"),
        *indent([*copies, *own, Line(f"return nl_{name}_found{{{', '.join(x for _, x in found)}}};")]),
        Line("};"),
    ]

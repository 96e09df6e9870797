"""The functions of backends/device that a text calls, with their dependences, and no others.

Assumes: the layout of backends/device/*.h: branches for CUDA, OpenCL C and C where they differ, definitions that begin
with `NL_FN` in the first column and end with a `}` in the first column or on the same line, comments before the
definition they describe.
Guarantees: `select(names)` is closed under calls and keeps the order of the headers; equal names give equal text.
The definitions are those that the `target`'s compiler takes.
Does not: define NL_FN or the integer types (the texts that it is pasted into do).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from backends.device import source

Target = Literal["c", "cuda", "opencl"]

_NAME = re.compile(r"\b(nl_\w+)\s*\(")


@dataclass(frozen=True)
class Snippet:
    """One function: its comment and definition, and the functions it calls."""

    name: str
    text: str
    calls: frozenset[str]


def _branch(text: str, target: Target) -> str:
    """The text without preprocessor lines and without the branches of the other compilers."""
    kept: list[str] = []
    taken = ours = in_branches = False
    for line in text.split("\n"):
        if line.startswith("#if defined(__CUDACC__)"):
            in_branches, taken = True, target == "cuda"
            ours = taken
        elif line.startswith(("#elif defined(__OPENCL_VERSION__)", "#else")) and in_branches:
            ours = not taken and (target == "opencl" or line == "#else")
            taken = taken or ours
        elif line.startswith("#endif"):
            in_branches = False
        elif (ours or not in_branches) and not line.startswith("#"):
            kept.append(line)
    return _for_opencl("\n".join(kept)) if target == "opencl" else "\n".join(kept)


def _for_opencl(text: str) -> str:
    """`long` has 64 bits there and `long long` more; `half` is a type; tables lie in an address space of their own."""
    text = re.sub(r"(?<=[0-9A-Fa-f])ull\b", "ul", re.sub(r"\bhalf\b", "halved", text))
    return re.sub(r"const (float|double) \*table", r"__global const \1 *table", text)


@cache
def snippets(target: Target = "c") -> tuple[Snippet, ...]:
    """All functions of math.h, then of philox.h, rings.h and tables.h."""
    found: list[Snippet] = []
    for text in (source("math"), source("philox"), source("rings"), source("tables")):
        comment: list[str] = []
        body: list[str] = []
        in_comment = False
        for line in _branch(text, target).split("\n"):
            if body:
                body.append(line)
            elif in_comment or line.startswith("/*"):
                comment = [*comment, line] if in_comment else [line]
                in_comment = not line.rstrip().endswith("*/")
                if line.startswith("/* ----"):
                    comment = []
                continue
            elif line.startswith("NL_FN"):
                body = [line]
            else:
                comment = [] if not line.strip() else comment
                continue
            if line.rstrip().endswith("}") and (len(body) == 1 or line.startswith("}")):
                whole = "\n".join(body)
                names = _NAME.findall(whole)
                shown = "\n".join([*comment, whole])
                found.append(Snippet(names[0], shown, frozenset(names[1:])))
                comment, body = [], []
    return tuple(found)


@cache
def known(target: Target = "c") -> frozenset[str]:
    """The names that `select` takes."""
    return frozenset(s.name for s in snippets(target))


def select(names: Iterable[str], target: Target = "c") -> str:
    """The definitions of `names` and of all their callees. Raises KeyError for an unknown name."""
    by_name = {s.name: s for s in snippets(target)}
    wanted: set[str] = set()
    stack = list(names)
    while stack:
        name = stack.pop()
        if name in wanted:
            continue
        if name not in by_name:
            raise KeyError(f"backends/device has no function {name}")
        wanted.add(name)
        stack.extend(by_name[name].calls)
    return "\n".join(s.text for s in snippets(target) if s.name in wanted)

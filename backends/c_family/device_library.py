"""The functions of backends/device that a text calls, with their dependences, and no others.

Assumes: the layout of backends/device/*.h: one C branch under `#else` for differences from CUDA, definitions that begin
with `NL_FN` in the first column and end with a `}` in the first column or on the same line, comments before the
definition they describe.
Guarantees: `select(names)` is closed under calls and keeps the order of the headers; equal names give equal text.
With `cuda`, the definitions are those of the branch that CUDA compiles.
Does not: define NL_FN or the integer types (the texts that it is pasted into do).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from backends.device import source

_LONG = frozenset({"nl_poisson_f64"})
_NAME = re.compile(r"\b(nl_\w+)\s*\(")


@dataclass(frozen=True)
class Snippet:
    """One function: its comment and definition, and the functions it calls."""

    name: str
    text: str
    calls: frozenset[str]


def _branch(text: str, cuda: bool) -> str:
    """The text without preprocessor lines and without the branch of the other compiler."""
    kept: list[str] = []
    skipping = False
    in_branches = False
    for line in text.split("\n"):
        if line.startswith("#if defined(__CUDACC__)"):
            in_branches, skipping = True, not cuda
        elif line.startswith("#else") and in_branches:
            skipping = cuda
        elif line.startswith("#endif"):
            in_branches = skipping = False
        elif not skipping and not line.startswith("#"):
            kept.append(line)
    return "\n".join(kept)


@cache
def snippets(cuda: bool = False) -> tuple[Snippet, ...]:
    """All functions of math.h, then of philox.h, rings.h and tables.h."""
    found: list[Snippet] = []
    for text in (source("math"), source("philox"), source("rings"), source("tables")):
        comment: list[str] = []
        body: list[str] = []
        in_comment = False
        for line in _branch(text, cuda).split("\n"):
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
def known(cuda: bool = False) -> frozenset[str]:
    """The names that `select` takes."""
    return frozenset(s.name for s in snippets(cuda))


def select(names: Iterable[str], cuda: bool = False) -> str:
    """The definitions of `names` and of all their callees. Raises KeyError for an unknown name."""
    by_name = {s.name: s for s in snippets(cuda)}
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
    return "\n".join(_apart(s) if cuda else s.text for s in snippets(cuda) if s.name in wanted)


def _apart(s: Snippet) -> str:
    """On CUDA long functions are not inlined, so that their callers need fewer registers."""
    return s.text.replace("NL_FN", "NL_PART", 1) if s.name in _LONG else s.text

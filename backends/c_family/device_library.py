"""The functions of backends/device that a text calls, with their dependences, and no others; and what else files of all
targets have.

Assumes: the layout of backends/device/*.h: branches for CUDA, OpenCL C and C where they differ, definitions that begin
with `NL_FN` in the first column and end with a `}` in the first column or on the same line, comments before the
definition they describe.
Guarantees: `select(names)` is closed under calls and keeps the order of the headers; equal names give equal text.
The definitions are those that the `target`'s compiler takes.
Does not: define NL_FN or the integer types (the texts that it is pasted into do).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import compiler.ir.level2.program as l2
from backends.c_family.source_map import Printed, comment, fixed_order
from backends.device import source
from compiler.ir.space import DType

Target = Literal["c", "cuda", "opencl"]

_INF, _NAN = "0x7ff0000000000000", "0x7ff8000000000000"
_CONSTANTS: Final[Mapping[str, Mapping[Target, str]]] = {
    "NL_INF_F32": {"c": "__builtin_inff()", "cuda": "__int_as_float(0x7f800000)", "opencl": "as_float(0x7f800000u)"},
    "NL_INF_F64": {"c": "__builtin_inf()", "cuda": f"__longlong_as_double({_INF})", "opencl": f"as_double({_INF})"},
    "NL_NAN_F32": {"c": '__builtin_nanf("")', "cuda": "__int_as_float(0x7fc00000)", "opencl": "as_float(0x7fc00000u)"},
    "NL_NAN_F64": {"c": '__builtin_nan("")', "cuda": f"__longlong_as_double({_NAN})", "opencl": f"as_double({_NAN})"},
}
_NAME = re.compile(r"\b(nl_\w+)\s*\(")
_OF_REALS = re.compile(r"NL_FN (?:float|double) nl_\w+\((?:(?:float|double) \w+(?:, )?)+\) {")


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
    # tables lie in an address space of their own there
    return re.sub(r"(?=const \w+ \*table)", "__global " if target == "opencl" else "", "\n".join(kept))


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


def file_names(
    program: l2.Merged, kernels: Printed, words: frozenset[str], target: Target, shared: Set[str] = frozenset()
) -> dict[str, Any]:
    """What the skeletons of files of all targets read of a program and its kernels, which name `words`; `shared`:
    functions that are no copies in each (backends/cpu/kernels/shared_functions.py)."""
    return {
        "title": comment(f"{program.name}: {program.precision} arithmetic, {program.order} order of sums"),
        "real": "double" if program.precision == DType.F64 else "float",
        "fixed_order": fixed_order(program),
        "words": words,
        "device": select(sorted(words & known(target)), target, shared),
        "constants": [f"#define {name} {of[target]}" for name, of in _CONSTANTS.items() if name in words],
        "kernel_text": kernels.text,
    }


@cache
def known(target: Target = "c") -> frozenset[str]:
    """The names that `select` takes."""
    return frozenset(s.name for s in snippets(target))


def select(names: Iterable[str], target: Target = "c", shared: Set[str] = frozenset()) -> str:
    """The definitions of `names` and of all their callees; those of `shared` begin with NL_SHARED. Raises KeyError for
    an unknown name."""
    wanted = _closed(names, target)
    found = ((s, "NL_SHARED " if s.name in shared else "NL_FN ") for s in snippets(target) if s.name in wanted)
    return "\n".join(re.sub("^NL_FN ", kind, s.text, flags=re.MULTILINE) for s, kind in found)


@cache
def long_functions(least: int) -> frozenset[str]:
    """Functions of real numbers alone that have, with all their callees, at least so many lines."""
    lines = {s.name: s.text.count("\n") + 1 for s in snippets()}
    found = (s.name for s in snippets() if _OF_REALS.search(s.text))
    return frozenset(name for name in found if sum(lines[x] for x in _closed([name], "c")) >= least)


def _closed(names: Iterable[str], target: Target) -> set[str]:
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
    return wanted

"""Rows of synapses as their rules draw them, by a thread that has whole rows: connecting, and drawing a row again.

Assumes: formals as compiler/ir/level2/program.py names them; a backend's `render` finds the skeletons of this package
and its own `rows.c.j2`, which says how threads share rows.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events, or choose rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.connect_template_args import file_of, formal_names, given, lines_of, names_again
from backends.c_family.cprint import Line
from compiler.connect import numbered

Render = Callable[..., str]
"""The text of a skeleton: its file, and names."""

_NUMBERED: Final = frozenset({"nl__draw", "nl__shuffle_rounds", "nl__shuffled"})
_DRAWN: Final = frozenset({"nl__draw"})


def _uses(rule: str) -> frozenset[str]:
    """Functions of backends/device that the skeleton of a rule calls."""
    if (found := numbered(rule)) is not None:
        return _NUMBERED if found.pools else frozenset()
    return _DRAWN if rule in ("fixed_probability", "rewire") else frozenset()


def skeleton(k: Kernel, render: Render, file: str, **more: object) -> list[Line]:
    """A skeleton with the names of the kernel's formals."""
    return lines_of(render(file, f=formal_names(k), real=k.dialect.real, name=k.template.name, **more))


def connect(k: Kernel, c: l2.Connect, render: Render) -> list[Line]:
    """One stage of one rule; the draws are those of backends/reference."""
    k.printer.used |= _uses(c.rule)
    return skeleton(k, render, f"{file_of(c)}.c.j2", stage=c.stage, **given(k, c))


def row_again(k: Kernel, p: l2.Procedural, render: Render) -> list[Line]:
    """The row of source `i` as its rule draws it: the skeleton of connecting, at the stage "walk"."""
    k.printer.used |= _uses(p.rule)
    rule = l2.Connect(p.rule, "walk", p.probability)
    names = names_again(k, p)
    return lines_of(render(f"{file_of(rule)}.c.j2", f=names, real=k.dialect.real, stage="walk", **given(k, rule)))

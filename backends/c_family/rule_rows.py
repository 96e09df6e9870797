"""Rows of synapses as their rules draw them: connecting, and drawing a row again.

Assumes: formals as compiler/ir/level2/program.py names them; a backend's `render` finds the skeletons of this package
and its own: `rows.c.j2`, which says how threads share rows, or those with an ending of its own.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events, or choose rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.connect_template_args import file_of, formal_names, given, names_again
from backends.c_family.cprint import Line

Render = Callable[..., str]
"""The text of a skeleton: its file, and names."""


def skeleton(
    k: Kernel, render: Render, file: str, names: Mapping[str, str] | None = None, **more: object
) -> list[Line]:
    """A skeleton with the names of the kernel's formals, and the functions of backends/device that it calls."""
    text = render(file, f=names or formal_names(k), real=k.dialect.real, name=k.template.name, **more)
    k.printer.used |= set(re.findall(r"\bnl__\w+", text))
    return [Line(t.lstrip(), (len(t) - len(t.lstrip())) // 4) if t.strip() else Line("") for t in text.splitlines()]


def connect(k: Kernel, c: l2.Connect, render: Render, ending: str = "c") -> list[Line]:
    """One stage of one rule; the draws are those of backends/reference."""
    return skeleton(k, render, f"{file_of(c)}.{ending}.j2", stage=c.stage, **given(k, c))


def row_again(k: Kernel, p: l2.Procedural, render: Render, ending: str = "c") -> list[Line]:
    """The row of source `i` as its rule draws it: the skeleton of connecting, at the stage "walk"."""
    rule = l2.Connect(p.rule, "walk", p.probability)
    return skeleton(k, render, f"{file_of(rule)}.{ending}.j2", names_again(k, p), stage="walk", **given(k, rule))

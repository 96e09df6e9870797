"""Rows of synapses as their rules draw them: connecting, and drawing a row again.

Assumes: formals as compiler/ir/level2/program.py names them; the skeletons of a backend are those of this package and
its own: `rows.c.j2`, which says how threads share rows, or those with an ending of its own.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events, or choose rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jinja2 import Environment

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.connect_template_args import file_of, formal_names, given
from backends.c_family.skeletons import OWN, frame
from backends.kernel_ir.expr import name
from backends.kernel_ir.stmt import Frame, Stmt
from backends.kernel_ir.tree import Code


def skeleton(k: Kernel, skeletons: Environment, file: str) -> Frame:
    """A skeleton with the names of the kernel's formals."""
    return frame(skeletons, file, {"f": formal_names(k)})


def connect(k: Kernel, c: l2.Connect, skeletons: Environment, ending: str = "c") -> Frame:
    """One stage of one rule; the draws are those of backends/reference."""
    names = {"f": formal_names(k), "stage": c.stage, **given(k, c, name)}
    return frame(skeletons, f"{file_of(c)}.{ending}.j2,{file_of(c)}.c.j2", names)


def row_again(
    k: Kernel,
    p: l2.Procedural,
    skeletons: Environment,
    names: Mapping[str, Code],
    holes: Mapping[str, Sequence[Stmt]],
    ending: str = "c",
) -> Frame:
    """The row of source `i` as its rule draws it: the skeleton of connecting, at the stage "walk". `names`: what some
    of its own variables are called; the others get new names."""
    known = dict(names)

    def own(word: str) -> Code:
        if word in OWN and word not in known:
            known[word] = k.namer.fresh(word)
        return known.get(word) or name(word)

    rule = l2.Connect(p.rule, "walk", p.probability)
    formals = formal_names(k)  # as when it connects
    formals |= {"key": formals["connect_key"], "row": k.pointers[p.row]}
    arguments = {"f": formals, "stage": "walk", **given(k, rule, own)}
    return frame(skeletons, f"{file_of(rule)}.{ending}.j2", arguments, holes, own)

"""Rows of synapses as their rules draw them: connecting, and drawing a row again.

Assumes: formals as compiler/ir/level2/program.py names them; the skeletons of a backend are those of this package and
its own: `rows.c.j2`, which says how threads share rows, or those with an ending of its own.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events, or choose rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import Environment

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Symbol, type_of
from backends.c_family.skeletons import OWN, frame
from backends.kernel_ir.expr import cast, name
from backends.kernel_ir.stmt import Frame, Stmt
from backends.kernel_ir.tree import NONE, Code, Printed
from compiler.connect import RULE, drawing_of
from compiler.connect.drawing import Numbered, Passing
from compiler.expr.ast import Expr, Unary, refs
from compiler.ir.space import DType


def _file_of(c: l2.Connect) -> str:
    """The skeleton of one stage of one rule, without its ending."""
    if c.stage == "scan":
        return "connect_scan"
    match drawing_of(c.rule):
        case Numbered():
            return "connect_numbered"
        case Passing():
            return "connect_passing"
    return f"connect_{c.rule}"


Own = Callable[[str], Code]
"""What a skeleton's own variable is called."""


def _scope(k: Kernel, own: Own, *read: Expr | None) -> dict[str, Symbol]:
    """Names of a rule's expressions: integers, `skip` and `holds`."""
    names = set[str]().union(*(refs(e) for e in read if e is not None)) - k.scope.keys()
    return k.scope | {n: Symbol(own(n), "bool" if n in ("skip", "holds") else DType.I64) for n in sorted(names)}


def _numbered(k: Kernel, x: Numbered, own: Own) -> dict[str, Any]:
    """Arguments of the skeleton of numbered connections."""
    scope = _scope(k, own, x.owners, x.each, x.source, x.target, *x.pools)

    def text(e: Expr) -> Code:
        return k.dialect.expr(e, scope, DType.I64)

    found = {name: text(getattr(x, name)) for name in ("owners", "each", "source", "target")}
    reads = refs(x.source) | refs(x.target)
    hole = "skip" in reads.union(*(refs(e) for e in (x.each, *x.pools)))
    return {**found, "owner": x.owner, "pools": [text(p) for p in x.pools], "hole": hole, "reads": reads}


def _passing(k: Kernel, x: Passing, c: l2.Connect, own: Own) -> dict[str, Any]:
    """Arguments of the skeleton of rows that pass over places; `drawn`: whether an expression is a probability;
    `j_read`: whether what tells hits from misses reads the target."""
    scope = _scope(k, own, x.pool, x.step, x.target, x.index, x.at, x.hole or None, x.hit)
    found: dict[str, Any] = {n: k.dialect.expr(getattr(x, n), scope, DType.I64) for n in ("pool", "step", "target")}
    found |= {n: cast("nl_u64", k.dialect.expr(getattr(x, n), scope, DType.I64)) for n in ("index", "at")}
    found["hole"] = k.dialect.expr(x.hole, scope, DType.I64) if x.hole else ""
    found |= {"each": x.each, "table": RULE[c.rule].table is not None, "hit": k.dialect.test(x.hit, scope)}
    found["miss"] = k.dialect.test(Unary("not", x.hit), scope)
    p, drawn, places = c.probability, False, set[str]()
    text: Code = Printed("", NONE)
    if p is not None:
        scope, places = _scope(k, own, p), refs(p)
        drawn = type_of(p, scope, k.dialect.precision) != "bool"
        text = k.dialect.expr(p, scope, k.dialect.precision) if drawn else k.dialect.test(p, scope)
    ends = {f"places_{end}": any(x.endswith(end) for x in places & set(l2.PLACES)) for end in "ij"}
    read = places | refs(x.hit) | (refs(x.hole) if x.hole else set())
    return {**found, **ends, "drawn": drawn, "probability": text, "j_read": "j" in read}


def _given(k: Kernel, c: l2.Connect, own: Own) -> dict[str, Any]:
    """Arguments of the skeleton of a stage of a rule."""
    match drawing_of(c.rule):
        case Numbered() as x if c.stage != "scan":
            return _numbered(k, x, own)
        case Passing() as x if c.stage != "scan":
            return _passing(k, x, c, own)
    return {}


def skeleton(k: Kernel, skeletons: Environment, file: str) -> Frame:
    """A skeleton with the names of the kernel's formals."""
    return frame(skeletons, file, {"f": k.identifiers})


def connect(k: Kernel, c: l2.Connect, skeletons: Environment, ending: str = "c") -> Frame:
    """One stage of one rule; the draws are those of backends/reference."""
    names = {"f": k.identifiers, "stage": c.stage, **_given(k, c, name)}
    return frame(skeletons, f"{_file_of(c)}.{ending}.j2,{_file_of(c)}.c.j2", names)


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
    formals = k.identifiers  # as when it connects
    formals |= {"key": formals["connect_key"], "row": k.pointers[p.row]}
    arguments = {"f": formals, "stage": "walk", **_given(k, rule, own)}
    return frame(skeletons, f"{_file_of(rule)}.{ending}.j2", arguments, holes, own)

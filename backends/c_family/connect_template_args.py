"""Template arguments shared by the C and CUDA emitters: names of formals, the text of an expression rule.

Assumes: formals as compiler/ir/level2/program.py names them.
Guarantees: one reading of a rule for all targets.
Does not: render (each backend has its own skeletons).
"""

from __future__ import annotations

from typing import Any, Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Symbol, type_of
from compiler.connect import RULE, drawing_of
from compiler.connect.drawing import Numbered, Passing
from compiler.expr.ast import Expr, refs
from compiler.ir.space import DType

SYNONYMS: Final = {"list": "spikes", "count": "spike_count"}


def formal_names(k: Kernel) -> dict[str, str]:
    """Identifiers by formal name; `list`/`count` also under their usual synonyms."""
    names = {
        f.name: k.scope[f.name].text if isinstance(f, l2.ScalarFormal) else k.pointers[f.name]
        for f in k.template.formals
    }
    for name, other in SYNONYMS.items():
        if name not in names and other in names:
            names[name] = names[other]
    return names


def names_again(k: Kernel, p: l2.Procedural) -> dict[str, str]:
    """The names for a redrawn row: those of the rule when it connects."""
    names = formal_names(k)
    return names | {"key": names["connect_key"], "row": k.pointers[p.row]}


def file_of(c: l2.Connect) -> str:
    """The skeleton of one stage of one rule, without its ending."""
    if c.stage == "scan":
        return "connect_scan"
    match drawing_of(c.rule):
        case Numbered():
            return "connect_numbered"
        case Passing():
            return "connect_passing"
    return f"connect_{c.rule}"


def _scope(k: Kernel, *more: str) -> dict[str, Symbol]:
    """Names of a rule's expressions: integers, `skip` and `holds`."""
    integers = {n: Symbol(n, DType.I64) for n in ("i", "j", *more)}
    return dict(k.scope) | integers | {n: Symbol(n, "bool") for n in ("skip", "holds")}


def _numbered(k: Kernel, x: Numbered) -> dict[str, Any]:
    """Arguments of the skeleton of numbered connections."""
    scope = _scope(k, "c", "a", "b")

    def text(e: Expr) -> str:
        return k.printer.expr(e, scope, DType.I64)

    found = {name: text(getattr(x, name)) for name in ("owners", "each", "source", "target")}
    reads = refs(x.source) | refs(x.target)
    hole = "skip" in reads.union(*(refs(e) for e in (x.each, *x.pools)))
    return {**found, "owner": x.owner, "pools": [text(p) for p in x.pools], "hole": hole, "reads": reads}


def _passing(k: Kernel, x: Passing, c: l2.Connect) -> dict[str, Any]:
    """Arguments of the skeleton of rows that pass over places; `drawn`: whether an expression is a probability."""
    scope = _scope(k, "c", "n", "a", "b")
    found: dict[str, Any] = {n: k.printer.expr(getattr(x, n), scope, DType.I64) for n in ("pool", "step", "target")}
    found |= {n: k.printer.operand(getattr(x, n), scope, DType.I64) for n in ("index", "at")}
    found["hole"] = k.printer.operand(x.hole, scope, DType.I64) if x.hole else ""
    found |= {"each": x.each, "table": RULE[c.rule].table is not None, "hit": k.printer.test(x.hit, scope)}
    p, drawn, text, places = c.probability, False, "", set[str]()
    if p is not None:
        scope, places = _scope(k, *l2.PLACES), refs(p)
        drawn = type_of(p, scope, k.dialect.precision) != "bool"
        text = k.printer.expr(p, scope, k.dialect.precision) if drawn else k.printer.test(p, scope)
    ends = {f"places_{end}": any(x.endswith(end) for x in places & set(l2.PLACES)) for end in "ij"}
    return {**found, **ends, "drawn": drawn, "probability": text}


def given(k: Kernel, c: l2.Connect) -> dict[str, Any]:
    """Arguments of the skeleton of a stage of a rule."""
    match drawing_of(c.rule):
        case Numbered() as x if c.stage != "scan":
            return _numbered(k, x)
        case Passing() as x if c.stage != "scan":
            return _passing(k, x, c)
    return {}

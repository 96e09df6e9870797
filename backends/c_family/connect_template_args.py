"""Template arguments shared by the C and CUDA emitters: names of formals, the text of an expression rule.

Assumes: formals as compiler/ir/level2/program.py names them.
Guarantees: one reading of a rule for all targets.
Does not: render (each backend has its own skeletons).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Symbol, type_of
from backends.kernel_ir.expr import cast
from backends.kernel_ir.tree import NONE, Code, Printed
from compiler.connect import RULE, drawing_of
from compiler.connect.drawing import Numbered, Passing
from compiler.expr.ast import Expr, Unary, refs
from compiler.ir.space import DType

SYNONYMS: Final = {"list": "spikes", "count": "spike_count"}


def formal_names(k: Kernel) -> dict[str, Code]:
    """Identifiers by formal name; `list`/`count` also under their usual synonyms."""
    names = {
        f.name: k.scope[f.name].code if isinstance(f, l2.ScalarFormal) else k.pointers[f.name]
        for f in k.template.formals
    }
    for name, other in SYNONYMS.items():
        if name not in names and other in names:
            names[name] = names[other]
    return names


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
    """Arguments of the skeleton of rows that pass over places; `drawn`: whether an expression is a probability."""
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
    return {**found, **ends, "drawn": drawn, "probability": text}


def given(k: Kernel, c: l2.Connect, own: Own) -> dict[str, Any]:
    """Arguments of the skeleton of a stage of a rule."""
    match drawing_of(c.rule):
        case Numbered() as x if c.stage != "scan":
            return _numbered(k, x, own)
        case Passing() as x if c.stage != "scan":
            return _passing(k, x, c, own)
    return {}

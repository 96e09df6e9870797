"""Template arguments shared by the C and CUDA emitters: names of formals, the text of an expression rule.

Assumes: formals as compiler/ir/level2/program.py names them.
Guarantees: one reading of a rule for all targets.
Does not: render (each backend has its own skeletons).
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Line, Symbol, type_of
from compiler.connect import numbered
from compiler.connect.drawing import Numbered
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


def lines_of(text: str) -> list[Line]:
    """The lines of a rendered skeleton."""
    return [Line(t.lstrip(), (len(t) - len(t.lstrip())) // 4) if t.strip() else Line("") for t in text.splitlines()]


def file_of(c: l2.Connect) -> str:
    """The skeleton of one stage of one rule, without its ending."""
    return "connect_scan" if c.stage == "scan" else "connect_numbered" if numbered(c.rule) else f"connect_{c.rule}"


def _numbered(k: Kernel, x: Numbered) -> dict[str, object]:
    """Arguments of the skeleton of numbered connections."""
    scope = dict(k.scope) | {n: Symbol(n, DType.I64) for n in ("i", "j", "c", "a", "b")}
    scope["skip"] = Symbol("skip", "bool")

    def text(e: Expr) -> str:
        return k.printer.expr(e, scope, DType.I64)

    found = {name: text(getattr(x, name)) for name in ("owners", "each", "source", "target")}
    reads = refs(x.source) | refs(x.target)
    hole = "skip" in reads.union(*(refs(e) for e in (x.each, *x.pools)))
    return {**found, "owner": x.owner, "pools": [text(p) for p in x.pools], "hole": hole, "reads": reads}


def given(k: Kernel, c: l2.Connect) -> dict[str, object]:
    """Arguments of a rule's skeleton; of an expression: the text over columns, `i`, `j` and their positions."""
    if (found := numbered(c.rule)) is not None and c.stage != "scan":
        return _numbered(k, found)
    if c.probability is None:
        return {}
    scope = dict(k.scope) | {n: Symbol(n, DType.I64) for n in ("i", "j", *l2.PLACES)}
    drawn = type_of(c.probability, scope, k.dialect.precision) != "bool"
    if drawn:
        k.printer.used.add("nl__draw")
    used = refs(c.probability)
    return {
        "drawn": drawn,
        "places_i": bool(used & set(l2.PLACES[:3])),
        "places_j": bool(used & set(l2.PLACES[3:])),
        "probability": k.printer.expr(c.probability, scope, k.dialect.precision)
        if drawn
        else k.printer.test(c.probability, scope),
    }

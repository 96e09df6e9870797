"""lanes: which loops over the points of a nest are carried out as lanes of vectors, and where indices and guards of its
elements are computed: once, in the outermost loop that they depend on.

Assumes: statements of one nest, whose loops over points are told by their kinds; `guards`: by the variable of their
innermost dim ("": they have none), declarations that belong together.
Guarantees: every such loop has a kind that can be printed. The innermost ones are lanes, unless they add to elements of
the kernel's arrays, which points may share; a loop over lanes stays one loop. Guards stand behind the declaration of
their variable, by a loop or as a constant, wherever one of them is used there.
Does not: change bodies, see additions in frames, or choose what is computed apart (nest.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from backends.kernel_ir import stmt
from backends.kernel_ir.stmt import For, Kind, Let, Stmt, Style, changed, names_of, walk
from backends.kernel_ir.tree import Index


def in_lanes(statements: Sequence[Stmt], arrays: Set[str]) -> list[Stmt]:
    """`arrays`: the names of the kernel's pointers."""

    def adds(s: Stmt) -> bool:
        return isinstance(s, stmt.Set) and s.op != "=" and isinstance(s.target, Index) and s.target.array.text in arrays

    def chosen(s: Stmt) -> Stmt:
        if not isinstance(s, For) or s.kind not in (Kind.POINTS, Kind.LANE):
            return s
        apart = not any(isinstance(x, For) or adds(x) for x in walk(s.body))
        if s.kind is Kind.POINTS:
            return replace(s, kind=Kind.LANES if apart else Kind.SERIAL)
        return replace(s, kind=Kind.KEPT_LANES if apart else Kind.KEPT)

    return changed(statements, chosen)


Guards = Mapping[str, Sequence[tuple[Let, ...]]]


def placed(statements: Sequence[Stmt], guards: Guards) -> list[Stmt]:
    """The statements with their guards, the innermost first, which use those further out."""

    def behind(variable: str, inner: Sequence[Stmt]) -> list[Stmt]:
        names = names_of(inner)
        used = (lets for lets in guards.get(variable, ()) if any(x.name.text in names for x in lets))
        return [*(x for lets in used for x in lets), *inner]

    def of_loop(s: Stmt) -> Stmt:
        if not isinstance(s, For):
            return s
        body = list[Stmt]()
        for x in reversed(s.body):
            body = [x, *(behind(x.name.text, body) if isinstance(x, Let) else body)]
        body = behind(s.var.text, body)
        return s if len(body) == len(s.body) else replace(s, body=body, style=Style.BRACES)

    return behind("", changed(statements, of_loop))

"""guards: indices and guards of elements are computed once, in the outermost loop that they depend on.

Assumes: the statements of one nest; `guards`: by the variable of their innermost dim ("": they have none), declarations
that belong together.
Guarantees: they stand behind the declaration of that variable, by a loop or as a constant, wherever one of them is used
there.
Does not: choose what is computed apart (nest.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from backends.kernel_ir.stmt import For, Let, Stmt, Style, changed, names_of

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

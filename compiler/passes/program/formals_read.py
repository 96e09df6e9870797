"""formals_read: the formals of a kernel that its body reads or writes.

Assumes: a legal body; statements name formals, and accesses and relations name columns.
Guarantees: formals that nothing names are left out, in the order of the others. Bodies whose text is a skeleton
(drawings of relations, records, given events) or a strategy keep all of theirs: these say what they are given.
Does not: look at expressions that are never evaluated.
"""

from __future__ import annotations

import compiler.ir.level2.program as l2
from compiler.ir.level2.names import names_in


def formals_read(formals: tuple[l2.Formal, ...], body: l2.Body) -> tuple[l2.Formal, ...]:
    """Those of `formals` that the kernel needs."""
    if not isinstance(body, l2.Nest | l2.Propagate):
        return formals
    named = {*names_in(body), *body.by_name}
    before = -1
    while len(named) > before:  # an access may name the array of its delays
        before = len(named)
        named.update(
            n for f in formals if isinstance(f, l2.ArrayFormal) and f.name in named for n in names_in(f.access)
        )
    found = tuple(f for f in formals if f.name in named)
    return formals if len(found) == len(formals) else found

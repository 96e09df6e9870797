"""formals_read: the formals of a kernel that its body reads or writes.

Assumes: a legal body; statements name formals, and accesses and relations name columns.
Guarantees: formals that nothing names are left out, in the order of the others. Bodies whose text is a skeleton
(drawings of relations, records, given events) or a strategy keep all of theirs: these say what they are given.
Does not: look at expressions that are never evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

import compiler.ir.level2.program as l2
from compiler.expr.ast import Expr, refs


def formals_read(formals: tuple[l2.Formal, ...], body: l2.Body) -> tuple[l2.Formal, ...]:
    """Those of `formals` that the kernel needs."""
    if isinstance(body, l2.Nest):
        named = set(_nest(body))
    elif isinstance(body, l2.Propagate):
        named = {*_statements(body.statements), *_parts(body.events), *_parts(body.relation), *body.by_name}
    else:
        return formals
    arrays = [f for f in formals if isinstance(f, l2.ArrayFormal)]
    before = -1
    while len(named) > before:  # an access may name the array of its delays
        before = len(named)
        for f in arrays:
            if f.name in named:
                named.update(_access(f.access))
    return (
        formals
        if len(named & {f.name for f in formals}) == len(formals)
        else tuple(f for f in formals if f.name in named)
    )


def _nest(nest: l2.Nest) -> Iterator[str]:
    yield from (d.extent for d in nest.dims if isinstance(d.extent, str))
    yield from _statements(nest.statements)
    for term in nest.terms:
        yield from refs(term)
    if nest.blocks is not None and isinstance(nest.blocks.length, str):
        yield nest.blocks.length


def _statements(statements: Iterable[l2.Statement]) -> Iterator[str]:
    for s in statements:
        if isinstance(s, l2.Emit):
            yield from (s.list, s.count, s.slots, *refs(s.when))
        else:
            yield s.target
            yield from refs(s.value)


def _parts(x: l2.Events | l2.Every | l2.Relation) -> Iterator[str]:
    for f in fields(x):
        value = getattr(x, f.name)
        if isinstance(value, str) and f.name != "rule":
            yield value
        elif isinstance(value, Expr):
            yield from refs(value)


def _access(access: l2.Access) -> Iterator[str]:
    if isinstance(access, l2.Strided):
        for axis in access.axes:
            yield from (x for x in (axis.const, axis.extent, axis.stride) if isinstance(x, str))
    elif isinstance(access, l2.At) and access.ring is not None:
        yield from access.ring

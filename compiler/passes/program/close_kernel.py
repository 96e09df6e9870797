"""close_kernel: a kernel's names become text.

Assumes: formals, targets and what expressions read are symbols (compiler/core/symbols.py) or the compiler's own names.
Guarantees: the result has no symbols. The compiler's names are as they were; a symbol is what it looks like, with
underscores where that is a name of the compiler, has a meaning in the body (ir/level2/meanings.py), or is another
symbol; names of the user come before those that are derived, so that they mostly stand as in the model.
Does not: choose identifiers of a target (backends/c_family/names.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import compiler.ir.level2.program as l2
from compiler.core.names import free_name
from compiler.core.symbols import Sym, printed
from compiler.expr.ast import Expr, Ref, refs, rewrite
from compiler.ir.level2.meanings import meanings

Names = Mapping[str, str]


def closed(formals: tuple[l2.Formal, ...], body: l2.Body) -> tuple[tuple[l2.Formal, ...], l2.Body, Names]:
    """The formals and the body without symbols, and what each symbol became."""
    targets = [s.target for s in _statements(body) if isinstance(s, l2.Assign | l2.Add)]
    symbols = dict.fromkeys(n for n in (*(f.name for f in formals), *targets) if isinstance(n, Sym))
    if not symbols:
        return formals, body, {}
    taken = set(meanings(body)).union((f.name for f in formals), targets, *map(refs, _expressions(body)))
    if isinstance(body, l2.Nest):
        taken |= {d.name for d in body.dims} | {*body.accumulators}
    names: dict[str, str] = {}
    for symbol in sorted(symbols, key=lambda s: "'" in s):
        names[symbol] = free_name(printed(symbol), taken)
        taken.add(names[symbol])
    return tuple(_formal(f, names) for f in formals), _body(body, names), names


def _statements(body: l2.Body) -> tuple[l2.Statement, ...]:
    return body.statements if isinstance(body, l2.Propagate | l2.Nest) else ()


def _expressions(body: l2.Body) -> Iterator[Expr]:
    yield from (s.when if isinstance(s, l2.Emit) else s.value for s in _statements(body))
    found = None
    if isinstance(body, l2.Nest):
        yield from body.terms
    elif isinstance(body, l2.Connect):
        found = body.probability
    elif isinstance(body, l2.Propagate) and isinstance(body.relation, l2.Procedural):
        found = body.relation.probability
    if found is not None:
        yield found


def _formal(f: l2.Formal, names: Names) -> l2.Formal:
    name = names.get(f.name, f.name)
    if isinstance(f, l2.ScalarFormal):
        return f if name == f.name else l2.ScalarFormal(name, f.dtype, f.unit)
    access = f.access
    if isinstance(access, l2.Strided):
        access = l2.Strided(tuple(_axis(a, names) for a in access.axes))
    elif isinstance(access, l2.At) and access.ring is not None:
        delay, slots, size = access.ring
        access = replace(access, ring=(names.get(delay, delay), names.get(slots, slots), names.get(size, size)))
    return replace(f, name=name, access=access)


def _axis(a: l2.Axis, names: Names) -> l2.Axis:
    def value(x: int | str) -> int | str:
        return names.get(x, x) if isinstance(x, str) else x

    extent = None if a.extent is None else value(a.extent)
    return l2.Axis(tuple((names.get(n, n), c) for n, c in a.terms), value(a.const), a.div, extent, value(a.stride))


def _expr(e: Expr, names: Names) -> Expr:
    return rewrite(e, lambda x: Ref(names[x.name], x.span) if isinstance(x, Ref) and x.name in names else x)


def _renamed(statements: Iterable[l2.Statement], names: Names) -> tuple[l2.Statement, ...]:
    out: list[l2.Statement] = []
    for s in statements:
        if isinstance(s, l2.Emit):
            out.append(replace(s, when=_expr(s.when, names)))
        else:
            out.append(type(s)(names.get(s.target, s.target), _expr(s.value, names), s.span))
    return tuple(out)


def _body(body: l2.Body, names: Names) -> l2.Body:
    match body:
        case l2.Nest():
            return body.rewritten(lambda e: _expr(e, names), lambda s: _renamed(s, names))
        case l2.Propagate(relation=relation):
            if isinstance(relation, l2.Procedural) and relation.probability is not None:
                relation = replace(relation, probability=_expr(relation.probability, names))
            return replace(body, relation=relation, statements=_renamed(body.statements, names))
        case l2.Connect(probability=probability) if probability is not None:
            return replace(body, probability=_expr(probability, names))
    return body

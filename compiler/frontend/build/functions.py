"""User-defined functions of the file: `swish(x): x / (1 + exp(-x))`.

Assumes: the `functions` block has been validated.
Guarantees: bodies are typed and free of errors that are independent of the call site; dimensions are checked again
where a call is inlined.
Does not: differentiate.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Sink
from compiler.core.source import Span
from compiler.expr.ast import Bool, Expr, Num, calls, refs, substitute
from compiler.expr.check import erase
from compiler.expr.functions import FUNCTIONS
from compiler.expr.inline import Definition, inline
from compiler.expr.parse import parse_signature
from compiler.frontend.build.shared.scope import Wanted, check_tree, read_expression
from compiler.frontend.build.shared.values import Context, Names, entries_of
from compiler.frontend.resolve.imports import File
from compiler.frontend.resolve.values import exact_span
from compiler.frontend.schema.wording import taken_word
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node


@dataclass
class Functions:
    """Functions by name; None: it has an error, which was reported. `own`: those of the model's file; the others are
    called `lib.yaml#name`."""

    c: Context
    known: dict[str, l0.FunctionDef | None] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    _constant: dict[str, l0.FunctionDef] = field(default_factory=dict)

    def closed(self, name: str) -> l0.FunctionDef | None:
        """The function with model parameters substituted by their values: it depends on its arguments only."""
        found = self.known[name]
        if found is None:
            return None
        if name not in self._constant:
            numbers: dict[str, Expr] = {
                n: Bool(v) if isinstance(v, bool) else Num(v)
                for n, v in self.c.names.numbers.items()
                if n not in found.args and n in refs(found.body)
            }
            body = substitute(found.body, numbers) if numbers else found.body
            self._constant[name] = l0.FunctionDef(found.name, found.args, body, found.span)
        return self._constant[name]


@dataclass(frozen=True)
class _Draft:
    name: str
    args: tuple[str, ...]
    body: Expr
    node: Node
    span: Span


def build_functions(node: Node | None, imported: Sequence[File], c: Context) -> Functions:
    """All functions of the model's file and of those that it takes definitions from, and the context's scope extended
    by them: an expression sees the functions of the file in which it stands, and beside them those of the other files
    that have a name of their own there."""
    out = Functions(c)
    foreign = {f.root.span.file.path: f.declares("functions") for f in imported}
    named = {path: _names(block) for path, block in foreign.items() if block is not None}
    seen = {path: {**_elsewhere(named, path), **named.get(path, {})} for path in foreign}
    own = {e.name.partition("(")[0].strip() for e in entries_of(node)} | c.names.scope.tables.keys()
    seen[""] = {n: whole for n, whole in _elsewhere(named, "").items() if n not in own | c.names.scope.timed.keys()}
    c.names = Names(replace(c.names.scope, foreign={p: n for p, n in seen.items() if n}), c.names.numbers)
    drafts: dict[str, _Draft] = {}
    _draft(node, "", drafts, out, c)
    out.own = list(out.known)
    for path, block in foreign.items():
        _draft(block, f"{path}#", drafts, out, c)
    _check(drafts, out, c)
    return out


def _elsewhere(named: Mapping[str, Mapping[str, str]], path: str) -> dict[str, str]:
    """The functions of the files but that at `path` whose names only one of them has."""
    found: dict[str, list[str]] = {}
    for other, names in named.items():
        for name, whole in names.items() if other != path else ():
            found.setdefault(name, []).append(whole)
    return {name: whole[0] for name, whole in found.items() if len(whole) == 1 and name not in FUNCTIONS}


def _names(block: tree.Mapping) -> dict[str, str]:
    """The functions of a file that is not the model's, with their names in the model."""
    names = (parse_signature(e.key.text, e.key.span, Sink(), exact=False) for e in block.entries)
    return {s[0]: f"{block.span.file.path}#{s[0]}" for s in names if s is not None}


def _draft(node: Node | None, prefix: str, drafts: dict[str, _Draft], out: Functions, c: Context) -> None:
    """The functions of one file; `prefix`: what their names in the model begin with."""
    places: dict[str, Span] = {}
    for entry in entries_of(node):
        span, exact = exact_span(entry.key)
        signature = parse_signature(entry.key.text, span, c.sink, exact=exact)
        if signature is None:
            continue
        name, args = signature
        if name in places:
            related = (Related("the other one is here", places[name]),)
            c.sink.error("E0212", f"two functions are called `{name}`", entry.key.span, None, related)
            continue
        places[name] = entry.key.span
        out.known[prefix + name] = None
        if name in FUNCTIONS or prefix + name in c.names.scope.tables:
            kind = "a built-in function" if name in FUNCTIONS else "a lookup table"
            message = f"`{name}` is {kind} and cannot be declared anew"
            c.sink.error("E0107", message, entry.key.span, "choose another name")
            continue
        reserved = [a for a in args if keyword.iskeyword(a)]
        if reserved:
            c.sink.error("E0107", *taken_word(reserved[0], "an argument", entry.key.span))
            continue
        if not isinstance(entry.value, tree.Scalar):
            continue
        body = read_expression(entry.value, c.names.scope, c.sink, args)
        if body is not None:
            drafts[prefix + name] = _Draft(prefix + name, args, body, entry.value, entry.key.span)


def _check(drafts: dict[str, _Draft], out: Functions, c: Context) -> None:
    known = c.names.scope
    definitions = {**known.functions, **{d.name: Definition(d.name, d.args, d.body) for d in drafts.values()}}
    arities = {**known.arities, **{d.name: len(d.args) for d in drafts.values()}}
    broken = {n for n in out.known if n not in drafts} | known.broken
    arities.update(dict.fromkeys(broken, -1))
    base = replace(c.names.scope, functions=definitions, arities=arities)
    called = {d.name: calls(d.body) & (drafts.keys() | broken) for d in drafts.values()}
    sinks = {name: Sink() for name in drafts}
    order, cycles = _in_order(called)
    for name, cycle in cycles.items():
        help = "a function cannot call itself; a recurrence belongs into `update`"
        message = f"the function `{name}` calls itself ({' -> '.join(cycle)})"
        sinks[name].error("E0307", message, drafts[name].node.span, help)
    broken |= drafts.keys() - set(order)
    for d in (drafts[name] for name in order):
        if called[d.name] & broken:
            broken.add(d.name)
            continue
        scope = base.extended(dict.fromkeys(d.args))
        why = "random numbers cannot be drawn in a function; draw them in `update`"
        checked = check_tree(d.body, d.node.span, scope, Wanted(f"`{d.name}`", random=why, body=True), sinks[d.name])
        if checked is None:
            broken.add(d.name)
            continue
        body = inline(d.body, definitions, Sink())
        assert body is not None
        # callers see the inlined body, so that each body is inlined once
        definitions[d.name] = Definition(d.name, d.args, body)
        out.known[d.name] = l0.FunctionDef(d.name, d.args, erase(body), d.span)
    for sink in sinks.values():
        c.sink.items.extend(sink.items)
    c.names = Names(replace(base, broken=frozenset(broken)), c.names.numbers)


def _in_order(called: dict[str, set[str]]) -> tuple[list[str], dict[str, list[str]]]:
    """The functions that reach no recursive one, callees first; of recursive ones, one per cycle, with the calls of the
    cycle."""
    reached = {name: _reached(name, called) for name in called}
    rest = {name for name in called if name in reached[name]}
    order = sorted((n for n in called if not reached[n] & rest), key=lambda n: len(reached[n]))
    cycles: dict[str, list[str]] = {}
    for name in called:
        if name in rest:
            cycles[name] = _cycle(name, {n: called[n] & rest for n in rest})
            rest -= {n for n in rest if name in reached[n]}
    return order, cycles


def _reached(name: str, called: dict[str, set[str]]) -> set[str]:
    """The direct and transitive callees of `name`."""
    found, stack = set[str](), [name]
    while stack:
        new = called.get(stack.pop(), set()) - found
        found |= new
        stack.extend(new)
    return found


def _cycle(name: str, called: dict[str, set[str]]) -> list[str]:
    """The call cycle through `name`, which is recursive."""
    stack, seen = [[name]], set[str]()
    while name not in called[(path := stack.pop())[-1]]:
        new = sorted(called[path[-1]] - seen)
        seen.update(new)
        stack += [[*path, other] for other in new]
    return [*path, name]

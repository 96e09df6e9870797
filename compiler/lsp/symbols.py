"""What is declared, and where it is named: definitions, references and renaming, through `use` and the library.

Assumes: outlines of files (compiler/lsp/texts.py).
Guarantees: a symbol is the path of its declaration, in the file where that stands: a name that a definition takes over
is the one of the definition that declares it.
Does not: follow names that `for` makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Final

from compiler.core.source import Span
from compiler.expr.keys.kinds import NAME, Expression, Name, Pattern, Reference, Statement, Value
from compiler.frontend.yaml.tree import Scalar, within
from compiler.lsp.outline import Path
from compiler.lsp.places import Visited, keys_of, node_at, texts_of, walk
from compiler.lsp.referents import Declared, Definitions, Layers, Names, Place, Words, of_keys, of_reference
from compiler.lsp.scope import DEFINITIONS, PARTS
from compiler.lsp.texts import Texts

_READ: Final = ("params", "functions", "timed", "tables")
"""What every expression of a file may name."""
_DECLARING: Final = frozenset({*DEFINITIONS, *_READ, "classes", "populations", "projections"})
_WORDS: Final = re.compile(
    r"(?P<number>\d[\w.]*(?:[eE][-+]?\d+)?(?:\s+[^\W\d]\w*)?)|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)?)", re.ASCII
)
_EQUATION: Final = re.compile(r"d(\w+)/dt")


@dataclass(frozen=True)
class Symbol:
    """The thing that is declared at `path` of `file`; a layer is `("network", "layers", name)`."""

    file: FilePath
    path: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path[-1]


@dataclass(frozen=True)
class Occurrence:
    """A place where a symbol is named. `declares`: it is its declaration."""

    symbol: Symbol
    span: Span
    declares: bool = False


@dataclass(frozen=True)
class Symbols:
    """The symbols of the files that `texts` reads; `library`: its folder."""

    texts: Texts
    library: FilePath

    def occurrences(self, file: FilePath) -> Iterator[Occurrence]:
        """All names of a file, in its order."""
        root = self.texts.tree(file)
        for at in walk(root) if root is not None else ():
            if at.key is not None:
                yield from self._of_key(at, at.key, file)
            if isinstance(at.node, Scalar) and isinstance(at.node.value, str):
                yield from self._of_value(at, at.node, file)

    def at(self, file: FilePath, offset: int) -> Occurrence | None:
        """The name at a character offset."""
        found = [o for o in self.occurrences(file) if o.span.start <= offset <= o.span.end]
        return min(found, key=lambda o: o.span.end - o.span.start, default=None)

    def declaration(self, symbol: Symbol) -> Span | None:
        return next((o.span for o in self.occurrences(symbol.file) if o.declares and o.symbol == symbol), None)

    def references(self, symbol: Symbol, near: FilePath) -> list[Occurrence]:
        """All places that name a symbol: in its file, and in those beside it and beside `near`."""
        files = dict.fromkeys((symbol.file, near))
        for file in (symbol.file, near):
            if not file.is_relative_to(self.library):
                files |= dict.fromkeys(self.texts.beside(file))
        return [o for f in files for o in self.occurrences(f) if o.symbol == symbol]

    def refusal(self, symbol: Symbol, name: str = "") -> str | None:
        """Why a symbol cannot be renamed, to `name` if one is given."""
        if symbol.file.is_relative_to(self.library):
            return f"`{symbol.name}` belongs to the library"
        if not re.fullmatch(NAME, symbol.name):
            return f"`{symbol.name}` is made by `for`"
        if name and not re.fullmatch(NAME, name):
            return f"`{name}` is no name: a letter, then letters, digits and `_`"
        taken = name and name != symbol.name and self._declared(symbol.file, (*symbol.path[:-1], name))
        return f"there is a `{name}` already" if taken else None

    # ---------------------------------------------------------------------------------- keys

    def _of_key(self, at: Visited, key: Scalar, file: FilePath) -> Iterator[Occurrence]:
        path, text = tuple(map(str, at.path)), key.text
        match at.path:
            case (str(top), _) if top in _DECLARING:
                name = text.partition("(")[0]
                yield Occurrence(Symbol(file, (top, name)), within(key, 0, len(name)), True)
            case ("network", "inputs", _) | ("inputs", _):
                yield Occurrence(Symbol(file, path), key.span, True)
            case ("network", "blocks", _):
                name = text.partition("(")[0]
                yield Occurrence(Symbol(file, ("network", "blocks", name)), within(key, 0, len(name)), True)
            case (str(top), _, str(part), _) if top in DEFINITIONS and part in PARTS:
                yield Occurrence(Symbol(file, path), key.span, True)
            case ("synapses", _, "pre" | "post", "state", _):
                yield Occurrence(Symbol(file, path), key.span, True)
            case (*_, "dynamics", _):
                equation = _EQUATION.fullmatch(text)
                if equation is not None:
                    inner = tuple(p for p in path[2:-2] if p in ("pre", "post"))
                    found = self.member(file, path[0], path[1], (*inner, "state"), equation[1])
                    yield from _named(found, within(key, *equation.span(1)))
            case _:
                yield from _named(self._found(of_keys(at.path[:-1], self.texts.tree(file)), text, file), key.span)

    # ---------------------------------------------------------------------------------- values

    def _of_value(self, at: Visited, node: Scalar, file: FilePath) -> Iterator[Occurrence]:
        for kind in at.kinds:
            match kind:
                case Name() if at.path[0] == "network" and at.path[-1] == "name":
                    yield Occurrence(Symbol(file, ("network", "layers", node.text)), node.span, True)
                    return
                case Reference(to):
                    text = node.text.partition("[")[0].rstrip()  # of a part of a population
                    found = self._found(of_reference(to, at.path, self.texts.tree(file)), text, file)
                    if found is not None:
                        begin = max(text.rfind("#"), text.rfind("/")) + 1
                        yield Occurrence(found, within(node, begin, len(text)))
                        return
                case Pattern("a variable"):
                    places = of_reference("variable", at.path, self.texts.tree(file))
                    yield from _named(self._found(places, node.text, file), node.span)
                    return
        if any(isinstance(k, Expression | Statement | Value) for k in at.kinds):
            yield from self._of_expression(at.path, node, file)

    def _of_expression(self, path: Path, node: Scalar, file: FilePath) -> Iterator[Occurrence]:
        for word in _WORDS.finditer(node.text):
            name = word["name"]
            if name is None:
                continue
            end, dot, own = name.partition(".")
            found, begin = self._name(path, end, file), word.start()
            if dot and end in ("pre", "post") and path[0] == "synapses":
                found, begin = self.member(file, "synapses", str(path[1]), (end, "state"), own), begin + len(end) + 1
                name = own
            elif dot:
                name = end
            yield from _named(found, within(node, begin, begin + len(name)))

    def _name(self, path: Path, name: str, file: FilePath) -> Symbol | None:
        """The symbol that a name in an expression at `path` is."""
        if len(path) > 1 and path[0] in DEFINITIONS:
            inner = [p for p in path[2:-1] if p in ("pre", "post")]
            for part in (*((str(end), "state") for end in inner), *((p,) for p in PARTS)):
                found = self.member(file, str(path[0]), str(path[1]), part, name)
                if found is not None:
                    return found
        for top in _READ:
            found = self._declared(file, (top, name))
            if found is not None:
                return found
        return None

    # ---------------------------------------------------------------------------------- declarations

    def _declared(self, file: FilePath, path: tuple[str, ...]) -> Symbol | None:
        """The symbol at `path`, if it is declared there; functions and blocks have their arguments in the key."""
        names = keys_of(node_at(path[:-1], self.texts.tree(file)))
        there = path[-1] in names or any(n.partition("(")[0] == path[-1] for n in names)
        return Symbol(file, path) if there else None

    def _found(self, places: Iterable[Place], name: str, file: FilePath) -> Symbol | None:
        """What the first of some places that declares `name` calls so."""
        return next((f for f in (self._in(place, name, file) for place in places) if f is not None), None)

    def _in(self, place: Place, name: str, file: FilePath) -> Symbol | None:
        match place:
            case Names(path):
                return self._declared(file, (*path, name))
            case Layers():
                return Symbol(file, ("network", "layers", name))
            case Definitions(collection):
                return self.definition(collection, name, file)
            case Declared(collection, reference, part):
                where = self.definition(collection, reference, file)
                return self.member(where.file, collection, where.name, (part,), name) if where is not None else None
            case Words():
                return None

    def definition(self, collection: str, reference: str, file: FilePath) -> Symbol | None:
        """The definition that a reference in `file` leads to."""
        relative, marked, name = reference.partition("#")
        if marked:
            other = (file.parent / relative).resolve()
            return self._declared(other, (collection, name)) if self.texts.tree(other) is not None else None
        own = self._declared(file, (collection, reference))
        if own is not None:
            return own
        name = reference.removeprefix(f"library/{collection}/")
        other = self.library / collection / f"{name}.yaml"
        return Symbol(other, (collection, name)) if re.fullmatch(r"\w+", name) and other.exists() else None

    def member(self, file: FilePath, collection: str, name: str, part: tuple[str, ...], member: str) -> Symbol | None:
        """What a definition calls `member`, where that is declared: there, or in a definition that it takes over."""
        for _ in range(20):
            found = self._declared(file, (collection, name, *part, member))
            if found is not None:
                return found
            used = texts_of(node_at((collection, name, "use"), self.texts.tree(file)))
            next_one = self.definition(collection, used[0], file) if used else None
            if next_one is None:
                return None
            file, name = next_one.file, next_one.name
        return None


def _named(symbol: Symbol | None, span: Span) -> Iterator[Occurrence]:
    if symbol is not None:
        yield Occurrence(symbol, span)

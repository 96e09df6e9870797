"""What an editor shows of the thing under the pointer, in Markdown.

Assumes: the outline of the text, the symbol there if there is one, and the model if it could be built.
Guarantees: the words of the language's description, and what the model says: values, units, shapes, sizes, equations.
Does not: raise for a text with mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from compiler.core.disk import bytes_text
from compiler.expr.ast import show
from compiler.expr.functions import FUNCTIONS
from compiler.expr.keys.kinds import Alternative, Choice, Field, Text
from compiler.frontend.schema.json_schema import hover as of_field
from compiler.frontend.yaml.tree import Mapping, Node, Scalar
from compiler.lsp.facts import Facts, shape_text
from compiler.lsp.outline import Path
from compiler.lsp.places import field_of, flat, kinds_at, node_at, path_to
from compiler.lsp.scope import WHAT, described
from compiler.lsp.symbols import Occurrence, Symbol

_EQUATION = re.compile(r"d(\w+)/dt")
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Under:
    """What is under the pointer: the character offset, the outline of the text, the symbol with the outline of the
    file that declares it, and the facts of the model."""

    offset: int
    root: Mapping
    named: Occurrence | None
    declared_in: Mapping | None
    facts: Facts | None


def hover(at: Under) -> str:
    """The text to show; "" for nothing."""
    path, scalar, is_key = path_to(at.offset, at.root)
    parts = [] if at.named is None else list(_of_symbol(at.named.symbol, at))
    if not parts and is_key:
        parts += [*_of_layer(path, at), *_of_key(path, at.root)]
    if scalar is not None and not is_key:
        parts += _of_value(path, scalar, at, bool(parts))
    parts += _of_equation(path, at)
    return "\n\n".join(p for p in parts if p)


def _of_key(path: Path, root: Node) -> Iterator[str]:
    found = field_of(path, root)
    if isinstance(found, Alternative):
        found = Field(found.name, found.kind, found.doc, example=found.example, supported=found.supported)
    if found is None:
        return
    yield of_field(found)
    for kind in flat((found.kind,)):
        if isinstance(kind, Choice):
            yield "\n".join(f"- `{o.value}`: {o.doc}" for o in kind.options if o.supported)
    if found.example and "```" not in of_field(found):
        yield f"```yaml\n{found.example}\n```"


def _of_symbol(symbol: Symbol, at: Under) -> Iterator[str]:
    """What is declared, where, and what the model knows of it."""
    declared = node_at(symbol.path, at.declared_in)
    match symbol.path:
        case ("params", name):
            yield f"`{name}`: parameter of the model, {described(declared)}"
            yield _value("value", at.facts.parameter(name) if at.facts is not None else None)
        case ("functions", name):
            yield from _of_function(name, at)
        case ("network", "inputs", name):
            yield f"`{name}`: network input of shape {_text(node_at(('shape',), declared))}"
        case ("network", *_):
            layers = at.facts.named_layers(symbol.name) if at.facts is not None else []
            shapes = "".join(f", `{x.kind}` of shape {shape_text(x.shape)}" for x in layers[:1])
            yield f"`{symbol.name}`: {symbol.path[1].removesuffix('s')}{shapes}"
        case (collection, name):
            yield f"`{name}`: {_singular(collection)} of `{symbol.file.name}`"
            doc = node_at(("description",), declared)
            yield " ".join(doc.text.strip(" >|").split()) if isinstance(doc, Scalar) else ""
            yield _of_part(collection, symbol, at)
        case (collection, owner, *_, part, name):
            yield f"`{name}`: {WHAT.get(part, part)} of {_singular(collection)} `{owner}`, {described(declared)}"
            yield _value("unit", at.facts.unit(symbol.path) if at.facts is not None else None)


def _of_part(collection: str, symbol: Symbol, at: Under) -> str:
    blocks = node_at((collection,), at.declared_in)
    entry = blocks.entry(symbol.name) if isinstance(blocks, Mapping) else None
    if at.facts is None or entry is None:
        return ""
    if collection == "populations":
        return at.facts.population(entry.key.span)
    return at.facts.projection(entry.key.span) if collection == "projections" else ""


def _of_function(name: str, at: Under) -> Iterator[str]:
    model = None if at.facts is None else at.facts.model
    for f in () if model is None else model.functions:
        if f.name == name:
            yield f"```\n{name}({', '.join(f.args)}) = {show(f.body)}\n```"
            return
    yield f"`{name}`: function of the file"


def _of_layer(path: Path, at: Under) -> Iterator[str]:
    """The shapes of the layers that an item of `layers` makes, on its first word."""
    if at.facts is None or at.facts.model.network is None or path[:2] != ("network", "layers"):
        return
    item = node_at(path[:-1], at.root) if len(path) > 3 and isinstance(path[-2], int) else None
    layers = at.facts.layers(item) if item is not None and path[-1] not in ("repeat", "block") else []
    if not layers:
        return
    network = at.facts.model.network
    shapes = {i.name: i.shape for i in network.inputs} | {x.name: x.shape for x in network.layers}
    first = layers[0]
    sources = ", ".join(f"`{n}` {shape_text(shapes[n])}" for n in first.inputs)
    many = f" ({len(layers)} copies)" if len(layers) > 1 else ""
    yield f"`{first.name}`{many}: {sources} -> {shape_text(first.shape)}"
    held = sum(at.facts.bytes.get(x.name, 0) for x in layers)
    if held:
        yield f"{bytes_text(held)} at least while training"


def _of_value(path: Path, scalar: Scalar, at: Under, told: bool) -> Iterator[str]:
    """The meaning of a word of a choice, a built-in function, or of the key before."""
    for kind in kinds_at(path, at.root):
        if isinstance(kind, Choice) and scalar.text in kind.by_value:
            yield f"`{scalar.text}`: {kind.by_value[scalar.text].doc}"
            return
    shift = at.offset - scalar.span.start - (not scalar.plain)
    word = next((w[0] for w in _WORD.finditer(scalar.text) if w.start() <= shift <= w.end()), "")
    function = FUNCTIONS.get(word)
    if function is not None and not told:
        yield f"`{word}({', '.join(function.parameters)})`: {function.doc}"
    elif not told and not any(isinstance(k, Text) for k in kinds_at(path, at.root)):
        yield from _of_key(path, at.root)


def _of_equation(path: Path, at: Under) -> Iterator[str]:
    match path:
        case (str(collection), str(name), *inner, "dynamics", str(key)) if at.facts is not None:
            equation = _EQUATION.fullmatch(key)
            end = str(inner[0]) if inner else ""
            found = at.facts.equation(collection, name, equation[1], end) if equation is not None else None
            if found is not None:
                yield f"```\n{found}\n```"


def _value(what: str, text: str | None) -> str:
    return "" if text is None else f"{what}: `{text}`"


def _text(node: Node | None) -> str:
    return "" if node is None else f"`{node.span.file.text[node.span.start : node.span.end]}`"


def _singular(collection: str) -> str:
    return "class" if collection == "classes" else collection.removesuffix("s")

"""The names that a model file declares, and those that may stand at a place of it.

Assumes: a tree, complete or not; files as compiler/lsp/texts.py reads them; the library.
Guarantees: the definition behind a reference with everything that it takes over, from this file, others or the
library; nothing is raised for a tree with mistakes.
Does not: check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import Final

from compiler.core.diagnostics import ModelError, Sink
from compiler.expr.functions import FUNCTIONS
from compiler.frontend.build.places.names import MEANINGS
from compiler.frontend.resolve.imports import File
from compiler.frontend.resolve.use import LIBRARY_KINDS, LibraryFinder, Uses
from compiler.frontend.yaml.tree import Mapping, Node, Scalar, Sequence, from_plain
from compiler.ir.level0.synapses import CONNECTED
from compiler.lsp.outline import Path
from compiler.lsp.places import keys_of, node_at
from compiler.lsp.referents import (
    Declared,
    Definitions,
    Layers,
    Names,
    Place,
    Words,
    of_ends,
    of_keys,
    of_reference,
)

DEFINITIONS: Final = LIBRARY_KINDS
PARTS: Final = ("params", "state", "inputs", "let", "others")
"""What a definition declares names in."""

_GIVEN: Final = {
    "neurons": ("t", "dt"),
    "currents": ("t", "dt"),
    "synapses": ("t", "dt", "pre", "post"),
    "optimizers": ("param", "gradient", "step", "epoch", "steps", "epochs"),
}


@dataclass(frozen=True)
class Scope:
    """A file `root` at `path`."""

    root: Mapping
    path: FilePath
    library: LibraryFinder

    def names(self, *path: str) -> tuple[str, ...]:
        """The keys of the map at `path`."""
        return keys_of(node_at(path, self.root))

    def definition(self, collection: str, reference: str) -> Mapping | None:
        """The block that a reference leads to, with all that it takes over."""
        if not reference:
            return None
        if reference not in self.names(collection):
            root = from_plain({collection: {"_": {"use": reference}}}, self.root.span)
            assert isinstance(root, Mapping)
            blocks = root.get(collection)
            name = "_"
        else:
            root, blocks, name = self.root, None, reference
        sink = Sink()
        try:
            if blocks is not None and "#" not in reference and "/" not in reference:
                return self.library.find(collection, reference)
            file = File(root, self.path.parent, "")
            return Uses(self.library, sink, file).block(file, collection, name)
        except ModelError:
            return None

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """The names of layers, without those in `blocks`."""
        return tuple(n.text for n in layer_names(node_at(("network", "layers"), self.root)))

    def owner(self, path: Path) -> tuple[str, Mapping] | None:
        """The definition that `path` lies in: its collection and its block, with what it takes over."""
        if len(path) < 2 or path[0] not in DEFINITIONS or not isinstance(path[1], str):
            return None
        found = self.definition(str(path[0]), path[1]) or node_at(path[:2], self.root)
        return (str(path[0]), found) if isinstance(found, Mapping) else None

    def in_expressions(self, path: Path) -> dict[str, str]:
        """The names that an expression at `path` may read, and what each of them is."""
        found = {name: "parameter of the model" for name in self.names("params")}
        owner = self.owner(path)
        if owner is not None:
            collection, block = owner
            found |= dict.fromkeys(_GIVEN[collection], "given")
            for part in PARTS:
                found |= dict.fromkeys(keys_of(block.get(part)), WHAT[part])
            for other in keys_of(block.get("others")):
                found |= {f"{other}.{name}": f"of `{other}`" for name in keys_of(node_at(("others", other), block))}
            if collection == "synapses":
                found |= {name: MEANINGS[name] for name in CONNECTED if name not in found}
                found |= {"deliver": "adds to an input", "sum_into": "sum over all projections into the same input"}
                for end in ("pre", "post"):
                    state = (*keys_of(node_at((end, "state"), block)), *keys_of(node_at((end, "inputs"), block)))
                    found |= {f"{end}.{name}": f"variable of `{end}`" for name in state}
        if path[:1] == ("projections",):
            found = {**MEANINGS, "sum_into": "sum over all projections into the same input", **found}
            for key in ("from", "to"):
                params = self.of_places(of_ends(node_at((*path[:2], key), self.root), ("params",), self.root))
                found |= {f"{key}.{name}": f"parameter of the population at `{key}`" for name in params}
        found |= {n.partition("(")[0]: "function of the file" for n in self.names("functions")}
        found |= dict.fromkeys(self.names("timed"), "timed array")
        found |= dict.fromkeys(self.names("tables"), "lookup table")
        loop = node_at((*path[:2], "for"), self.root)
        found |= dict.fromkeys(keys_of(loop), "loop variable")
        return found | {name: f.doc for name, f in FUNCTIONS.items() if name not in found}

    def keys(self, path: Path) -> dict[str, str]:
        """The names that a map of the user's names at `path` may have as keys, and what each of them is."""
        match path:
            case ("neurons" | "synapses" | "currents", _, *inner, "dynamics"):
                owner = self.owner(path)
                states = keys_of(node_at((*inner, "state"), owner[1])) if owner is not None else ()
                return {f"d{name}/dt": "differential equation" for name in states}
            case _:
                return self.of_places(of_keys(path, self.root))

    def references(self, to: str, path: Path) -> dict[str, str]:
        """The names of this file that a reference at `path` to a `to` may be, and what each of them is."""
        return self.of_places(of_reference(to, path, self.root))

    def of_places(self, places: Iterable[Place]) -> dict[str, str]:
        """The names that places declare, and what each of them is."""
        found: dict[str, str] = {}
        for place in dict.fromkeys(places):
            match place:
                case Names(path, what):
                    found |= {n.partition("(")[0]: what for n in self.names(*path)}
                case Layers():
                    found |= dict.fromkeys(self.layers, "layer")
                case Definitions(collection, but):
                    found |= {n: collection[:-1] for n in self.names(collection) if n != but}
                    found |= {f"library/{collection}/{n}": "library" for n in self.library.names(collection)}
                case Declared(collection, reference, part):
                    owner = self.owner((collection, reference))
                    found |= {} if owner is None else _declared(owner[1], part)
                case Words(words, what):
                    found |= dict.fromkeys(words, what)
        return found


WHAT: Final = {
    "params": "parameter",
    "state": "state variable",
    "inputs": "input",
    "let": "named expression",
    "others": "another population",
}


def layer_names(layers: Node | None) -> Iterator[Scalar]:
    """The names that layers give themselves, in `repeat` and `block`, too."""
    for item in layers.items if isinstance(layers, Sequence) else ():
        for entry in item.entries if isinstance(item, Mapping) else ():
            name = node_at(("name",), entry.value)
            if isinstance(name, Scalar) and name.text:
                yield name
            yield from layer_names(node_at(("layers",), entry.value))


def described(node: Node | None) -> str:
    """What a declaration says of itself: its value, unit and description."""
    if isinstance(node, Scalar):
        return f"`{node.text}`" if node.text else ""
    value = node_at(("value",), node)
    parts = [f"`{value.text}`"] if isinstance(value, Scalar) else []
    unit, decay, doc = (node_at((k,), node) for k in ("unit", "decay", "description"))
    parts += [f"unit `{unit.text}`"] if isinstance(unit, Scalar) else []
    parts += [f"decays with `{decay.text}`"] if isinstance(decay, Scalar) else []
    text = ", ".join(parts)
    return f"{text}\n\n{doc.text.strip()}" if isinstance(doc, Scalar) else text


def _declared(block: Mapping, part: str) -> dict[str, str]:
    """The names that a part of a definition declares, and what each of them is."""
    found = block.get(part)
    if not isinstance(found, Mapping):
        return {}
    return {e.name: f"{WHAT[part]} {described(e.value)}".strip() for e in found.entries}

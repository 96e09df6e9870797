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
from compiler.lsp.places import node_at

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

    def setting(self, block: Node | None, key: str) -> Node | None:
        """What a population says, or one of its classes."""
        found = node_at((key,), block)
        if found is None:
            for name in texts_of(node_at(("classes",), block)):
                found = node_at(("classes", name, key), self.root) or found
        return found

    def neuron(self, population: Node | None) -> Mapping | None:
        """The neuron of a block of `populations` or `classes`."""
        reference = self.setting(population, "neuron")
        return self.definition("neurons", reference.text) if isinstance(reference, Scalar) else None

    def neurons(self, node: Node | None) -> Iterator[Mapping]:
        """The neurons of the populations that `from` or `to` names."""
        for name in texts_of(node):
            populations = self.names("populations") if name == "all" else (name,)
            blocks = [node_at(("populations", p), self.root) or node_at(("classes", p), self.root) for p in populations]
            seen: set[int] = set()
            for block in blocks:
                neuron = self.neuron(block)
                if neuron is not None and id(neuron) not in seen:
                    seen.add(id(neuron))
                    yield neuron

    def synapse(self, projection: Node | None) -> Mapping | None:
        """The synapse of a block of `projections`."""
        reference = node_at(("synapse",), projection)
        return self.definition("synapses", reference.text) if isinstance(reference, Scalar) else None

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

    @property
    def events(self) -> dict[str, str]:
        """The events of phases."""
        return {f"{p}.{e}": "event" for p in self.names("phases") for e in self.names("phases", p, "events")}

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
                for neuron in self.neurons(node_at((*path[:2], key), self.root)):
                    params = keys_of(neuron.get("params"))
                    found |= {f"{key}.{name}": f"parameter of the population at `{key}`" for name in params}
        found |= {n.partition("(")[0]: "function of the file" for n in self.names("functions")}
        found |= dict.fromkeys(self.names("timed"), "timed array")
        found |= dict.fromkeys(self.names("tables"), "lookup table")
        loop = node_at((*path[:2], "for"), self.root)
        found |= dict.fromkeys(keys_of(loop), "loop variable")
        return found | {name: f.doc for name, f in FUNCTIONS.items() if name not in found}

    def keys(self, path: Path) -> dict[str, str]:
        """The names that a map of the user's names at `path` may have as keys, and what each of them is."""
        block = node_at(path[:2], self.root)
        match path:
            case ("populations" | "classes", _, "params" | "init" as part):
                return _declared(self.neuron(block), "params" if part == "params" else "state")
            case ("projections", _, "params" | "init" as part):
                return _declared(self.synapse(block), "params" if part == "params" else "state")
            case ("populations" | "classes", _, "others"):
                return _declared(self.neuron(block), "others")
            case ("projections", _, "others"):
                return _declared(self.synapse(block), "others")
            case ("inputs", _, "current", "params"):
                source = node_at(("current", "source"), block)
                found = self.definition("currents", source.text) if isinstance(source, Scalar) else None
                return _declared(found, "params")
            case ("neurons" | "synapses" | "currents", _, *inner, "dynamics"):
                owner = self.owner(path)
                states = keys_of(node_at((*inner, "state"), owner[1])) if owner is not None else ()
                return {f"d{name}/dt": "differential equation" for name in states}
            case ("neurons" | "synapses", _, *_, "on"):
                return self.events
            case ("train", "optimizer", str(name)):
                return _declared(self.definition("optimizers", name), "params")
            case ("train", "data", "inputs" | "scale" | "mean" | "std"):
                return dict.fromkeys(self.names("network", "inputs"), "network input")
            case ("sweep",):
                return dict.fromkeys(self.names("params"), "parameter of the model")
            case (*_, "by_source" | "by_target"):
                return self.references("population", path)
            case _:
                return {}

    def references(self, to: str, path: Path) -> dict[str, str]:
        """The names of this file that a reference at `path` to a `to` may be, and what each of them is."""
        block = node_at(path[:2], self.root)
        match to:
            case "population":
                classes = dict.fromkeys(self.names("classes"), "class")
                return dict.fromkeys(self.names("populations"), "population") | classes
            case "class":
                return dict.fromkeys(self.names("classes"), "class")
            case "neuron" | "current" | "synapse":
                return self.own(f"{to}s", "")
            case "definition":
                return self.own(str(path[0]), str(path[1])) if len(path) > 1 else {}
            case "projection":
                return dict.fromkeys(self.names("projections"), "projection")
            case "input":
                return self.at_ends(node_at(("to",), block), ("inputs",))
            case "parameter or input":
                return self.at_ends(node_at(("to",), block), ("params", "inputs"))
            case "state variable":
                owner = self.owner(path)
                return {} if owner is None else _declared(owner[1], "state")
            case "variable":
                return self.recorded(node_at((*path[:3], "from"), self.root))
            case _:
                return self._of_network(to)

    def _of_network(self, to: str) -> dict[str, str]:
        inputs = dict.fromkeys(self.names("network", "inputs"), "network input")
        layers = dict.fromkeys(self.layers, "layer")
        match to:
            case "layer or network input":
                return layers | inputs
            case "layer" | "layer or class of weights":
                return layers
            case "network input":
                return inputs
            case "block of the network":
                return {n.partition("(")[0]: "block" for n in self.names("network", "blocks")}
            case "metric":
                metrics = ("loss", *texts_of(node_at(("train", "metrics"), self.root)))
                return {f"{v}{m}": "metric" for v in ("validation_", "") for m in metrics}
            case _ if "`functions`" in to:
                return {n.partition("(")[0]: "function of the file" for n in self.names("functions")}
            case _:
                return {}

    def own(self, collection: str, but: str) -> dict[str, str]:
        """The definitions of a collection, of this file and of the library."""
        own = {n: collection[:-1] for n in self.names(collection) if n != but}
        return own | {f"library/{collection}/{n}": "library" for n in self.library.names(collection)}

    def at_ends(self, to: Node | None, parts: Iterable[str]) -> dict[str, str]:
        """What the neurons of the populations `to` declare."""
        found: dict[str, str] = {}
        for neuron in self.neurons(to):
            for part in parts:
                found |= _declared(neuron, part)
        return found

    def recorded(self, source: Node | None) -> dict[str, str]:
        """The variables of the populations or the projection that `from` names."""
        found = self.at_ends(source, ("state", "inputs"))
        for name in texts_of(source):
            projection = node_at(("projections", name), self.root)
            if projection is not None:
                found |= {"weight": "of static synapses", "delay": "of static synapses"}
                synapse = self.synapse(projection)
                found = _declared(synapse, "state") if synapse is not None else found
        return found


WHAT: Final = {
    "params": "parameter",
    "state": "state variable",
    "inputs": "input",
    "let": "named expression",
    "others": "another population",
}


def keys_of(node: Node | None) -> tuple[str, ...]:
    return tuple(e.name for e in node.entries) if isinstance(node, Mapping) else ()


def texts_of(node: Node | None) -> tuple[str, ...]:
    """The texts of a scalar or of the scalars of a list."""
    match node:
        case Scalar(value=str(text)):
            return (text,)
        case Sequence(items=items):
            return tuple(i.text for i in items if isinstance(i, Scalar))
        case _:
            return ()


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


def _declared(block: Mapping | None, part: str) -> dict[str, str]:
    """The names that a part of a definition declares, and what each of them is."""
    found = block.get(part) if block is not None else None
    if not isinstance(found, Mapping):
        return {}
    return {e.name: f"{WHAT[part]} {described(e.value)}".strip() for e in found.entries}

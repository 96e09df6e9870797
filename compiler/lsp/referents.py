"""What a name may refer to, by where it stands: the places that declare it.

Assumes: a tree, complete or not.
Guarantees: the same places for names that are offered (compiler/lsp/scope.py) and for those that are followed and
renamed (compiler/lsp/symbols.py); nothing is raised for a tree with mistakes.
Does not: look at other files or the library: a definition is told by its reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from compiler.frontend.yaml.tree import Node
from compiler.lsp.outline import Path
from compiler.lsp.places import keys_of, node_at, texts_of


@dataclass(frozen=True)
class Names:
    """The keys of the map at `path` of the file; `what`: what each of them is."""

    path: tuple[str, ...]
    what: str


@dataclass(frozen=True)
class Layers:
    """The layers of the network that have a name."""


@dataclass(frozen=True)
class Definitions:
    """The definitions of a collection, of the file and of the library, but for the one called `but`."""

    collection: str
    but: str = ""


@dataclass(frozen=True)
class Declared:
    """What the definition behind a reference declares in `part`."""

    collection: str
    reference: str
    part: str


@dataclass(frozen=True)
class Words:
    """Names that are declared nowhere."""

    words: tuple[str, ...]
    what: str


Place = Names | Layers | Definitions | Declared | Words

_POPULATIONS: Final = (Names(("populations",), "population"), Names(("classes",), "class"))
_INPUTS: Final = Names(("network", "inputs"), "network input")
_REFERENCES: Final[Mapping[str, tuple[Place, ...]]] = {
    "population": _POPULATIONS,
    "class": _POPULATIONS[1:],
    "neuron": (Definitions("neurons"),),
    "current": (Definitions("currents"),),
    "synapse": (Definitions("synapses"),),
    "projection": (Names(("projections",), "projection"),),
    "layer or network input": (_INPUTS, Layers()),
    "layer": (Layers(),),
    "layer or class of weights": (Layers(),),
    "network input": (_INPUTS,),
    "block of the network": (Names(("network", "blocks"), "block"),),
}
_PART: Final = {"params": "params", "init": "state", "others": "others"}


def of_keys(path: Path, root: Node | None) -> Iterator[Place]:
    """What the keys of a map of the user's names at `path` refer to."""
    block = node_at(path[:2], root)
    match path:
        case ("populations" | "classes", _, "params" | "init" | "others" as part):
            yield from _of("neurons", _neuron(block, root), _PART[part])
        case ("projections", _, "params" | "init" | "others" as part):
            yield from _of("synapses", texts_of(node_at(("synapse",), block)), _PART[part])
        case ("inputs", _, "current", "params"):
            yield from _of("currents", texts_of(node_at(("current", "source"), block)), "params")
        case ("train", "optimizer"):
            yield Definitions("optimizers")
        case ("train", "optimizer", str(name)):
            yield Declared("optimizers", name, "params")
        case ("train", "data", "inputs" | "scale" | "mean" | "std"):
            yield _INPUTS
        case ("sweep",):
            yield Names(("params",), "parameter of the model")
        case (*_, "by_source" | "by_target"):
            yield from _POPULATIONS
        case ("neurons" | "synapses", _, *_, "on"):
            yield _events(root)


def of_reference(to: str, path: Path, root: Node | None) -> Iterator[Place]:
    """What a reference at `path` to a `to` may be."""
    yield from _REFERENCES.get(to, ())
    match to:
        case "definition" if len(path) > 1:
            yield Definitions(str(path[0]), str(path[1]))
        case "input":
            yield from of_ends(node_at((*path[:2], "to"), root), ("inputs",), root)
        case "parameter or input":
            yield from of_ends(node_at((*path[:2], "to"), root), ("params", "inputs"), root)
        case "state variable" if len(path) > 1:
            yield Declared(str(path[0]), str(path[1]), "state")
        case "variable":
            yield from _recorded(node_at((*path[:3], "from"), root), root)
        case "event":
            yield _events(root)
        case "metric":
            metrics = ("loss", *texts_of(node_at(("train", "metrics"), root)))
            yield Words(tuple(f"{v}{m}" for v in ("validation_", "") for m in metrics), "metric")
        case _ if "`functions`" in to:
            yield Names(("functions",), "function of the file")


def _events(root: Node | None) -> Words:
    """The events of phases."""
    phases = keys_of(node_at(("phases",), root))
    return Words(tuple(f"{p}.{e}" for p in phases for e in keys_of(node_at(("phases", p, "events"), root))), "event")


def of_ends(ends: Node | None, parts: Iterable[str], root: Node | None) -> Iterator[Declared]:
    """What the neurons of the populations that `from` or `to` names declare."""
    chosen = texts_of(ends)
    for name in keys_of(node_at(("populations",), root)) if "all" in chosen else chosen:
        block = node_at(("populations", name), root) or node_at(("classes", name), root)
        for part in parts:
            yield from _of("neurons", _neuron(block, root), part)


def _recorded(source: Node | None, root: Node | None) -> Iterator[Place]:
    """The variables of the populations or the projection that `from` names."""
    yield from of_ends(source, ("state", "inputs"), root)
    for name in texts_of(source):
        projection = node_at(("projections", name), root)
        synapse = texts_of(node_at(("synapse",), projection))
        yield from _of("synapses", synapse, "state")
        if projection is not None and not synapse:
            yield Words(("weight", "delay"), "of static synapses")


def _neuron(block: Node | None, root: Node | None) -> tuple[str, ...]:
    """The reference to the neuron of a population or class, which one of its classes may give."""
    found = texts_of(node_at(("neuron",), block))
    for name in texts_of(node_at(("classes",), block)) if not found else ():
        found = texts_of(node_at(("classes", name, "neuron"), root)) or found
    return found


def _of(collection: str, references: tuple[str, ...], part: str) -> Iterator[Declared]:
    yield from (Declared(collection, reference, part) for reference in references[:1])

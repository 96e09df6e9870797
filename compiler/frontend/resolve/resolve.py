"""From the tree of a model file to the tree of the model: `use`, `for`, `repeat` and `classes` are expanded.

Assumes: a root mapping as yaml12 loads it.
Guarantees: parameters have values; collections hold every member by its name, with the settings of its classes; lists
of layers hold every layer. Each used or copied node records the expansion steps that led to it (`span.via`), innermost
first. Order: parameters, `use`, `classes`, `for`, `blocks`, `repeat`.
Does not: check keys or names, or substitute values of parameters in expressions.
"""

from __future__ import annotations

from collections.abc import Mapping as Settings
from dataclasses import dataclass, replace
from pathlib import Path

from compiler.core.diagnostics import Sink
from compiler.core.source import Origin
from compiler.frontend.language import ROOT
from compiler.frontend.resolve.blocks import expand_blocks
from compiler.frontend.resolve.classes import Classes, names_are_templates
from compiler.frontend.resolve.for_ import expand_for
from compiler.frontend.resolve.imports import File, brought
from compiler.frontend.resolve.merge import child_kind
from compiler.frontend.resolve.params import resolve_params
from compiler.frontend.resolve.parts import flattened
from compiler.frontend.resolve.repeat import expand_repeats
from compiler.frontend.resolve.use import COLLECTIONS, LibraryFinder, Uses, resolve_uses
from compiler.frontend.resolve.values import ParamValue
from compiler.frontend.yaml.tree import Mapping, Node, Scalar, Sequence, with_entry, with_origin, with_values


@dataclass(frozen=True)
class Resolved:
    """The expanded tree, the values of the parameters, in the order of the file, and the files it takes from."""

    root: Mapping
    params: dict[str, ParamValue]
    uses: Uses


def resolve(root: Mapping, settings: Settings[str, str], sink: Sink, base: Path, library: LibraryFinder) -> Resolved:
    """Expand the model file `root` of the folder `base`.

    `settings` are the values of `--set`, by parameter. Errors are added to `sink`; what could not be expanded is
    omitted.
    """
    params = resolve_params(root.get("params"), settings, sink)
    shown = root.span.file.path.rpartition("/")[0]
    uses = Uses(library, sink, File(root, base, f"{shown}/" if shown else ""))
    tree = resolve_uses(uses)
    declared = tree.get("classes")
    held, kind = declared if isinstance(declared, Mapping) else None, child_kind(child_kind(ROOT, "classes"), "")
    classes = {name: Classes(held, kind, sink, uses, tags=name != "projections") for name in COLLECTIONS}
    tree = with_values(
        tree, lambda e: _collection(e.value, params, classes[e.name], sink) if e.name in COLLECTIONS else e.value
    )
    tree = with_values(tree, lambda e: _plain(e.value, sink) if e.name in _DEFINED else e.value)
    for collection in ("phases", "tables"):
        tree = _with_brought(tree, collection, uses)
    network = tree.get("network")
    if isinstance(network, Mapping):
        network = expand_blocks(network, params, sink)
        tree = with_entry(tree, "network", network)
    layers = network.get("layers") if isinstance(network, Mapping) else None
    if isinstance(network, Mapping) and isinstance(layers, Sequence):
        expanded = expand_repeats(layers, params, sink)
        if expanded is not layers:
            tree = with_entry(tree, "network", with_entry(network, "layers", expanded))
    return Resolved(tree, params, uses)


def _collection(blocks: Node, params: dict[str, ParamValue], classes: Classes, sink: Sink) -> Node:
    if not isinstance(blocks, Mapping):
        return blocks
    # Classes are applied before `for` where possible, so that they are merged once for all copies.
    merged = with_values(
        blocks,
        lambda e: (
            classes.apply(e.value) if isinstance(e.value, Mapping) and not names_are_templates(e.value) else e.value
        ),
    )
    return expand_for(merged, params, sink, finish=classes.apply)


_DEFINED = ("neurons", "synapses", "currents", "optimizers")
_REFERRING = (("neuron", "neurons"), ("synapse", "synapses"))


def _with_brought(tree: Mapping, collection: str, uses: Uses) -> Mapping:
    """`tree` with the phases, or lookup tables, of other files that definitions taken from there read."""
    files = {f.root.span.file.path: f for f in uses.imported()}
    if not any(collection in f.root for f in files.values()):
        return tree
    quiet = replace(uses, sink=Sink())
    own = tree.get(collection)
    known = own if isinstance(own, Mapping) else Mapping((), tree.span)
    blocks: list[Node] = [e.value for e in tree.entries if e.name in COLLECTIONS]
    for place in ("populations", "projections"):
        members = tree.get(place)
        for entry in members.entries if isinstance(members, Mapping) else ():
            for key, kind in _REFERRING:
                target = entry.value.get(key) if isinstance(entry.value, Mapping) else None
                if isinstance(target, Scalar) and "#" in target.text:
                    blocks.append(quiet.used(uses.model, kind, target) or target)
    blocks += [functions for f in files.values() if (functions := f.declares("functions")) is not None]
    found = brought(collection, blocks, files, set(known.keys()))
    for name, entry in found.items():
        block = uses.block(files[entry.key.span.file.path], collection, name)
        if block is not None:
            file = files[entry.key.span.file.path]
            origin = Origin("use", f"use of {entry.key.span.file.path}", entry.key.span)
            known = with_entry(known, name, with_origin(_in_folder(block, file.folder), origin))
    return with_entry(tree, collection, known) if found else tree


def _in_folder(block: Mapping, folder: Path) -> Mapping:
    """A lookup table whose file is named from the folder of its own file."""
    values = block.get("values")
    file = values.get("file") if isinstance(values, Mapping) else None
    if not isinstance(values, Mapping) or not isinstance(file, Scalar):
        return block
    path = str(folder / file.text)
    return with_entry(block, "values", with_entry(values, "file", Scalar(path, path, True, file.span)))


def _plain(blocks: Node, sink: Sink) -> Node:
    """Definitions with the named parts of their lists joined."""
    if not isinstance(blocks, Mapping):
        return blocks
    return with_values(blocks, lambda e: flattened(e.value, sink) if isinstance(e.value, Mapping) else e.value)

"""`block: {use: residual, name: first, with: {channels: 16}}` in lists of layers: blocks with arguments.

    blocks:
      residual(channels):
        - activation: {name: before, function: relu}
        - conv2d: {name: inner, filters: channels, kernel: 3, padding: 1}
        - add: {inputs: [inner, before]}

Assumes: parameters have values; a validated network.
Guarantees: each use has the layers of its definition, with arguments substituted as `for` substitutes its variables.
Its last layer has the use's name (`first`, or `residual_1`, `residual_2`, ... in the order of the file), the others
theirs after it (`first_before`); references inside the block are renamed accordingly. `checkpoint` and `fuse` of a use
apply to it. `blocks` is removed.
Does not: name layers other than the last, or inspect the kind of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping as Params
from dataclasses import dataclass, field
from typing import Final

import numpy as np

import compiler.frontend.yaml.tree as tree
from compiler.core.diagnostics import Sink
from compiler.core.source import Origin
from compiler.expr.parse import parse_signature
from compiler.frontend.language.network import BLOCK_SETTINGS
from compiler.frontend.resolve.repeat import layers_of, named, names_of, renamed
from compiler.frontend.resolve.templates import Loop, Templates, Variable
from compiler.frontend.resolve.values import ParamValue, value_of
from compiler.frontend.schema.wording import suggested

_SETTINGS: Final = frozenset(f.name for f in BLOCK_SETTINGS)


MOST_USES: Final = 10_000
"""Nested blocks that use blocks twice grow exponentially."""


@dataclass(frozen=True)
class _Definition:
    key: tree.Scalar
    arguments: tuple[str, ...]
    layers: tree.Sequence


@dataclass
class _Uses:
    """`open`: the definitions being expanded; `counts`: unnamed uses; `done`: uses so far."""

    known: dict[str, _Definition]
    params: Params[str, ParamValue]
    sink: Sink
    open: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    done: int = 0


def expand_blocks(network: tree.Mapping, params: Params[str, ParamValue], sink: Sink) -> tree.Mapping:
    """`network` with every use of one of its `blocks` replaced by the layers of the block."""
    blocks, layers = network.get("blocks"), network.get("layers")
    if not isinstance(layers, tree.Sequence) or not isinstance(blocks, tree.Mapping | None):
        return network
    known: dict[str, _Definition] = {}
    for entry in blocks.entries if blocks is not None else ():
        signature = parse_signature(entry.name, entry.key.span, sink)
        if signature is not None and isinstance(entry.value, tree.Sequence):
            known[signature[0]] = _Definition(entry.key, signature[1], entry.value)
            _names_of_their_own(entry.value, known[signature[0]], sink)
    uses = _Uses(known, params, sink)
    return tree.with_entry(tree.without(network, "blocks"), "layers", _expanded(layers, uses))


def _names_of_their_own(layers: tree.Sequence, block: _Definition, sink: Sink) -> None:
    """Refuses layers that are called as an argument is, whose value would take the place of the name."""
    for item in layers.items:
        settings = [e.value for e in item.entries] if isinstance(item, tree.Mapping) else []
        for inside in (x for x in settings if isinstance(x, tree.Mapping)):
            name, inner = inside.get("name"), inside.get("layers")
            if isinstance(name, tree.Scalar) and name.text in block.arguments:
                what = f"`{name.text}` is an argument of `{block.key.text}` and cannot be the name of a layer"
                sink.error("E0207", what, name.span, "give the layer another name")
            if isinstance(inner, tree.Sequence):
                _names_of_their_own(inner, block, sink)


def _expanded(layers: tree.Sequence, uses: _Uses) -> tree.Sequence:
    out: list[tree.Node] = []
    for item in layers.items:
        kind = item.entries[0] if isinstance(item, tree.Mapping) and len(item) == 1 else None
        settings = kind.value if kind is not None and isinstance(kind.value, tree.Mapping) else None
        if kind is None or settings is None or kind.name not in ("block", "repeat"):
            out.append(item)
        elif kind.name == "block" and settings.entry("use") is not None:
            out += _used(kind, settings, uses)
        else:
            _without_use(kind, settings, uses.sink)
            inner = settings.get("layers")
            if isinstance(inner, tree.Sequence):
                settings = tree.with_entry(settings, "layers", _expanded(inner, uses))
            out.append(tree.Mapping((tree.Entry(kind.key, settings),), item.span))
    return tree.with_items(layers, out)


def _without_use(kind: tree.Entry, settings: tree.Mapping, sink: Sink) -> None:
    for key in ("name", "with") if kind.name == "block" else ():
        entry = settings.entry(key)
        if entry is not None:
            sink.error("E0108", f"`{key}` goes with `use`; this block has layers of its own", entry.key.span)


def _used(kind: tree.Entry, settings: tree.Mapping, uses: _Uses) -> list[tree.Node]:
    """The layers of a use; [] after an error."""
    target, sink = settings.get("use"), uses.sink
    both = settings.entry("layers")
    if both is not None:
        sink.error("E0108", "a block with `use` has no layers of its own", both.key.span)
    if not isinstance(target, tree.Scalar) or both is not None:
        return []
    name, found = target.text, uses.known.get(target.text)
    if found is None:
        help = suggested(name, "there are", uses.known)
        sink.error("E0203", f"the network has no block `{name}` in its `blocks`", target.span, help)
        return []
    if name in uses.open:
        sink.error("E0202", f"the block `{name}` uses itself", target.span)
        return []
    variables = _arguments(kind, settings, found, uses)
    if variables is None:
        return []
    uses.done += 1
    if uses.done > MOST_USES:
        if uses.done == MOST_USES + 1:
            sink.error("E0208", f"blocks are used more than {MOST_USES:,} times", kind.key.span)
        return []
    given = settings.get("name")
    uses.counts[name] = uses.counts.get(name, 0) + (given is None)
    own = given.text if isinstance(given, tree.Scalar) else f"{name}_{uses.counts[name]}"
    origin = Origin("use", f"use of the block {name}", kind.key.span)
    built = Templates(Loop(1, variables, kind.key.span), uses.params, sink).compile(found.layers) if variables else None
    body = tree.with_origin(found.layers, origin) if built is None else built(0, origin)
    assert isinstance(body, tree.Sequence)
    before, counts, uses.open, uses.counts = uses.open, uses.counts, (*uses.open, name), {}
    inner = layers_of(_expanded(body, uses), uses.params, sink)
    uses.open, uses.counts = before, counts
    if not inner:
        return []
    inner[-1] = named(inner[-1], own)
    old = [name.text for layer in inner for name in names_of(layer)]
    last = names_of(inner[-1])[-1:]
    names = {n: own if [n] == [x.text for x in last] else f"{own}_{n}" for n in old}
    layers = [renamed(layer, names) for layer in inner]
    kept = [e for e in settings.entries if e.name in _SETTINGS]
    if not kept:
        return layers
    whole = tree.Entry(tree.Scalar("layers", "layers", True, kind.key.span), tree.with_items(found.layers, layers))
    return [tree.Mapping((tree.Entry(kind.key, tree.Mapping((whole, *kept), settings.span)),), settings.span)]


def _arguments(
    kind: tree.Entry, settings: tree.Mapping, found: _Definition, uses: _Uses
) -> tuple[Variable, ...] | None:
    """The arguments of a use: numbers or names. None after an error."""
    given, sink = settings.get("with"), uses.sink
    entries = {e.name: e for e in given.entries} if isinstance(given, tree.Mapping) else {}
    before = len(sink.items)
    unknown = [entry for name, entry in entries.items() if name not in found.arguments]
    for entry in unknown:
        help = suggested(entry.name, "it takes", found.arguments)
        sink.error("E0101", f"`{found.key.text}` takes no `{entry.name}`", entry.key.span, help)
    missing = [n for n in found.arguments if n not in entries]
    if len(missing) > len(unknown):  # one that is misspelled is not missing, too
        help = f"write `with: {{{', '.join(f'{n}: ...' for n in missing)}}}`"
        sink.error("E0103", f"`{found.key.text}` needs {' and '.join(f'`{n}`' for n in missing)}", kind.key.span, help)
    out = []
    for name in found.arguments if len(sink.items) == before else ():
        value = entries[name].value
        word = isinstance(value, tree.Scalar) and isinstance(value.value, str) and value.text.isidentifier()
        if word and isinstance(value, tree.Scalar) and value.text not in uses.params:
            out.append(Variable(name, [value.text], None))
            continue
        number = value_of(value, uses.params, sink, f"`{name}`")
        if number is not None:
            column = np.array([number.value])
            out.append(Variable(name, [str(number.value)], column))
    return None if len(sink.items) > before else tuple(out)

"""What is known of the parts of a model once it is built: sizes, shapes, units, synapses, equations.

Assumes: a level-0 model; the outline of the file that it was made from.
Guarantees: numbers that `netloom show` prints.
Does not: lower the model: what is chosen there (storage, alignment) is not known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import compiler.ir.level0.model as l0
from compiler.connect import rule_of
from compiler.core.disk import bytes_text
from compiler.core.source import Span
from compiler.expr.ast import show, substitute
from compiler.expr.inline import named, too_large
from compiler.frontend.build.shared.values import quantity as literal
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Scalar, Sequence
from compiler.lsp.places import node_at
from compiler.passes.relations.expected_sizes import least_bytes, synapse_counts


def shape_text(shape: tuple[int, ...]) -> str:
    """(16, 5, 5) -> "16x5x5"."""
    return "x".join(map(str, shape)) or "one value"


def quantity(value: object, unit: str) -> str:
    """A canonical value with its unit."""
    shown = f"{value:g}" if isinstance(value, float) else str(value).lower()
    return shown if unit in ("1", "") else f"{shown} {unit}"


@dataclass(frozen=True)
class Facts:
    """The facts of one model."""

    model: l0.Model

    @cached_property
    def bytes(self) -> dict[str, int]:
        """The least memory of populations, projections and layers, by name."""
        parts = least_bytes(self.model, 1 << 20)
        found: dict[str, int] = {}
        for p in parts:
            name = p.what if p.what in self._projections else p.what.partition(".")[0]
            found[name] = found.get(name, 0) + p.bytes
        return found

    @cached_property
    def _projections(self) -> dict[str, l0.Projection]:
        return {p.name: p for p in self.model.projections}

    @cached_property
    def synapses(self) -> dict[str, float]:
        """The synapses of each projection, as expected where they are drawn."""
        counts = synapse_counts(self.model)
        found: dict[str, float] = {}
        rest = iter(counts.values())
        for p in self.model.projections:
            found[p.name] = sum(next(rest) for _ in p.members)
        return found

    def population(self, span: Span) -> str:
        """What the population whose key stands at `span` is; "" where there is none. One key may make several."""
        found = [p for p in self.model.populations if _covers(span, p.span)]
        if not found:
            return ""
        size = f"{sum(p.size for p in found):,} neurons"
        first = found[0]
        size += f" in {len(found):,} populations" if len(found) > 1 else ""
        shape = f", {shape_text(first.shape)}" if first.shape else ""
        held = bytes_text(sum(self.bytes.get(p.name, 0) for p in found))
        return f"{size} of `{first.neuron.name}`{shape}, {held} of state"

    def projection(self, span: Span) -> str:
        """What the projection whose key stands at `span` is; "" where there is none."""
        found = [p for p in self.model.projections if _covers(span, p.span)]
        if not found:
            return ""
        held = sum(b for n, b in self.bytes.items() if n in {p.name for p in found})
        parts = [self.synapse_count(span)]
        members = sum(len(p.members) for p in found)
        parts += [f"{members:,} pairs of populations"] if members > 1 else []
        parts += [f"{bytes_text(held)} at least"] if held else []
        delays = [m.delay for p in found for m in p.members]
        dt = self.model.simulate.dt if self.model.simulate is not None else 0.0
        if delays and dt:
            low, high = min(delays) * dt, max(delays) * dt
            parts.append(f"delay {low:g} ms" if low == high else f"delays from {low:g} to {high:g} ms")
        return ", ".join(parts)

    def synapse_count(self, span: Span) -> str:
        """The synapses of the projection at `span`."""
        found = [p for p in self.model.projections if _covers(span, p.span)]
        if not found:
            return ""
        drawn = " expected" if any(rule_of(p).random for p in found) else ""
        return f"{math.ceil(sum(self.synapses[p.name] for p in found)):,} synapses{drawn}"

    def layers(self, node: Node) -> list[l0.Layer]:
        """The layers that an item of `layers` makes: several in a `repeat`."""
        network = self.model.network
        return [] if network is None else [x for x in network.layers if _covers(node.span, x.span)]

    def named_layers(self, name: str) -> list[l0.Layer]:
        """The layer of a name, or its copies in a `repeat`."""
        network = self.model.network
        layers = () if network is None else network.layers
        return [x for x in layers if x.name == name or re.fullmatch(rf"{re.escape(name)}_\d+", x.name)]

    def unit(self, path: tuple[str, ...]) -> str | None:
        """The unit of what a neuron or synapse declares at `path`: (collection, name, part, ..., member)."""
        for definition in self._definitions(path[0], path[1]):
            for declared in _declarations(definition, path[2:-1]):
                if declared.name == path[-1]:
                    return declared.unit
        return None

    def parameter(self, name: str) -> str | None:
        """The value of a parameter of the model."""
        return next((quantity(p.value, p.unit) for p in self.model.params if p.name == name), None)

    def equation(self, collection: str, name: str, state: str, inner: str = "") -> str | None:
        """A differential equation with its named expressions put in, per ms."""
        for definition in self._definitions(collection, name):
            end = definition if not inner else getattr(definition, inner, None)
            for ode in getattr(end, "dynamics", ()):
                if ode.state == state:
                    lets = named(definition.lets)
                    rhs = substitute(ode.rhs, lets)
                    return None if too_large(rhs) else f"d{state}/dt = {show(rhs)}"
        return None

    def _definitions(self, collection: str, name: str) -> Iterator[l0.NeuronDef | l0.SynapseDef]:
        if collection == "neurons":
            yield from (p.neuron for p in self.model.populations if p.neuron.name == name)
        elif collection == "synapses":
            synapses = (p.synapse for p in self.model.projections)
            yield from (s for s in synapses if s is not None and s.name == name)


_Declared = l0.ParamDecl | l0.StateDecl | l0.InputDecl


def _declarations(definition: l0.NeuronDef | l0.SynapseDef, part: tuple[str, ...]) -> Iterable[_Declared]:
    match part, definition:
        case ("params",), _:
            return definition.params
        case ("state",), _:
            return definition.state
        case ("inputs",), l0.NeuronDef(inputs=inputs):
            return inputs
        case (("pre" | "post") as end, "state"), l0.SynapseDef():
            block = definition.pre if end == "pre" else definition.post
            return () if block is None else block.state
        case _:
            return ()


def _covers(outer: Span, inner: Span) -> bool:
    return outer.file.path == inner.file.path and outer.start <= inner.start and inner.end <= outer.end


@dataclass(frozen=True)
class Hint:
    """A text that an editor shows behind the character offset `at`."""

    at: int
    text: str


def hints(facts: Facts, root: Mapping) -> Iterator[Hint]:
    """Sizes of populations, synapses of projections, shapes of layers, units of states, values of parameters."""
    for collection, what in (("populations", facts.population), ("projections", facts.synapse_count)):
        for entry in _entries(root, collection):
            found = what(entry.key.span)
            if found:
                yield Hint(_end(entry.key, entry.value), found.partition(" of ")[0])
    yield from _of_layers(facts, node_at(("network", "layers"), root))
    for entry in _entries(root, "params"):
        value = node_at(("value",), entry.value)
        shown = facts.parameter(entry.name)
        computed = isinstance(value, Scalar) and isinstance(value.value, str) and literal(value.text) is None
        if isinstance(value, Scalar) and computed and shown is not None:
            yield Hint(value.span.end, f"= {shown}")
    for collection in ("neurons", "synapses"):
        for definition in _entries(root, collection):
            for state in _entries(definition.value, "state"):
                unit = facts.unit((collection, definition.name, "state", state.name))
                written = isinstance(state.value, Scalar) and (unit or "") in state.value.text
                if unit is not None and unit != "1" and isinstance(state.value, Scalar) and not written:
                    yield Hint(state.value.span.end, f"[{unit}]")


def _of_layers(facts: Facts, layers: Node | None) -> Iterator[Hint]:
    for item in layers.items if isinstance(layers, Sequence) else ():
        for entry in item.entries if isinstance(item, Mapping) else ():
            inner = node_at(("layers",), entry.value)
            if isinstance(inner, Sequence):
                yield from _of_layers(facts, inner)
                continue
            shapes = dict.fromkeys(shape_text(x.shape) for x in facts.layers(item))
            if shapes:
                yield Hint(_end(entry.key, entry.value), f"-> {', '.join(shapes)}")


def _entries(node: Node, name: str) -> tuple[Entry, ...]:
    found = node_at((name,), node)
    return found.entries if isinstance(found, Mapping) else ()


def _end(key: Scalar, value: Node) -> int:
    """Behind a value on the line of its key, or else behind the key and its `:`."""
    file = key.span.file
    if value.span.end and file.position(value.span.start)[0] == file.position(value.span.end)[0] == key.span.line:
        return value.span.end
    return file.text.find(":", key.span.end) + 1

"""Layers that drive populations: timed arrays with `layer`, and currents with `source: {layer: encoder}`.

Assumes: the network has been built, possibly with errors; a trial has a known number of steps.
Guarantees: the layer exists, depends on no population, and has the shape [neurons] or [frames, neurons], where the
frames fill a trial in whole steps. The values of such an array have no file: they are written before each trial.
Does not: compare columns with populations (frontend/build/spiking/drives.py does, as for other arrays).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink
from compiler.expr.units import DIMENSIONLESS, Dimension, canonical_name, parse_unit
from compiler.frontend.build.shared.definition_builder import unit_dimension
from compiler.frontend.build.shared.values import Context, entries_of, mapping, text_of
from compiler.frontend.build.tensors.network import Built
from compiler.frontend.schema.wording import suggested
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar
from compiler.layers.shared.kind import shown

NOTHING = l0.Listed(())


@dataclass
class Driving:
    """The network as what drives populations. `trial`: the steps of a trial, None where they are not known;
    `missing`: whether it has been reported that there is no network; `layers`: those that drive, with where that is
    said first."""

    built: Built
    trial: int | None
    dt: float
    c: Context
    missing: bool = False
    layers: dict[str, tree.Node] = field(default_factory=dict)

    def array(self, name: str, layer: Scalar, dimension: Dimension | None, scale: float) -> l0.TimedArray | None:
        """The timed array of a layer's values, times `scale`; None after an error."""
        text, sink = layer.text, self.c.sink
        if text not in self.built.places:
            there = self.built.places
            help = suggested(text, "there are", there, "the model has no `network`")
            if there or not self.missing:
                sink.error("E0201", f"there is no layer or network input `{text}`", layer.span, help)
            return None
        self.layers.setdefault(text, layer)
        shape = self.built.shapes.get(text)
        if shape is None or self.trial is None:
            return None
        if len(shape) not in (1, 2):
            message = f"`{text}` has the shape {shown(shape)}; what drives a population has [neurons]"
            help = "or [frames, neurons]: a layer `- flatten: {}` makes one axis of several"
            sink.error("E0501", message, layer.span, help)
            return None
        rows = shape[0] if len(shape) > 1 else 1
        if self.trial % rows:
            message = (
                f"a trial of {self.trial * self.dt:g} ms cannot hold the {rows:,} frames of `{text}` in whole steps"
            )
            sink.error("E0802", message, layer.span, "change `duration` of `simulate`, or the layer")
            return None
        unit = canonical_name(dimension or DIMENSIONLESS)
        every = self.trial // rows
        return l0.TimedArray(name, NOTHING, rows, shape[-1], every, unit=unit, layer=text, scale=scale, span=layer.span)

    def current(self, name: str, block: tree.Mapping, target: Dimension | None) -> l0.TimedArray | None:
        """The array of `source: {layer: ..., unit: ...}` into something of the dimension `target`."""
        layer, unit = block.get("layer"), block.get("unit")
        if not isinstance(layer, Scalar):
            return None
        if layer.text in self.built.places:
            self.layers.setdefault(layer.text, layer)
        found = scale_of(unit, self.c)
        if found is None:
            return None
        dimension, scale = found
        wanted = target or DIMENSIONLESS
        if dimension != wanted:
            name_of = canonical_name(wanted)
            if unit is None:
                message = f"the values of `{layer.text}` have no unit, but they are added to a quantity in {name_of}"
                self.c.sink.error("E0402", message, layer.span, f"write `{{layer: {layer.text}, unit: {name_of}}}`")
            else:
                there = "has no unit" if wanted == DIMENSIONLESS else f"is in {name_of}"
                message = f"the values of `{layer.text}` are in {text_of(unit)}, but what they are added to {there}"
                self.c.sink.error("E0401", message, unit.span)
            return None
        return self.array(name, layer, dimension, scale)


def scale_of(unit: Node | None, c: Context) -> tuple[Dimension, float] | None:
    """The dimension of a unit, and the factor to the canonical one; None after an error."""
    if unit is None:
        return DIMENSIONLESS, 1.0
    dimension = unit_dimension(unit, c)
    parsed = parse_unit(text_of(unit))
    return None if dimension is None or parsed is None else (dimension, float(parsed[1]))


def with_layers(timed: tuple[l0.TimedArray, ...], node: Node | None, driving: Driving) -> tuple[l0.TimedArray, ...]:
    """The timed arrays of the block `timed`, those with `layer` too."""
    blocks: Mapping[str, tree.Mapping | None] = {e.name: mapping(e.value) for e in entries_of(node)}
    known = {a.name: a for a in timed}
    out: list[l0.TimedArray] = []
    for name, block in blocks.items():
        layer = None if block is None else block.get("layer")
        if block is None or not isinstance(layer, Scalar):
            out += [known[name]] if name in known else []
            continue
        found = scale_of(block.get("unit"), replace(driving.c, sink=Sink()))
        made = None if found is None else driving.array(name, layer, *found)
        out += [] if made is None else [made]
    return tuple(out)

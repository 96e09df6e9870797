"""Whole numbers of the data that layers read: which elements of which inputs these are.

Assumes: layers in topological order, whose attributes the frontend has checked.
Guarantees: layers that move whole numbers (LayerKind.carries) are followed back to the inputs; what they add themselves
is known as numbers. Elements of an input that none of them reads are not enumerated until they are asked for.
Does not: read data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

import compiler.ir.level0.model as l0
from compiler.layers import KIND
from compiler.layers.shared.kind import FIXED, Array


@dataclass(frozen=True)
class WholeElements:
    """`first`: the number of each input's first element, where those of all inputs follow each other; `sizes`: elements
    of each; `of`: those that a layer holds, or an input that a layer moves, or `fixed` numbers."""

    first: Mapping[str, int]
    sizes: Mapping[str, int]
    of: Mapping[str, Array]

    def read(self, name: str) -> dict[str, Array]:
        """What an input or a layer holds: by input, the numbers of the elements of its samples, once each."""
        if name not in self.of:
            return {name: np.arange(self.sizes[name])}
        held = np.unique(self.of[name])
        found = {}
        for item, first in self.first.items():
            own = held[(held >= first) & (held < first + self.sizes[item])]
            if own.size:
                found[item] = own - first
        return found

    def numbers(self, name: str) -> Array:
        """The numbers that it holds whatever the data, in ascending order."""
        held = np.unique(self.of.get(name, np.zeros(0, np.int64)))
        return held[held < 0] - FIXED


def moved(layers: Iterable[l0.Layer]) -> set[str]:
    """What layers read that move whole numbers."""
    return {n for x in layers if KIND[x.kind].carries is not None for n in x.inputs}


def whole_elements(inputs: Iterable[l0.TensorInput], layers: Iterable[l0.Layer]) -> WholeElements:
    """Those of every input and layer that holds whole numbers."""
    layers = list(layers)
    first, sizes, found, count = {}, {}, {}, 0
    read = moved(layers)
    for item in inputs:
        if item.dtype != "real":
            first[item.name], sizes[item.name] = count, prod(item.shape)
            if item.name in read:
                found[item.name] = np.arange(count, count + sizes[item.name]).reshape(item.shape)
            count += sizes[item.name]
    for layer in layers:
        carries = KIND[layer.kind].carries
        if carries is not None and layer.inputs[0] in found:
            found[layer.name] = carries(layer, *(found[n] for n in layer.inputs))
    return WholeElements(first, sizes, found)

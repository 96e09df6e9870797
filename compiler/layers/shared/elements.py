"""Whole numbers of the data that layers read: which elements of which inputs these are.

Assumes: layers in topological order, whose attributes the frontend has checked.
Guarantees: layers that move whole numbers (LayerKind.carries) are followed back to the inputs; what they add themselves
is known as numbers.
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
    """`first`: the number of each input's first element, where those of all inputs follow each other; `of`: those that
    an input or a layer holds, or `fixed` numbers."""

    first: Mapping[str, int]
    of: Mapping[str, Array]

    def read(self, name: str) -> dict[str, Array]:
        """What an input or a layer holds: by input, the numbers of the elements of its samples, once each."""
        held = np.unique(self.of[name])
        found = {}
        for item, first in self.first.items():
            own = held[(held >= first) & (held < first + self.of[item].size)]
            if own.size:
                found[item] = own - first
        return found

    def numbers(self, name: str) -> Array:
        """The numbers that it holds whatever the data, in ascending order."""
        held = np.unique(self.of[name])
        return held[held < 0] - FIXED


def whole_elements(inputs: Iterable[l0.TensorInput], layers: Iterable[l0.Layer]) -> WholeElements:
    """Those of every input and layer that holds whole numbers."""
    first, found, count = {}, {}, 0
    for item in inputs:
        if item.dtype != "real":
            size = prod(item.shape)
            first[item.name] = count
            found[item.name] = np.arange(count, count + size).reshape(item.shape)
            count += size
    for layer in layers:
        carries = KIND[layer.kind].carries
        if carries is not None and layer.inputs[0] in found:
            found[layer.name] = carries(layer, *(found[n] for n in layer.inputs))
    return WholeElements(first, found)

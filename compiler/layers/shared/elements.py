"""Whole numbers of the data that layers read: which elements of which input these are.

Assumes: layers in topological order, whose attributes the frontend has checked.
Guarantees: layers that move whole numbers (LayerKind.carries) are followed back to the input.
Does not: read data.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

import compiler.ir.level0.model as l0
from compiler.layers import KIND
from compiler.layers.shared.kind import Array

Elements = tuple[str, Array]
"""An input, and for each element of a layer's result the number of the input's element that it is."""


def whole_elements(inputs: Iterable[l0.TensorInput], layers: Iterable[l0.Layer]) -> dict[str, Elements]:
    """Those of every input and layer that holds whole numbers."""
    found = {i.name: (i.name, np.arange(prod(i.shape)).reshape(i.shape)) for i in inputs if i.dtype != "real"}
    for layer in layers:
        carries = KIND[layer.kind].carries
        if carries is not None and layer.inputs[0] in found:
            name, elements = found[layer.inputs[0]]
            found[layer.name] = name, carries(layer, elements)
    return found

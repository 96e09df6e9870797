"""Help for an array that does not hold samples of an input: channels last, one-hot or text labels, no batch.

Assumes: the array was refused.
Guarantees: following the help makes the array fit; None where there is no known fix.
Does not: refuse anything, or read arrays.
"""

from __future__ import annotations

import math

Shape = tuple[int, ...]


def sample_help(name: str, wanted: Shape, whole: bool, shape: Shape, kind: str, *, fixed: bool) -> str | None:
    """Args: name: of the input, whose samples have the shape `wanted`, integers if `whole`; shape, kind: of the
    array (NumPy's letter). `fixed`: the network is trained already, so that only the array can be changed."""
    if kind in "USO" and whole:
        return "number the classes from 0: `numpy.unique(labels, return_inverse=True)[1]`"
    if kind not in "fiub":
        return None
    if whole and not wanted and shape[1:] == (1,):
        return "save `array[:, 0]`, one number for each sample"
    if whole and not wanted and len(shape) == 2 and shape[1] > 1:
        return "these look like one-hot labels: save the numbers of the classes, `labels.argmax(axis=1)`"
    if whole and kind == "f" and shape[1:] == wanted:
        return 'save them as whole numbers: `array.astype("int32")`'
    if shape == wanted:
        return f"this looks like one sample: save `array[None]`, of the shape {list((1, *shape))}"
    return _other_order(name, wanted, shape, fixed) if shape else None


def _other_order(name: str, wanted: Shape, shape: Shape, fixed: bool) -> str | None:
    extents = shape[1:]
    if extents == wanted:
        return None
    if len(wanted) > 1 and extents == (*wanted[1:], wanted[0]):
        if fixed:
            return "the channels stand last: save `numpy.moveaxis(array, -1, 1)`"
        axes = [len(extents) - 1, *range(len(extents) - 1)]
        declare = f"declare `{name}: {{shape: {list(extents)}}}`"
        return f"the channels stand last: {declare} and begin with the layer `- permute: {{axes: {axes}}}`"
    if len(wanted) == len(extents) > 1 and wanted == (*extents[1:], extents[0]) and not fixed:
        return f"the channels stand first: declare `{name}: {{shape: {list(extents)}}}`, as the layers read them"
    if math.prod(extents) == math.prod(wanted) and extents and wanted:
        if fixed:
            return f"save `array.reshape({', '.join(map(str, (-1, *wanted)))})`"
        declare = f"declare `{name}: {{shape: {list(extents)}}}`"
        return f"{declare} and begin with the layer `- reshape: {{shape: {list(wanted)}}}`"
    return None

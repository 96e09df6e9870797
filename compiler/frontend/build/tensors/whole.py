"""Whole numbers that layers move: several inputs of a layer, and numbers that it puts around them.

Assumes: layers in topological order, whose shapes are known.
Guarantees: a layer reads whole numbers or real ones, not both; what it puts around whole numbers is one of them, and
within the rows of what reads it (E0501).
Does not: look at data (loss.py does).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import declared_at
from compiler.core.source import Span
from compiler.frontend.build.shared.values import Context
from compiler.layers import KIND
from compiler.layers.shared.elements import moved, whole_elements
from compiler.layers.shared.kind import LayerKind, article

MOST: Final = 1 << 27
"""Whole numbers of a sample that layers move."""


def check_alike(
    kind: LayerKind, whole: Sequence[str], real: Sequence[str], declared: Span, at: Span, c: Context
) -> None:
    """E0501 for a layer that reads whole numbers and real ones."""
    if real:
        message = f"`{whole[0]}` holds whole numbers and `{real[0]}` real ones; {article(kind.name)} {kind.name} layer"
        help = f"`- map: {{{whole[0]}_real: float({whole[0]})}}` before it makes real numbers of them"
        c.sink.error("E0501", f"{message} reads one kind", at, help, declared_at(declared))


def check_fixed(
    inputs: Iterable[l0.TensorInput], layers: Sequence[l0.Layer], whole: Collection[str], c: Context
) -> None:
    """E0501 for numbers around whole ones that are none, or that a layer behind them has no row for. `whole`: inputs
    and layers that hold whole numbers."""
    before = len(c.sink.items)
    for layer in layers:
        value = dict(layer.attrs).get("value")
        moves = KIND[layer.kind].carries is not None and layer.name in whole
        if not moves or not isinstance(value, int | float):
            continue
        if not float(value).is_integer() or abs(value) >= 2**31:
            message = f"`{layer.inputs[0]}` holds whole numbers, of 32 bits, and `{layer.name}` puts {value:g} there"
            c.sink.error("E0501", message, layer.span, "give it a `value` that is a whole number")
    inputs = list(inputs)
    held = moved(layers)
    for item in inputs:
        if item.dtype != "real" and item.name in held and prod(item.shape) > MOST:
            message = f"`{item.name}` has {prod(item.shape)} whole numbers a sample, and layers move at most {MOST}"
            c.sink.error("E0501", message, item.span)
    if c.sink.failed(before):
        return
    read = whole_elements(inputs, layers)
    for layer in layers:
        limit = KIND[layer.kind].limit(layer)
        numbers = () if limit is None else (int(n) for n in read.numbers(layer.inputs[0]))
        outside = [] if limit is None else [n for n in numbers if not 0 <= n < limit[0]]
        if limit is not None and outside:
            message = f"{limit[1]}; a pad layer before it puts {outside[0]} there"
            c.sink.error("E0501", message, layer.span, "give the pad layer a `value` among these")

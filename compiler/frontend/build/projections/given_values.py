"""Values given one by one, as lists or arrays, for rules whose connections follow from the populations.

Assumes: the values of one member are known.
Guarantees: of `all_to_all` a matrix, source by source, also in one row; of `one_to_one` one value for each neuron.
Does not: leave out pairs that are not connected (passes/projections/synapse_arrays.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import compiler.ir.level0.model as l0
from compiler.connect import ConnectRule
from compiler.files.array_files import Header, headers
from compiler.frontend.build.spiking.family import Family
from compiler.frontend.build.synapses.use import Settings


@dataclass
class GivenValues:
    """The values of one family; an error is reported once."""

    rule: ConnectRule
    family: Family
    known: set[object] = field(default_factory=set)

    def check(
        self, weight: l0.Value | None, own: Settings | None, delays: tuple[object, object], source: str, target: str
    ) -> None:
        """E0703 where a list or an array does not have a value for each pair of the two populations."""
        a, b = self.family.drawn(source, target)
        shape = self.rule.shape(a.size, b.size)
        for what, value in _listed(weight, own, delays) if shape is not None else ():
            key = (id(value), shape)
            if shape is None or key in self.known:
                continue
            self.known.add(key)
            found = (len(value.values),) if isinstance(value, l0.Listed) else _shape(value)
            if found is not None and found not in (shape, (math.prod(shape),)):
                wanted = " x ".join(f"{n:,}" for n in shape)
                each = "pair of a source and a target" if len(shape) == 2 else "neuron"
                has = f"the list has {found[0]:,}" if isinstance(value, l0.Listed) else f"the array has {list(found)}"
                message = f"{what} needs {wanted} numbers, one for each {each}; {has}"
                self.family.c.sink.error("E0703", message, value.span)


def _listed(
    weight: l0.Value | None, own: Settings | None, delays: tuple[object, object]
) -> Iterator[tuple[str, l0.Listed | l0.FromFile]]:
    if isinstance(weight, l0.Listed | l0.FromFile):
        yield "`weight`", weight
    for what, each in zip(("`delay`", "`back_delay`"), delays, strict=True):
        if isinstance(each, l0.Listed):
            yield what, each
    for name, value in (x for part in own or () for x in part):
        if isinstance(value, l0.Listed | l0.FromFile):
            yield f"`{name}`", value


def _shape(value: l0.FromFile) -> tuple[int, ...] | None:
    """The shape of an array in a file; None where that is known to its reader alone (.csv)."""
    header = header_of(value.path, value.array)
    return None if header is None else header.shape


def header_of(path: str, array: str | None) -> Header | None:
    """The header of an array; None for formats without one (.csv)."""
    try:
        return headers(Path(path)).get(array or "")
    except (OSError, ValueError):
        return None

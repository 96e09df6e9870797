"""Timed arrays: piecewise constant values over time.

Assumes: the block `timed` has been validated.
Guarantees: each array has a length, a dimension and an integer number of steps per value; they are added to the
context's scope, so that expressions may read them wherever `t` is in scope.
Does not: read the arrays of files beyond their headers (except .csv, which has none).
"""

from __future__ import annotations

import math
from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.expr.functions import FUNCTIONS
from compiler.expr.units import DIMENSIONLESS, Dimension, canonical_name, parse_unit
from compiler.files.array_files import read_array
from compiler.frontend.build.shared.data_files import check_array
from compiler.frontend.build.shared.definition_builder import unit_dimension
from compiler.frontend.build.shared.readers import members
from compiler.frontend.build.shared.scope import TimedName
from compiler.frontend.build.shared.values import Context, Names, Step, mapping, number_and_dimension, text_of
from compiler.frontend.build.spiking.drives import NOISE
from compiler.frontend.language.spiking.currents import TIMED
from compiler.frontend.schema.wording import suggested
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar, Sequence


def build_timed(node: Node | None, c: Context, step: Step | None) -> tuple[l0.TimedArray, ...]:
    """The timed arrays of the file that have values; those with errors are declared (of any dimension), and those of
    layers, which have a column for each neuron."""
    out: list[l0.TimedArray] = []
    known: dict[str, TimedName] = {}
    scope = c.names.scope
    for name, r, at in members(TIMED, node, c):
        if name in FUNCTIONS or name in scope.arities:
            kind = "a built-in function" if name in FUNCTIONS else "a function of the file"
            kind = "a lookup table" if name in scope.tables else kind
            c.sink.error("E0107", f"`{name}` is {kind} and cannot name a timed array", at, "choose another name")
            continue
        if NOISE.fullmatch(name):
            c.sink.error("E0107", f"`{name}` is white noise and cannot name a timed array", at, "choose another name")
            continue
        known[name] = TimedName(name, None, False, broken=True)
        unit_node = r.get("unit")
        dimension = None if unit_node is None else unit_dimension(unit_node, c)
        if unit_node is not None and dimension is None:
            continue
        if (
            r.get("layer") is not None
        ):  # its shape is known when the network is built (frontend/build/trials/driving.py)
            known[name] = TimedName(name, dimension or DIMENSIONLESS, True)
            continue
        found = values_of(r.get("values"), dimension, text_of(unit_node), f"the values of `{name}`", c)
        if found is None:
            continue
        values, rows, columns, dimension = found
        known[name] = TimedName(name, dimension, columns > 0)
        phase = _phase(r.get("each"), c)
        every = None if step is None else r.steps("every", step, f"`every` of `{name}`")
        if phase is not None:
            every = phase.every
        if every is not None:
            unit, order = canonical_name(dimension), r.word("order")
            named, smooth = None if phase is None else phase.name, r.flag("interpolate")
            out.append(l0.TimedArray(name, values, rows, columns, every, smooth, unit, named, order, at))
    if known:
        c.names = Names(replace(scope, timed=known), c.names.numbers)
    return tuple(out)


def _phase(node: Node | None, c: Context) -> l0.PhaseDef | None:
    """The phase whose trials take a value each; None without one, and after an error."""
    if not isinstance(node, Scalar):
        return None
    phases = {p.name: p for p in c.phases}
    if node.text not in phases:
        help = suggested(node.text, "there are", phases, "declare it in `phases`")
        c.sink.error("E0201", f"there is no phase `{node.text}`", node.span, help)
    return phases.get(node.text)


def values_of(
    node: Node | None, dimension: Dimension | None, unit: str, what: str, c: Context
) -> tuple[l0.Listed | l0.FromFile, int, int, Dimension] | None:
    """Values over time: a list (of rows), or an array in a file; rows, columns (0: one axis) and dimension. `unit`: of
    bare numbers ("": dimensionless). None after an error."""
    parsed = parse_unit(unit) if unit else None
    factor = None if parsed is None else float(parsed[1])
    if isinstance(node, Sequence):
        return _listed(node, dimension, factor, what, c)
    block = mapping(node)
    if block is not None:
        return _from_file(block, dimension, 1.0 if factor is None else factor, what, c)
    if node is not None:
        c.sink.error("E0102", f"{what} must be a list, or an array in a file", node.span)
    return None


def _listed(
    node: Sequence, dimension: Dimension | None, factor: float | None, what: str, c: Context
) -> tuple[l0.Listed, int, int, Dimension] | None:
    rows = [item.items if isinstance(item, Sequence) else (item,) for item in node.items]
    columns = len(rows[0]) if rows and isinstance(node.items[0], Sequence) else 0
    numbers: list[float] = []
    wrong = False
    for item, row in zip(node.items, rows, strict=True):
        if isinstance(item, Sequence) != (columns > 0) or len(row) != max(columns, 1):
            message = f"the rows of {what} differ in length"
            c.sink.error("E0703", message, item.span, "each row has a value for each neuron")
            return None
        for value in row:
            bare = value.value if isinstance(value, Scalar) else None
            if factor is not None and isinstance(bare, int | float):
                numbers.append(float(bare) * factor)
                continue
            found = number_and_dimension(value, c, f"each of {what}", dimension)
            if found is None or not math.isfinite(found[0]):
                if found is not None:
                    c.sink.error("E0106", f"each of {what} must be finite", value.span)
                wrong = True
                continue
            dimension = dimension if dimension is not None else found[1]
            numbers.append(float(found[0]))
    return None if wrong else (l0.Listed(tuple(numbers), node.span), len(rows), columns, dimension or DIMENSIONLESS)


def _from_file(
    block: tree.Mapping, dimension: Dimension | None, factor: float, what: str, c: Context
) -> tuple[l0.FromFile, int, int, Dimension] | None:
    file, found = block.get("file"), check_array(block, c)
    if found is None or not isinstance(file, Scalar):
        return None
    path, name, header = found
    if header is not None:
        shape = tuple(header.shape)
    else:
        try:
            shape = read_array(path, name).shape
        except (OSError, ValueError) as error:
            c.sink.error("E0703", f"`{file.text}` cannot be read: {str(error)[:120]}", file.span)
            return None
    if not shape or 0 in shape:
        message = f"{what} must have one axis (times), or more (times, neurons); the array has the shape {list(shape)}"
        c.sink.error("E0703", message, (block.get("array") or file).span)
        return None
    columns = math.prod(shape[1:]) if len(shape) > 1 else 0  # of a population with a shape there are several axes
    values = l0.FromFile(str(path), name, factor, block.span)
    return values, shape[0], columns, dimension or DIMENSIONLESS

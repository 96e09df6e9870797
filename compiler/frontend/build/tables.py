"""Lookup tables: functions given by their values.

Assumes: the block `tables` has been validated.
Guarantees: each table has a range, at least two values, and the dimensions of its argument and its values; expressions
call it as a function of the file, checked units included.
Does not: read the arrays of files beyond their headers (except .csv, which has none).
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.core.source import Span
from compiler.expr.ast import Call, Expr, Quantity, Ref
from compiler.expr.functions import FUNCTIONS, table_call
from compiler.expr.inline import Definition
from compiler.expr.units import DIMENSIONLESS, Dimension, canonical_name
from compiler.frontend.build.shared.definition_builder import unit_dimension
from compiler.frontend.build.shared.readers import Reader, members
from compiler.frontend.build.shared.values import Context, Names, number_and_dimension, text_of
from compiler.frontend.build.spiking.timed import values_of
from compiler.frontend.language.spiking.currents import TABLES
from compiler.frontend.yaml.tree import Node

MOST = 1 << 24
"""Places of values are counted in float32."""


def build_tables(node: Node | None, c: Context) -> tuple[l0.LookupTable, ...]:
    """The lookup tables of the file, which the context's scope has as functions; those with errors are broken ones."""
    out: list[l0.LookupTable] = []
    functions: dict[str, Definition] = {}
    broken: set[str] = set()
    arguments: dict[str, Dimension] = {}
    for name, r, at in members(TABLES, node, c):
        if name in FUNCTIONS:
            c.sink.error("E0107", f"`{name}` is a built-in function and cannot name a table", at, "choose another name")
            continue
        found = _table(name, r, at, c)
        arguments[name] = DIMENSIONLESS if found is None else found[1]
        if found is None:
            broken.add(name)
            continue
        table, of = found
        out.append(table)
        functions[name] = Definition(name, ("x",), _body(table, of))
    if functions or broken:
        scope = c.names.scope
        arities = {**scope.arities, **dict.fromkeys((*functions, *broken), 1)}
        arities |= dict.fromkeys(map(table_call, functions), 1)
        scope = replace(scope, functions=functions, arities=arities, broken=frozenset(broken), tables=arguments)
        c.names = Names(scope, c.names.numbers)
    return tuple(out)


def _body(table: l0.LookupTable, of: Dimension) -> Expr:
    """What a call stands for: the table itself is a function of a number without a unit, and gives one."""
    x: Expr = Ref("x")
    value: Expr = Call(table_call(table.name), (x if of == DIMENSIONLESS else x / Quantity(1.0, canonical_name(of)),))
    return value if table.unit == "1" else value * Quantity(1.0, table.unit)


def _table(name: str, r: Reader, at: Span, c: Context) -> tuple[l0.LookupTable, Dimension] | None:
    """The table, and the dimension of its argument; None after an error."""
    unit_node, low_node, high_node = r.get("unit"), r.get("from"), r.get("to")
    dimension = None if unit_node is None else unit_dimension(unit_node, c)
    if low_node is None or high_node is None or (unit_node is not None and dimension is None):
        return None
    found = values_of(r.get("values"), dimension, text_of(unit_node), f"the values of `{name}`", c)
    low = number_and_dimension(low_node, c, f"`from` of `{name}`", None)
    high = None if low is None else number_and_dimension(high_node, c, f"`to` of `{name}`", low[1] or DIMENSIONLESS)
    if found is None or low is None or high is None:
        return None
    values, rows, columns, dimension = found
    if columns or not 2 <= rows <= MOST:
        has = "two axes" if columns else "one value" if rows == 1 else f"{rows:,} values"
        message = f"the values of `{name}` must be a list of 2 to {MOST:,} numbers; this has {has}"
        c.sink.error("E0703", message, values.span)
        return None
    if not low[0] < high[0]:
        message = f"`to` of `{name}` must be above its `from`"
        c.sink.error("E0106", message, high_node.span, "the values are those from `from` to `to`, evenly spaced")
        return None
    table = l0.LookupTable(name, values, rows, float(low[0]), float(high[0]), canonical_name(dimension), at)
    return table, low[1] or DIMENSIONLESS

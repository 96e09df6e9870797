"""Values needed during expansion: parameters, counts, ends of ranges.

Assumes: compiler/expr; scalars of a located tree.
Guarantees: every error is a diagnostic at the relevant part of the scalar.
Does not: depend on the purpose of a value.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.core.diagnostics import Sink
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Bool, Expr, Num
from compiler.expr.check import infer_dimension
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.parse import parse_expr
from compiler.expr.types import Kind, check_types
from compiler.expr.units import DIMENSIONLESS, Dimension
from compiler.frontend.yaml.tree import Node, Scalar


@dataclass(frozen=True)
class ParamValue:
    """A model parameter with its value in this run.

    `value` is in canonical units; `kind` is "float", "int" or "bool"; `changed`: by `--set`.
    """

    name: str
    kind: str
    value: float | int | bool
    dimension: Dimension = DIMENSIONLESS
    min: float | int | None = None
    max: float | int | None = None
    doc: str = ""
    changed: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Evaluated:
    """A number (or Boolean) in canonical units, and its dimension (None: may have any)."""

    value: float | int | bool
    dimension: Dimension | None
    expr: Expr


def exact_span(scalar: Scalar) -> tuple[Span, bool]:
    """The span of `scalar.text`, and whether it matches the source character by character."""
    span = scalar.span
    written = span.file.text[span.start : span.end]
    if written == scalar.text:
        return span, True
    if written[1:-1] == scalar.text and written[:1] in ("'", '"'):
        return Span(span.file, span.start + 1, span.end - 1, span.via), True
    return span, False


def expression_of(scalar: Scalar, sink: Sink, names: Container[str] = ()) -> Expr | None:
    """The expression denoted by a scalar; None after an error."""
    match scalar.value:
        case bool(value):
            return Bool(value, scalar.span)
        case int(value) | float(value):
            return Num(value, scalar.span)
        case None:
            sink.error("E0102", "a value is missing here", scalar.span)
            return None
        case str():
            span, exact = exact_span(scalar)
            return parse_expr(scalar.text, span, sink, exact=exact, names=names)


def numbers(params: Mapping[str, ParamValue]) -> dict[str, Any]:
    """The parameters that expressions may use, as an environment for `evaluate`."""
    return {p.name: p.value for p in params.values()}


def kind_of_value(value: object) -> Kind:
    """The kind of a name with this value in expressions."""
    if isinstance(value, bool):
        return Kind.BOOL
    return Kind.INT if isinstance(value, int) else Kind.REAL


def value_of(node: Node, params: Mapping[str, ParamValue], sink: Sink, what: str) -> Evaluated | None:
    """The value of an expression over `params`; None after an error. `what` is for messages."""
    if not isinstance(node, Scalar):
        sink.error("E0102", f"{what} must be a number or an expression", node.span)
        return None
    before = len(sink.items)
    expr = expression_of(node, sink, params)
    if expr is None:
        return None
    env = numbers(params)
    check_types(expr, {name: kind_of_value(v) for name, v in env.items()}, sink)
    if len(sink.items) > before:
        return None
    dimension = infer_dimension(expr, {n: params[n].dimension for n in env}, sink)
    if len(sink.items) > before:
        return None
    try:
        value = evaluate(expr, env)
    except ExprError as error:
        at = error.span if error.span is not NOWHERE else node.span
        sink.error("E0208", f"{what} has no value: {error.message}", at)
        return None
    return Evaluated(value, dimension, expr)


def whole_number(
    node: Node, params: Mapping[str, ParamValue], sink: Sink, what: str, low: int, high: int
) -> int | None:
    """A count: the value of `node` when it is an integer from `low` to `high`."""
    found = value_of(node, params, sink, what)
    if found is None:
        return None
    value = found.value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if found.dimension not in (None, DIMENSIONLESS):
        sink.error("E0208", f"{what} must be a number without unit", node.span)
    elif isinstance(value, bool) or not isinstance(value, int):
        sink.error("E0208", f"{what} must be a whole number; it is {value}", node.span)
    elif not low <= value <= high:
        message = f"{what} must be from {low:,} to {high:,}; it is {value:,}"
        sink.error("E0208", message, node.span)
    else:
        return value
    return None

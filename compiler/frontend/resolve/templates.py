"""Templates of names and expressions, compiled once for all copies of a block.

Assumes: a loop whose variables have values for all copies; parameters have values.
Guarantees: an expression over loop variables and parameters is evaluated for all copies at once; variables are
substituted in other texts. Subtrees without a variable are shared by all copies; the others record their copy. An
error in a template is reported once.
Does not: read the `for` clause (for_.py), or change keys inside a block, or descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Params
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from compiler.core.diagnostics import Sink
from compiler.core.source import Origin, Span
from compiler.expr.ast import Call, Expr, children, refs
from compiler.expr.check import infer_dimension
from compiler.expr.functions import CONSTANTS, FUNCTIONS
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.parse import parse_expr
from compiler.expr.scan import MAX_LENGTH
from compiler.expr.types import Kind, check_types
from compiler.expr.units import DIMENSIONLESS, Dimension, canonical_name, unit_word
from compiler.frontend.resolve.values import ParamValue, exact_span, expression_of, kind_of_value, numbers
from compiler.frontend.yaml.core_schema import Value
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Scalar, Sequence, append_origin

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_NOT_SUBSTITUTED: Final = frozenset({"description"})

Build: TypeAlias = Callable[[int, Origin], Node]


@dataclass(frozen=True)
class Variable:
    """One loop variable over all copies. `numbers` (canonical units) is None for names."""

    name: str
    texts: list[str]
    numbers: np.ndarray[Any, Any] | None
    dimension: Dimension = DIMENSIONLESS


@dataclass(frozen=True)
class Loop:
    """All copies of one block: the columns of its variables, each `count` long."""

    count: int
    variables: tuple[Variable, ...]
    span: Span

    def label(self, k: int) -> str:
        return "for " + ", ".join(f"{v.name} = {v.texts[k]}" for v in self.variables)


def written(value: float | int | bool, dimension: Dimension) -> str:
    """A number in canonical units, in source syntax."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if dimension.dimensionless:
        return f"{value!r}"
    unit = canonical_name(dimension)
    # A quantity is a number and a unit that begins with a letter.
    return f"{value!r} / (1 {unit[2:]})" if unit.startswith("1/") else f"{value!r} {unit}"


def outward(via: Origin | None, origin: Origin) -> Origin:
    """`origin` appended to the existing steps of a span."""
    return origin if via is None else append_origin(via, origin)


class Templates:
    """Compiles the nodes of a block to functions of the copy's index."""

    def __init__(self, loop: Loop, params: Params[str, ParamValue], sink: Sink) -> None:
        self.loop, self.sink = loop, sink
        self.by_name = {v.name: v for v in loop.variables}
        env: dict[str, Any] = numbers(params)
        self.kinds = {name: kind_of_value(v) for name, v in env.items()}
        self.dimensions = {name: params[name].dimension for name in env}
        for v in loop.variables:
            if v.numbers is not None:
                env[v.name] = v.numbers
                self.kinds[v.name] = Kind.INT if v.numbers.dtype.kind == "i" else Kind.REAL
                self.dimensions[v.name] = v.dimension
        self.env = env
        words = "|".join(sorted(self.by_name, key=len, reverse=True))
        self.mention = re.compile(rf"(?<![\w.])(?:{words})(?!\w)", re.ASCII)

    def compile(self, node: Node) -> Build | None:
        """A function from a copy's index and origin to its node; None when all copies share it."""
        match node:
            case Scalar():
                return self._scalar(node)
            case Sequence(items=items):
                return self._sequence(node, [self.compile(i) for i in items])
            case Mapping(entries=entries):
                builds = [None if e.name in _NOT_SUBSTITUTED else self.compile(e.value) for e in entries]
                return self._mapping(node, builds)

    def _sequence(self, node: Sequence, builds: list[Build | None]) -> Build | None:
        if not any(builds):
            return None
        parts = list(zip(node.items, builds, strict=True))
        file, start, end, via = node.span.file, node.span.start, node.span.end, node.span.via

        def build(k: int, origin: Origin) -> Node:
            items = [i if b is None else b(k, origin) for i, b in parts]
            return Sequence(tuple(items), Span(file, start, end, outward(via, origin)))

        return build

    def _mapping(self, node: Mapping, builds: list[Build | None]) -> Build | None:
        if not any(builds):
            return None
        parts = [(e, e.key, b) for e, b in zip(node.entries, builds, strict=True)]
        file, start, end, via = node.span.file, node.span.start, node.span.end, node.span.via

        def build(k: int, origin: Origin) -> Node:
            entries = [e if b is None else Entry(key, b(k, origin)) for e, key, b in parts]
            return Mapping(tuple(entries), Span(file, start, end, outward(via, origin)))

        return build

    def _scalar(self, node: Scalar) -> Build | None:
        if not isinstance(node.value, str):
            return None
        values: list[Value]
        texts: list[str]
        if "{" in node.text:
            names = self.names(node)
            if names is None:
                return None
            values, texts = [*names], names
        elif self.mention.search(node.text):
            found = self._expression(node)
            if found is None:
                return None
            values, texts = found
        else:
            return None
        file, start, end, via = node.span.file, node.span.start, node.span.end, node.span.via

        def build(k: int, origin: Origin) -> Node:
            return Scalar(values[k], texts[k], True, Span(file, start, end, outward(via, origin)))

        return build

    # ---------------------------------------------------------------------------------- names

    def names(self, node: Scalar) -> list[str] | None:
        """The texts of a template such as `p{(i + 1) % n}` for all copies; None after an error."""
        pieces = _BRACES.split(node.text)  # text, expression, text, expression, ..., text
        if any("{" in piece or "}" in piece for piece in pieces[::2]):
            message = "braces in a name do not match"
            self.sink.error("E0209", message, node.span, "write `p{i}` or `p{(i + 1) % n}`")
            return None
        span, exact = exact_span(node)
        columns: list[list[str]] = []
        at = span.start
        for number, piece in enumerate(pieces):
            if number % 2 == 0:
                columns.append([piece] * self.loop.count)
                at += len(piece) + 1
                continue
            place = Span(span.file, at, at + len(piece), span.via) if exact else node.span
            column = self._braced(piece, place, exact)
            if column is None:
                return None
            columns.append(column)
            at += len(piece) + 1
        return ["".join(row) for row in zip(*columns, strict=True)]

    def _braced(self, text: str, place: Span, exact: bool) -> list[str] | None:
        variable = self.by_name.get(text.strip())
        if variable is not None and variable.numbers is None:
            return variable.texts
        lead = len(text) - len(text.lstrip())
        here = Span(place.file, place.start + lead, place.end, place.via) if exact else place
        expr = parse_expr(text.strip(), here, self.sink, units=False, exact=exact)
        if expr is None:
            return None
        before = len(self.sink.items)
        check_types(expr, self.kinds, self.sink)
        if len(self.sink.items) > before:
            return None
        column = self._evaluate(expr, here)
        if column is None:
            return None
        whole = [int(v) if isinstance(v, float) and v.is_integer() else v for v in column]
        bad = next((v for v in whole if isinstance(v, float | bool) or v < 0), None)
        if bad is not None:
            message = f"`{{{text}}}` in a name must be a whole number from 0 on; it is {bad}"
            self.sink.error("E0209", message, here)
            return None
        return [str(v) for v in whole]

    # ------------------------------------------------------------------------------ expressions

    def _expression(self, node: Scalar) -> tuple[list[Value], list[str]] | None:
        """Values and texts for all copies of a string that mentions a loop variable."""
        if len(node.text) > MAX_LENGTH:  # no valid expression is that long, and there would be a copy for each number
            self.sink.error("E0301", f"the expression is longer than {MAX_LENGTH:,} characters", node.span)
            return None
        quiet = Sink()
        expr = expression_of(node, quiet, self.env)
        if expr is None or not self._can_evaluate(expr):
            return self._put_in(node)
        before = len(self.sink.items)
        check_types(expr, self.kinds, self.sink)
        if len(self.sink.items) > before:
            return None
        dimension = infer_dimension(expr, self.dimensions, self.sink) or DIMENSIONLESS
        if len(self.sink.items) > before:
            return None
        column = self._evaluate(expr, node.span)
        if column is None:
            return None
        texts = [written(v, dimension) for v in column]
        return ([*column] if dimension.dimensionless else [*texts]), texts

    def _can_evaluate(self, expr: Expr) -> bool:
        """Whether all names and functions in it are known here (others belong to later stages)."""
        if refs(expr) - self.env.keys() - CONSTANTS.keys():
            return False
        stack: list[Expr] = [expr]
        while stack:
            e = stack.pop()
            if isinstance(e, Call) and (e.func not in FUNCTIONS or FUNCTIONS[e.func].random):
                return False
            stack.extend(children(e))
        return True

    def _evaluate(self, expr: Expr, span: Span) -> list[Any] | None:
        """The values of all copies as Python numbers, all finite; None after an error."""
        try:
            value = np.asarray(evaluate(expr, self.env))
        except ExprError as error:
            self._no_value(error.message, error.span if error.span.file.text else span)
            return None
        column = np.broadcast_to(value, (self.loop.count,))
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            k = int(np.argmin(np.isfinite(column)))
            one = {n: v[k].item() if isinstance(v, np.ndarray) else v for n, v in self.env.items()}
            message = "the result is not finite"
            try:
                evaluate(expr, one)
            except ExprError as error:
                message = error.message
            self._no_value(f"{message} ({self.loop.label(k)})", span)
            return None
        values: list[Any] = column.tolist()
        return values

    def _no_value(self, message: str, span: Span) -> None:
        self.sink.error("E0209", f"this has no value: {message}", span)

    def _put_in(self, node: Scalar) -> tuple[list[Value], list[str]]:
        """The text with the variables substituted, for evaluation by a later stage."""
        pieces: list[str] = []
        columns: list[list[str]] = []
        at = 0
        for match in self.mention.finditer(node.text):
            word = match.group()
            before = node.text[: match.start()]
            if re.search(r"\d\s+\Z", before) and unit_word(word) is not None:
                continue  # a unit with the name of the variable
            variable = self.by_name[word]
            alone = re.compile(r"[\w.]+\Z", re.ASCII)
            columns.append([t if alone.match(t) else f"({t})" for t in variable.texts])
            pieces.append(node.text[at : match.start()])
            at = match.end()
        tail = node.text[at:]
        if not columns:
            texts = [node.text] * self.loop.count
        else:
            rows = zip(*columns, strict=True)
            texts = ["".join(p + t for p, t in zip(pieces, row, strict=True)) + tail for row in rows]
        return [*texts], texts

"""`for:` on blocks of named collections: many entries from one.

    p{i}:                                     # the key is a template for the names
      for: {i: 0..n - 1}                      # several variables make every combination, the last
      one fastest neuron: lif
      params: {tau_m: 20 ms + i / n * 5 ms}   # a variable is a number in expressions
      to: "p{(i + 1) % n}"                    # and an expression in braces in names

Assumes: parameters have values.
Guarantees: an expression over loop variables and parameters is evaluated here, for all copies at
once; other texts get the variable put in. Parts without a variable are shared by all copies; the
others remember their copy.
Does not: change keys inside of a block, descriptions, or blocks without `for`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Params
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from compiler.diagnostics import Related, Sink
from compiler.expr.ast import Call, Expr, children, refs
from compiler.expr.check import infer_dimension
from compiler.expr.functions import CONSTANTS, FUNCTIONS
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.parse import parse_expr
from compiler.expr.types import Kind, check_types
from compiler.expr.units import DIMENSIONLESS, Dimension, canonical_name, unit_word
from compiler.frontend.core_schema import Value
from compiler.frontend.resolve_classes import names_are_templates
from compiler.frontend.resolve_values import (
    ParamValue,
    exact_span,
    expression_of,
    kind_of_value,
    numbers,
    value_of,
    whole_number,
)
from compiler.frontend.tree import Entry, Mapping, Node, Scalar, Sequence, append_origin, kind_of, without
from compiler.source import Origin, Span

MAX_COPIES: Final = 100_000

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
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


def expand_for(
    blocks: Mapping,
    params: Params[str, ParamValue],
    sink: Sink,
    finish: Callable[[Mapping], Mapping] = lambda block: block,
) -> Mapping:
    """`blocks`, a named collection, with every entry that has a `for` replaced by its copies.

    `finish` is applied to copies whose classes depend on the loop (the others have theirs already).
    """
    if not any(_loop_entry(e) for e in blocks.entries):
        return blocks
    out: list[Entry] = []
    for entry in blocks.entries:
        if _loop_entry(entry) is None:
            out.append(entry)
        else:
            copies = _copies(entry, params, sink)
            if isinstance(entry.value, Mapping) and names_are_templates(entry.value):
                copies = [Entry(c.key, finish(c.value)) if isinstance(c.value, Mapping) else c for c in copies]
            out.extend(copies)
    return Mapping(tuple(_unique(out, sink)), blocks.span)


def _loop_entry(entry: Entry) -> Entry | None:
    return entry.value.entry("for") if isinstance(entry.value, Mapping) else None


def _unique(entries: Iterable[Entry], sink: Sink) -> Iterable[Entry]:
    first: dict[str, Entry] = {}
    told: set[tuple[int, int]] = set()
    for entry in entries:
        earlier = first.setdefault(entry.key.text, entry)
        place = (entry.key.span.start, earlier.key.span.start)
        if earlier is not entry and place not in told:
            told.add(place)  # one mistake gives as many equal names as there are copies
            help = "use every loop variable in the key, as in `p{i}`"
            related = (Related("the other one is here", earlier.key.span),)
            message = f"two entries are called `{entry.key.text}`"
            sink.error("E0207", message, entry.key.span, help, related)
    return first.values()


def _copies(entry: Entry, params: Params[str, ParamValue], sink: Sink) -> list[Entry]:
    block = entry.value
    assert isinstance(block, Mapping)
    clause = block.entry("for")
    assert clause is not None
    loop = _read_loop(clause, params, sink)
    if loop is None:
        return []
    templates = _Templates(loop, params, sink)
    key = templates.names(entry.key) if "{" in entry.key.text else None
    if key is None:
        if "{" not in entry.key.text and loop.count != 1:
            word = loop.variables[0].name
            help = f'put the variable into the key, as in `"{entry.key.text}{{{word}}}"`'
            message = f"all copies of `{entry.key.text}` would have the same name"
            sink.error("E0207", message, entry.key.span, help)
            return []
        if "{" in entry.key.text:
            return []
        key = [entry.key.text] * loop.count
    body = without(block, "for")
    build = templates.compile(body)
    at, file = entry.key.span, entry.key.span.file
    out: list[Entry] = []
    for k in range(loop.count):
        origin = Origin("for", loop.label(k), clause.key.span)
        here = Span(file, at.start, at.end, _with(at.via, origin))
        name = key[k]
        value = build(k, origin) if build is not None else _located(body, origin)
        out.append(Entry(Scalar(name, name, True, here), value))
    return out


def _with(via: Origin | None, origin: Origin) -> Origin:
    return origin if via is None else append_origin(via, origin)


def _located(block: Mapping, origin: Origin) -> Mapping:
    span = block.span
    return Mapping(block.entries, Span(span.file, span.start, span.end, _with(span.via, origin)))


# ------------------------------------------------------------------------------------ the clause


def _read_loop(clause: Entry, params: Params[str, ParamValue], sink: Sink) -> Loop | None:
    block = clause.value
    if not isinstance(block, Mapping) or not block.entries:
        help = "write `for: {i: 0..9}`"
        sink.error("E0208", f"`for` needs a loop variable, not {kind_of(block)}", block.span, help)
        return None
    singles: list[Variable] = []
    for entry in block.entries:
        name = entry.name
        if not _NAME.match(name):
            sink.error("E0107", f"`{name}` is not a good name for a variable", entry.key.span)
            return None
        if name in params:
            message = f"the loop variable `{name}` has the name of a parameter"
            related = (Related("the parameter is here", params[name].span),)
            sink.error("E0107", message, entry.key.span, "choose another name", related)
            return None
        found = _values(entry, params, sink)
        if found is None:
            return None
        singles.append(found)
    count = math.prod(len(v.texts) for v in singles)
    if count > MAX_COPIES:
        message = f"`for` makes {count:,} copies; at most {MAX_COPIES:,} are allowed"
        sink.error("E0208", message, block.span)
        return None
    if len(singles) == 1:
        return Loop(count, tuple(singles), clause.key.span)
    grid = list(itertools.product(*(range(len(v.texts)) for v in singles)))
    columns = []
    for position, v in enumerate(singles):
        picks = [row[position] for row in grid]
        values = None if v.numbers is None else v.numbers[picks]
        columns.append(Variable(v.name, [v.texts[p] for p in picks], values, v.dimension))
    return Loop(count, tuple(columns), clause.key.span)


def _values(entry: Entry, params: Params[str, ParamValue], sink: Sink) -> Variable | None:
    node, name = entry.value, entry.name
    if isinstance(node, Sequence):
        return _listed(name, node, params, sink)
    if isinstance(node, Scalar):
        if isinstance(node.value, str) and ".." in node.text:
            ends = _ends(node, params, sink)
        else:
            high = whole_number(node, params, sink, f"the number of `{name}`", 0, MAX_COPIES)
            ends = None if high is None else (0, high - 1)
        if ends is None:
            return None
        low, high = ends
        if high < low - 1:
            message = f"the range from {low} to {high} runs backwards"
            sink.error("E0208", message, node.span)
            return None
        if high - low >= MAX_COPIES:
            message = f"the range has {high - low + 1:,} values; at most {MAX_COPIES:,} are allowed"
            sink.error("E0208", message, node.span)
            return None
        values = np.arange(low, high + 1, dtype=np.int64)
        return Variable(name, [str(v) for v in values.tolist()], values)
    help = "write a range `0..9`, a number or a list"
    sink.error("E0208", f"`{name}` cannot run over {kind_of(node)}", node.span, help)
    return None


def _ends(node: Scalar, params: Params[str, ParamValue], sink: Sink) -> tuple[int, int] | None:
    """Both ends of `a..b`, included."""
    low_text, _, high_text = node.text.partition("..")
    span, exact = exact_span(node)
    found: list[int] = []
    at = 0
    for text, word in ((low_text, "first"), (high_text, "last")):
        stripped = text.strip()
        begin = span.start + at + len(text) - len(text.lstrip())
        part = Span(span.file, begin, begin + len(stripped), span.via) if exact else span
        if not stripped:
            sink.error("E0208", f"the {word} value of the range is missing", node.span)
            return None
        bound = 1 << 53
        what = f"the {word} value"
        end = whole_number(Scalar(stripped, stripped, True, part), params, sink, what, -bound, bound)
        if end is None:
            return None
        found.append(end)
        at = len(low_text) + 2
    return found[0], found[1]


def _listed(name: str, node: Sequence, params: Params[str, ParamValue], sink: Sink) -> Variable | None:
    """`[1, 2, 5]`, `[1 ms, 2 ms]` or `[V1, V2]`: all numbers of one dimension, or all names."""
    items = [i for i in node.items if isinstance(i, Scalar) and i.value is not None]
    if len(items) != len(node.items) or not items:
        help = "write a list of numbers or of names"
        sink.error("E0208", f"`{name}` cannot run over this list", node.span, help)
        return None
    if all(isinstance(i.value, str) and _NAME.match(i.text) and i.text not in params for i in items):
        return Variable(name, [i.text for i in items], None)
    found = [value_of(i, params, sink, f"a value of `{name}`") for i in items]
    values = [f for f in found if f is not None]
    if len(values) != len(found):
        return None
    dimensions = {f.dimension for f in values if f.dimension is not None}
    if len(dimensions) > 1:
        sink.error("E0401", f"the values of `{name}` have different dimensions", node.span)
        return None
    dimension = next(iter(dimensions), DIMENSIONLESS)
    column = np.array([f.value for f in values])
    if column.dtype.kind not in "if":
        sink.error("E0208", f"the values of `{name}` must be numbers", node.span)
        return None
    return Variable(name, [_text(v, dimension) for v in column.tolist()], column, dimension)


def _text(value: float | int | bool, dimension: Dimension) -> str:
    """A number in canonical units as it would be written in a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value!r}" if dimension.dimensionless else f"{value!r} {canonical_name(dimension)}"


# --------------------------------------------------------------------------------- the templates


class _Templates:
    """Compiles the nodes of a block to functions of the copy's number."""

    def __init__(self, loop: Loop, params: Params[str, ParamValue], sink: Sink) -> None:
        self.loop, self.sink = loop, sink
        self.by_name = {v.name: v for v in loop.variables}
        env: dict[str, Any] = numbers(params)
        self.names = self._name_column
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
        """A function from a copy's number and origin to its node; None when all copies share it."""
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
            return Sequence(tuple(items), Span(file, start, end, _with(via, origin)))

        return build

    def _mapping(self, node: Mapping, builds: list[Build | None]) -> Build | None:
        if not any(builds):
            return None
        parts = [(e, e.key, b) for e, b in zip(node.entries, builds, strict=True)]
        file, start, end, via = node.span.file, node.span.start, node.span.end, node.span.via

        def build(k: int, origin: Origin) -> Node:
            entries = [e if b is None else Entry(key, b(k, origin)) for e, key, b in parts]
            return Mapping(tuple(entries), Span(file, start, end, _with(via, origin)))

        return build

    def _scalar(self, node: Scalar) -> Build | None:
        if not isinstance(node.value, str):
            return None
        values: list[Value]
        texts: list[str]
        if "{" in node.text:
            names = self._name_column(node)
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
            return Scalar(values[k], texts[k], True, Span(file, start, end, _with(via, origin)))

        return build

    # ---------------------------------------------------------------------------------- names

    def _name_column(self, node: Scalar) -> list[str] | None:
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
        texts = [_text(v, dimension) for v in column]
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
        """The text with the variables put in, for what is evaluated by a later stage."""
        pieces: list[str] = []
        columns: list[list[str]] = []
        at = 0
        for match in self.mention.finditer(node.text):
            word = match.group()
            before = node.text[: match.start()]
            if re.search(r"\d\s+\Z", before) and unit_word(word) is not None:
                continue  # a unit that has the name of the variable
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

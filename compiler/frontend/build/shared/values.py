"""Numbers of a model file: quantities, integers, time steps, distributions, arrays in files.

Assumes: the values of the parameters are known (resolve has run).
Guarantees: numbers are in canonical units and have the required dimension; each error is one diagnostic at its span,
and gives None. A parameter of a definition that nothing reads is a warning (W0002), unless there are errors.
Does not: read arrays (files are checked by data_files.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Sink
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Bool, Expr, Num, refs, substitute
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.units import DIMENSIONLESS, FREQUENCY, Dimension, canonical_name, parse_unit, to_canonical
from compiler.frontend.build.shared.scope import Scope, Wanted, check_expression
from compiler.frontend.schema.wording import found
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Entry, Node, Scalar, Sequence

_Place = tuple[str, int]


@dataclass
class Unread:
    """Parameters that their own definition does not read, and spans of those that are read elsewhere."""

    candidates: list[tuple[str, Span]] = field(default_factory=list)
    _read: set[_Place] = field(default_factory=set)

    def read(self, places: Iterable[Span]) -> None:
        """The parameters declared at `places` are read."""
        self._read.update((p.file.path, p.start) for p in places)

    def warn(self, sink: Sink) -> None:
        if sink.failed():
            return
        for what, at in self.candidates:
            if (at.file.path, at.start) not in self._read:
                sink.warning("W0002", f"nothing reads parameter {what}", at)


_QUANTITY: Final = re.compile(
    r"\s*(-?(?:\d{1,18}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?)\s*([A-Za-z]\w*)\s*", re.ASCII
)


_LARGEST: Final = 1 << 63


@dataclass(frozen=True)
class Names:
    """A scope of constants: the names of expressions, and their values."""

    scope: Scope
    numbers: Mapping[str, Any]


@dataclass
class Context:
    """Shared context of the builders. `folder`: that of the model file. `unread`: files that may be missing, because
    others replace them: "data" (of the training), "weights", "init" (of a layer). `between`: called between parts of
    long work; it may raise, to end it. `known`: the values in `names` of nodes, which copies of a block share; `drawn`:
    those of distributions that read nothing, with their dimension and what they belong to."""

    sink: Sink
    names: Names
    folder: Path
    phases: tuple[l0.PhaseDef, ...] = ()
    unread: frozenset[str] = frozenset()
    unread_params: Unread = field(default_factory=Unread)
    between: Callable[[], object] = object
    known: dict[int, tuple[Node, tuple[float | int, Dimension | None]]] = field(default_factory=dict, repr=False)
    drawn: dict[int, tuple[Node, Dimension | None, str, tuple[l0.Value | None, Dimension | None]]] = field(
        default_factory=dict, repr=False
    )


@lru_cache(maxsize=65536)
def quantity(text: str) -> tuple[float, Dimension] | None:
    """A literal quantity such as "20 ms"; None for anything else."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    unit = parse_unit(match[2])
    if unit is None:
        return None
    try:
        number = match[1]
        return to_canonical(int(number) if number.lstrip("-").isdigit() else float(number), match[2]), unit[0]
    except (OverflowError, ValueError):
        return None


def plain_number(node: Node) -> tuple[float | int, Dimension | None] | None:
    """A literal number or quantity, the common case, with its dimension (None: any); else None."""
    if not isinstance(node, Scalar):
        return None
    value = node.value
    if isinstance(value, str):
        return quantity(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return None
    return value, DIMENSIONLESS if value else None


def number(
    node: Node,
    c: Context,
    what: str,
    dimension: Dimension | None,
    names: Names | None = None,
) -> float | int | None:
    """The value of an expression over constants in canonical units; None after an error."""
    quantity = number_and_dimension(node, c, what, dimension, names)
    return None if quantity is None else quantity[0]


def number_and_dimension(
    node: Node, c: Context, what: str, dimension: Dimension | None, names: Names | None = None
) -> tuple[float | int, Dimension | None] | None:
    """The value of an expression over constants, and its dimension (None: it may have any)."""
    plain = plain_number(node)
    if plain is not None and (dimension is None or plain[1] is None or plain[1] == dimension):
        return plain
    names, before = names or c.names, len(c.sink.items)
    known = c.known.get(id(node)) if names is c.names else None
    if known is not None and (dimension is None or known[1][1] is None or known[1][1] == dimension):
        return known[1]
    if not isinstance(node, Scalar):
        c.sink.error("E0102", f"{what} must be a number or an expression, not {found(node)}", node.span)
        return None
    checked = check_expression(node, names.scope, Wanted(what, dimension), c.sink)
    if checked is None:
        return None
    value = valued(checked.expr, names.numbers, what, node.span, c.sink, inside=True)
    if value is None:
        return None
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:  # a model parameter may have that value
        c.sink.error("E0308", f"{what} has no value: the number is too large", node.span)
        return None
    if isinstance(value, float) and math.isnan(value):
        c.sink.error("E0308", f"{what} has no value: it is not a number", node.span)
        return None
    if names is c.names and len(c.sink.items) == before:
        c.known[id(node)] = node, (value, checked.dimension)
    return value, checked.dimension


def valued(
    e: Expr,
    numbers: Mapping[str, Any],
    what: str,
    at: Span,
    sink: Sink,
    related: tuple[Related, ...] = (),
    inside: bool = False,
) -> Any | None:
    """The value of an expression; None with an error (E0308) at `at`, or at the part of it (`inside`) that has none."""
    try:
        return evaluate(e, numbers)
    except ExprError as error:
        at = error.span if inside and error.span is not NOWHERE else at
        sink.error("E0308", f"{what} has no value: {error.message}", at, None, related)
        return None


def shown(value: float, dimension: Dimension) -> str:
    """A canonical value with its unit, in source syntax."""
    if dimension.dimensionless:
        return f"{value:g}"
    return f"{value * 1000:g} Hz" if dimension == FREQUENCY else f"{value:g} {canonical_name(dimension)}"


def out_of_bounds(
    value: float,
    low: float | None,
    high: float | None,
    *,
    above: bool = False,
    below: bool = False,
) -> str | None:
    """The violated bounds, in words; None when `value` is within them."""
    if not math.isfinite(value):
        return "finite"
    if low is not None and (value < low or (above and value == low)):
        return f"above {low:g}" if above else f"at least {low:g}"
    if high is not None and (value > high or (below and value == high)):
        return f"below {high:g}" if below else f"at most {high:g}"
    return None


# ---------------------------------------------------------------------------------- steps of time

EXACT: Final = 1 << 53
"""Steps: the most that a time, a float64, can count one by one."""


@dataclass(frozen=True)
class Step:
    """The time step in ms and its span; the number of steps before time 0."""

    dt: float
    span: Span
    warmup: int = 0


def whole_steps(time: float, dt: float) -> int | None:
    """`time` as an integer number of steps, up to rounding errors of computed values; None when it is not."""
    ratio = time / dt
    nearest = round(ratio)
    return nearest if abs(ratio - nearest) <= 1e-9 * max(1.0, abs(nearest)) else None


def steps_of(
    time: float,
    span: Span,
    sink: Sink,
    what: str,
    step: Step,
    *,
    low: int = 0,
    high: int = EXACT,
    nearest: bool = False,
    roundable: bool = False,
    related: tuple[Related, ...] = (),
) -> int | None:
    """A time in ms as a number of steps; E0601 where it is no integer multiple of the step. `nearest`: round instead;
    `roundable`: the help may mention `round: nearest`."""
    if not math.isfinite(time):
        sink.error("E0106", f"{what} must be finite", span)
        return None
    if not -math.inf < time / step.dt < high + 0.5:
        message = f"{what} is {number_of(time / step.dt)} steps of {step.dt:g} ms; at most {high:,} are possible"
        sink.error("E0106", message, span, None, related)
        return None
    count = round(time / step.dt) if nearest else whole_steps(time, step.dt)
    if time < 0 and (count is None or count < 0):
        sink.error("E0106", f"{what} must not be negative; it is {time:g} ms", span, None, related)
        return None
    if count is None:
        below = math.floor(time / step.dt)
        near = [f"`{multiple(n, step.dt)} ms`" for n in (below, below + 1) if n >= low]
        help = "write " + " or ".join(near)
        if roundable:
            help += f", or round it: `{{value: {time:g} ms, round: nearest}}`"
        message = f"{what} is {time:g} ms, which is not a whole number of steps of {step.dt:g} ms"
        place = (Related("the step is given here", step.span),)
        sink.error("E0601", message, span, help, (*related, *place))
        return None
    if count < low:
        unit = "step" if low == 1 else "steps"
        message = f"{what} must be at least {low} {unit} of {step.dt:g} ms; it is {time:g} ms"
        sink.error("E0106", message, span, None, related)
        return None
    return count


def number_of(count: float) -> str:
    """A whole number as one reads it: all of its digits, or its magnitude."""
    return f"{count:,.0f}" if abs(count) < 1e15 else f"{count:.3g}"


def multiple(count: int, dt: float) -> str:
    """`count` steps in ms, in source syntax."""
    return f"{float(count * Fraction(repr(dt))):.12g}"


# -------------------------------------------------------------------------------------- small parts


def text_of(node: Node | None) -> str:
    return node.text if isinstance(node, Scalar) else ""


def entries_of(node: Node | None) -> tuple[Entry, ...]:
    """The entries of a map; () if absent."""
    return node.entries if isinstance(node, tree.Mapping) else ()


def listed(node: Node | None) -> tuple[Node, ...]:
    """The items of a list; () if absent."""
    return node.items if isinstance(node, Sequence) else ()


def items_of(node: Node | None) -> tuple[Node, ...]:
    """The items of a list; a single item is a list of one."""
    if node is None:
        return ()
    return node.items if isinstance(node, Sequence) else (node,)


def mapping(node: Node | None) -> tree.Mapping | None:
    return node if isinstance(node, tree.Mapping) else None


def with_numbers(e: Expr, numbers: Mapping[str, Any]) -> Expr:
    """`e` with names that have a number substituted."""
    known: dict[str, Expr] = {}
    for name in refs(e) & numbers.keys():
        value = numbers[name]
        known[name] = Bool(value) if isinstance(value, bool) else Num(value)
    return substitute(e, known)

"""Expressions of a model file, checked in their scope.

Assumes: scalars of a resolved tree.
Guarantees: a returned expression is parsed, typed and dimension-checked, user-defined functions are inlined, and its
numbers are in canonical units. An error is one diagnostic; a name whose declaration has an error remains declared
without further errors.
Does not: depend on the purpose of an expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Diagnostic, Related, Sink, did_you_mean
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import (
    Binary,
    Call,
    Expr,
    Num,
    Ref,
    calls,
    children,
    nodes,
    refs,
    rewrite,
    shorten,
)
from compiler.expr.check import check_assignable, erase, infer_dimension
from compiler.expr.functions import FUNCTIONS, called_table
from compiler.expr.inline import Definition, inline
from compiler.expr.parse import Assign, Do, Statement, parse_statement
from compiler.expr.simplify import has_random
from compiler.expr.types import Kind, check_types
from compiler.expr.units import Dimension, describe
from compiler.frontend.build.shared.delayed import DOT, Delayable, with_dots
from compiler.frontend.build.shared.random_help import without_draw
from compiler.frontend.build.shared.self_names import hide
from compiler.frontend.resolve.values import exact_span, expression_of
from compiler.frontend.schema.wording import found
from compiler.frontend.yaml.tree import Node, Scalar
from compiler.ir.level2.synapse_values import DELAYED

_ASSIGNS: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)", re.ASCII)
_NO_PLACES: Final[Mapping[str, Span]] = MappingProxyType({})


@dataclass(frozen=True)
class TimedName:
    """A timed array, read as `name(t)`, or as `name(t, i)` if it has a column per neuron."""

    name: str
    dimension: Dimension | None
    per_neuron: bool
    broken: bool = False  # it has an error, so that any form of read may be valid

    @property
    def form(self) -> str:
        return f"{self.name}(t, i)" if self.per_neuron else f"{self.name}(t)"


@dataclass(frozen=True)
class Scope:
    """The names visible to an expression, with their kinds and dimensions (None: unknown, after an error). `broken`:
    functions with an error; `unsure`: names of unknown kind for the same reason. `places`: spans of their
    declarations; `delayed`: valid arguments of `delayed`; `foreign`: by file ("": any other one, the model's), the
    names in `functions` of the functions of files other than the model's that expressions of it see; `tables`: the
    dimensions of the arguments of lookup tables, which are functions, too; `histories`: how many values each has (0:
    unknown); `totals`: what `sum_into` may add up (None: it cannot stand here)."""

    kinds: Mapping[str, Kind]
    dimensions: Mapping[str, Dimension | None]
    functions: Mapping[str, Definition] = field(default_factory=dict)
    arities: Mapping[str, int] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    places: Mapping[str, Span] = field(default_factory=dict)
    timed: Mapping[str, TimedName] = field(default_factory=dict)
    delayed: Delayable | None = None
    unsure: frozenset[str] = frozenset()
    foreign: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    tables: Mapping[str, Dimension] = field(default_factory=dict)
    histories: Mapping[str, int] = field(default_factory=dict)
    totals: Mapping[str, Dimension | None] | None = None

    def extended(
        self,
        dimensions: Mapping[str, Dimension | None],
        places: Mapping[str, Span] = _NO_PLACES,
        kind: Kind = Kind.REAL,
    ) -> Scope:
        """This scope with additional names of one kind, which shadow those of the same name."""
        return replace(
            self,
            kinds={**self.kinds, **dict.fromkeys(dimensions, kind)},
            unsure=self.unsure - dimensions.keys() if self.unsure else self.unsure,
            dimensions={**self.dimensions, **dimensions},
            places={**self.places, **places},
        )


def is_taken(scope: Scope, name: str, node: Node) -> bool:
    """Whether a name at `node` has a meaning: one that is declared in another file than `node` may be used for a local,
    as definitions do not know the parameters of the models that use them."""
    place = scope.places.get(name)
    return name in scope.kinds and (place is None or place.file.path == node.span.file.path)


def with_value(scope: Scope, name: str, found: Checked | None, at: Span) -> Scope:
    """`scope` with a name bound to the value `found`; None: the value has an error."""
    if found is None:
        known = scope.extended({name: None}, {name: at})
        return replace(known, unsure=scope.unsure | {name})
    kind = Kind.REAL if found.kind is Kind.INT else found.kind
    return scope.extended({name: found.dimension}, {name: at}, kind)


@dataclass(frozen=True)
class Checked:
    """A checked expression: units erased and functions inlined, with its dimension (None: any)."""

    expr: Expr
    dimension: Dimension | None
    kind: Kind


@dataclass(frozen=True)
class Wanted:
    """The expected type of an expression: `what` names it in messages ("`dv/dt`"); `dimension` None: any; `condition`:
    True for a condition, False for a number, None for either; `random`: whether draws are allowed, or else why not;
    `body`: it is the body of a function, and checked again where that is called."""

    what: str
    dimension: Dimension | None = None
    condition: bool | None = False
    random: str | None = "random numbers cannot stand here"
    body: bool = False


def check_expression(node: Node, scope: Scope, wanted: Wanted, sink: Sink) -> Checked | None:
    """The expression of a scalar in `scope`; None after an error."""
    if not isinstance(node, Scalar):
        message = f"{wanted.what} must be an expression, not {found(node)}"
        sink.error("E0102", message, node.span)
        return None
    tree = read_expression(node, scope, sink)
    return None if tree is None else check_tree(tree, node.span, scope, wanted, sink)


def read_expression(node: Scalar, scope: Scope, sink: Sink, names: Iterable[str] = ()) -> Expr | None:
    """The parsed expression of a scalar in `scope` (and of more `names`), in which functions of the file in which it
    stands have their names in `scope.functions`; None after an error."""
    tree = expression_of(node, sink, (*names, *scope.kinds) if names else scope.kinds)
    return None if tree is None else _in_file(tree, node.span, scope)


def _in_file(e: Expr, span: Span, scope: Scope) -> Expr:
    """`e`, which stands at `span`, with the functions that are visible there."""
    seen = scope.foreign.get(span.file.path) or scope.foreign.get("")
    if seen is None or not calls(e) & seen.keys():
        return e
    return rewrite(e, lambda x: replace(x, func=seen.get(x.func, x.func)) if isinstance(x, Call) else x)


def check_tree(tree: Expr, span: Span, scope: Scope, wanted: Wanted, sink: Sink) -> Checked | None:
    """A parsed expression of the scalar at `span`, checked in `scope`; None after an error."""
    own = Sink()
    result = _check(tree, scope, wanted, own)
    for d in own.items:
        at = d.span
        text = "" if at is None else at.file.text[at.start : at.end]
        sink.items.append(_placed(without_draw(_worded(d, scope), wanted.random, text), span))
    return result


def _check(tree: Expr, scope: Scope, wanted: Wanted, sink: Sink) -> Checked | None:
    if DOT in calls(tree) - scope.functions.keys():
        whole = with_dots(tree, scope.histories, sink)
        return None if whole is None else _check(whole, scope, wanted, sink)
    if scope.totals is not None and TOTAL in calls(tree) - scope.functions.keys():
        summed = _with_totals(tree, scope.totals, sink)
        names = {total_name(n): dimension for n, dimension in scope.totals.items()}
        own = scope.extended(names)
        return None if summed is None else _check(summed, own, wanted, sink)
    delayed = scope.delayed
    if delayed is None or DELAYED not in calls(tree) - scope.functions.keys():
        return _check_names(tree, scope, wanted, sink)
    taken = delayed.take(tree, sink)
    if taken is None:
        return None
    found = _check_names(taken, scope.extended(delayed.names), wanted, sink)
    return None if found is None else replace(found, expr=delayed.put(found.expr))


TOTAL: Final = "sum_into"


def total_name(name: str) -> str:
    """What expressions call the sum of `name` over all projections into one input of a population."""
    return f"{TOTAL}.{name}"


def _with_totals(e: Expr, totals: Mapping[str, Dimension | None], sink: Sink) -> Expr | None:
    """`e` with each `sum_into(x)` as a name; None after an error."""
    before = len(sink.items)

    def one(x: Expr) -> Expr:
        match x:
            case Call(func) if func != TOTAL:
                return x
            case Call(_, (Ref(name),)) if name in totals:
                return Ref(total_name(name), x.span)
            case Call(_, (Ref(name, at),)):
                help = did_you_mean(name, totals) or "it adds up a parameter of the synapse, or one of the `values`"
                sink.error("E0302", f"`{TOTAL}` knows no `{name}` here", at, help)
            case Call():
                sink.error("E0304", f"`{TOTAL}` takes the name of a parameter", x.span, f"for example `{TOTAL}(rel)`")
        return x

    whole = rewrite(e, one)
    return whole if len(sink.items) == before else None


def _check_names(tree: Expr, scope: Scope, wanted: Wanted, sink: Sink) -> Checked | None:
    if scope.timed and calls(tree) & scope.timed.keys():
        read = _read_timed(tree, scope, sink)
        if read is None:
            return None
        tree = read
        values = {l0.hidden(n): t.dimension for n, t in scope.timed.items()}
        scope = scope.extended(values)
    called = calls(tree)
    if called & scope.broken or (scope.unsure and refs(tree) & scope.unsure):
        return None  # the error was reported at the definition of the function or the name
    kind = check_types(tree, scope.kinds, sink, {**scope.arities, **dict.fromkeys(scope.timed, 1)})
    if sink.items:
        return None
    if called & scope.functions.keys():
        whole = inline(tree, scope.functions, sink)
        if whole is None:
            return None
        tree = whole
        kind = check_types(tree, scope.kinds, sink, scope.arities)
        if sink.items:
            return None
    if wanted.condition is not None and wanted.condition == kind.numeric:
        _wrong_kind(tree, kind, wanted, sink)
        return None
    if _misused(tree, scope, wanted, sink):
        return None
    if not check_assignable(wanted.dimension, tree, scope.dimensions, sink, wanted.what):
        return None
    dimension = infer_dimension(tree, scope.dimensions, Sink())
    try:
        erased = hide(_within_64_bits(erase(tree)))
        return Checked(_without_ones(erased) if scope.tables else erased, dimension, kind)
    except OverflowError:
        sink.error("E0308", "a number in it is too large", tree.span)
        return None


def _without_ones(e: Expr) -> Expr:
    """`e` without the units, now 1, of arguments and values of lookup tables."""

    def plain(x: Expr) -> Expr:
        match x:
            case Call(func, (Binary("/", a, Num(1.0)),)) if called_table(func) is not None:
                return replace(x, args=(a,))
            case Binary("*", Call(func) as call, Num(1.0)) if called_table(func) is not None:
                return call
        return x

    return rewrite(e, plain)


def _misused(tree: Expr, scope: Scope, wanted: Wanted, sink: Sink) -> bool:
    """Reports draws and lookup tables where they cannot stand, and tables of another unit."""
    if wanted.random is not None and has_random(tree):
        sink.error("E0309", f"{wanted.what}: {wanted.random}", _first_random(tree) or tree.span)
        return True
    read = [x for x in nodes(tree) if isinstance(x, Call) and called_table(x.func)] if scope.tables else []
    for call in read:
        name = call.func[1:]
        of, argument = scope.tables[name], call.args[0]
        given = argument.left if isinstance(argument, Binary) and not of.dimensionless else argument
        dimension = infer_dimension(given, scope.dimensions, Sink())
        if dimension is not None and dimension != of:
            message = f"the table `{name}` takes {describe(of)}, but `{shorten(given)}` is {describe(dimension)}"
            sink.error("E0401", message, given.span)
            return True
    if read and "t" not in scope.kinds and not wanted.body:
        help = "tables are read in equations and statements, in currents and in rates of Poisson inputs"
        sink.error("E0312", f"the table `{read[0].func[1:]}` cannot be read here", tree.span, help)
        return True
    return False


def _read_timed(e: Expr, scope: Scope, sink: Sink) -> Expr | None:
    """`e` with reads of timed arrays replaced by names of their values in this step; None after an error."""
    before = len(sink.items)

    def one(x: Expr) -> Expr:
        if not isinstance(x, Call) or x.func not in scope.timed:
            return x
        array = scope.timed[x.func]
        given = tuple(a.name if isinstance(a, Ref) else "" for a in x.args)
        if "t" not in scope.kinds:
            help = "timed arrays are read in equations, in rates of Poisson inputs and in a population's `params`"
            sink.error("E0312", f"the timed array `{x.func}` cannot be read here", x.span, help)
        elif not array.broken and given != (("t", "i") if array.per_neuron else ("t",)):
            why = "it has a column for each neuron" if array.per_neuron else "it has one value for all neurons"
            help = f"write `{array.form}`: {why}, and is read at the time of the step"
            sink.error("E0312", f"the timed array `{x.func}` cannot be read like this", x.span, help)
        return Ref(l0.hidden(x.func), x.span)

    read = rewrite(e, one, top_down=True)
    return read if len(sink.items) == before else None


def _within_64_bits(e: Expr) -> Expr:
    """`e` with integers beyond 64 bits as real numbers. Raises OverflowError."""

    def fitting(x: Expr) -> Expr:
        large = isinstance(x, Num) and isinstance(x.value, int) and not -(1 << 63) <= x.value < 1 << 63
        return Num(float(x.value), x.span) if isinstance(x, Num) and large else x

    return rewrite(e, fitting)


def _wrong_kind(tree: Expr, kind: Kind, wanted: Wanted, sink: Sink) -> None:
    needed = Kind.BOOL.value if wanted.condition else Kind.REAL.value
    help = "compare it with something, as in `v > v_thresh`" if wanted.condition else "write `1 if ... else 0`"
    sink.error("E0306", f"{wanted.what} must be {needed}; this is {kind.value}", tree.span, help)


def _worded(d: Diagnostic, scope: Scope) -> Diagnostic:
    """Reads of timed arrays in a message, spelled as in the source."""
    message, help = d.message, d.help
    if d.code == "E0302" and message.startswith("unknown name `xi"):
        help = "white noise stands in `dynamics`; elsewhere write `sqrt(dt) * normal()` for its sum over a step"
    for name, array in scope.timed.items():
        if l0.hidden(name) in message + (help or ""):
            word = re.compile(rf"\b{l0.hidden(name)}\b")
            message = word.sub(array.form, message)
            help = None if help is None else word.sub(array.form, help)
    return d if (message, help) == (d.message, d.help) else replace(d, message=message, help=help)


def _placed(d: Diagnostic, span: Span) -> Diagnostic:
    """An error in a function that depends on the call site gets the span of the call, too."""
    at = d.span
    if at is None or at is NOWHERE:
        return replace(d, span=span)
    inside = at.file is span.file and span.start <= at.start and at.end <= span.end
    if inside:
        return d
    return replace(d, related=(*d.related, Related("the function is called here", span)))


def _first_random(e: Expr) -> Span | None:
    if isinstance(e, Call) and e.func in FUNCTIONS and FUNCTIONS[e.func].random:
        return e.span
    return next((s for k in children(e) if (s := _first_random(k)) is not None), None)


def read_action(node: Node, scope: Scope, sink: Sink) -> Statement | None:
    """The assignment or call of a scalar, not yet checked; None after an error. Augmented forms stay."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        help = "for example `v = v_reset`"
        sink.error("E0102", f"an assignment is expected, not {found(node)}", node.span, help)
        return None
    span, exact = exact_span(node)
    statement = parse_statement(node.text, span, sink, exact=exact, names=scope.kinds)
    match statement:
        case Assign():
            return replace(statement, value=_in_file(statement.value, span, scope))
        case Do():
            call = _in_file(statement.call, span, scope)
            return replace(statement, call=call) if isinstance(call, Call) else statement
        case _:
            return None


def no_value_yet(statement: Assign, scope: Scope, sink: Sink) -> None:
    """The error of `x += 1` where `x` has no value yet."""
    target = statement.target
    message = f"`{target}` has no value yet that `{statement.op}` could change"
    sink.error("E0302", message, statement.target_span, did_you_mean(target, scope.kinds))


def unsure_of(node: Node, scope: Scope) -> Scope:
    """`scope` after a malformed statement: its apparent target counts as assigned."""
    target = _ASSIGNS.match(node.text) if isinstance(node, Scalar) else None
    if target is None or target[1] in scope.kinds:
        return scope
    return with_value(scope, target[1], None, node.span)


def read_statement(node: Node, scope: Scope, sink: Sink) -> Assign | None:
    """The assignment of a scalar, not yet checked; None after an error. Augmented forms stay."""
    statement = read_action(node, scope, sink)
    if statement is None or isinstance(statement, Assign):
        return statement
    help = "write `name = expression`"
    message = f"a call of `{statement.call.func}` has no effect here"
    sink.error("E0301", message, statement.span, help)
    return None

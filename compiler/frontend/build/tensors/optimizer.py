"""Optimizers: statements over `param`, `gradient` and `step`, with the effective parameter values or schedules.

Assumes: `train: {optimizer: {adam: {learning_rate: ...}}}`, and definitions of the file and the
library.
Guarantees: every parameter has a value; statements assign to `param`, state or locals and read only assigned names. A
schedule is typed, dimensionless, and reads `step` and `epoch` (from 1), `steps` and `epochs` (of the whole training)
and model parameters only.
Does not: instantiate the optimizer on weights.
"""

from __future__ import annotations

import keyword
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink, declared_at, did_you_mean
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Binary, Call, Expr, Ref, calls, children, refs, show, substitute
from compiler.expr.inline import Definition
from compiler.expr.parse import Assign, own_expr, parse_signature
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.build.shared.definitions import Definitions
from compiler.frontend.build.shared.readers import real
from compiler.frontend.build.shared.scope import (
    Scope,
    Wanted,
    check_expression,
    check_tree,
    no_value_yet,
    read_statement,
    unsure_of,
    with_value,
)
from compiler.frontend.build.shared.values import Context, entries_of, listed, mapping
from compiler.frontend.language.training.training import OPTIMIZER
from compiler.frontend.resolve.values import expression_of
from compiler.frontend.schema.wording import allowed, taken_word
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar

TIMES: Final = ("step", "epoch", "steps", "epochs")
"""The time variables of an optimizer."""

_TEXTS: Final = {
    "warmup(t, length)": "min(1, t / length)",
    "step_decay(t, every, factor)": "factor ** ((t - 1) // every)",
    # Loshchilov & Hutter 2017, eq. 5, without restarts
    "cosine_decay(t, length)": "0.5 * (1 + cos(pi * min(1, (t - 1) / length)))",
    "warmup_cosine(t, warmup, length)": (
        "t / warmup if t < warmup else 0.5 * (1 + cos(pi * min(1, (t - warmup) / max(1, length - warmup))))"
    ),
    # as in BERT: to 0 at the end
    "warmup_linear(t, warmup, length)": "t / warmup if t < warmup else max(0, (length - t) / max(1, length - warmup))",
    # Loshchilov & Hutter 2017, eq. 5
    "cosine_restarts(t, length)": "0.5 * (1 + cos(pi * ((t - 1) % length) / length))",
    # Smith & Topin 2018, in the form of PyTorch's OneCycleLR with its defaults: from 1/25 to 1 in 30 % of the steps,
    # then down to 1/250,000
    "one_cycle(t, length)": (
        "0.52 - 0.48 * cos(pi * (t - 1) / max(1, 0.3 * length - 1)) if t - 1 <= 0.3 * length - 1 else "
        "4e-6 + 0.499998 * (1 + cos(pi * min(1, (t - 0.3 * length) / (0.7 * length))))"
    ),
}


def _definitions() -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for signature, text in _TEXTS.items():
        sink = Sink()
        name, args = parse_signature(signature, NOWHERE, sink, exact=False) or ("", ())
        sink.check()
        found[name] = Definition(name, args, own_expr(text))
    return found


SCHEDULES: Final = MappingProxyType(_definitions())
"""Functions of time: factors between 0 and 1."""


def is_schedule(node: Node, c: Context) -> bool:
    """Whether a value reads the time or calls a schedule; the model's own names take precedence."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return False
    tree = expression_of(node, Sink(), (*c.names.scope.kinds, *TIMES))
    if tree is None:
        return False
    own = c.names.scope
    return bool(refs(tree) & (set(TIMES) - own.kinds.keys()) or calls(tree) & (SCHEDULES.keys() - own.arities.keys()))


def read_schedule(node: Node, c: Context, name: str) -> l0.Set | None:
    """`name = expression`, checked; None after an error."""
    own = c.names.scope
    times = [t for t in TIMES if t not in own.kinds]
    scope = own.extended(dict.fromkeys(times, DIMENSIONLESS))
    scope = replace(
        scope,
        functions={**SCHEDULES, **scope.functions},
        arities={**{n: len(d.parameters) for n, d in SCHEDULES.items()}, **scope.arities},
    )
    checked = check_expression(node, scope, Wanted(f"`{name}`", DIMENSIONLESS), c.sink)
    return None if checked is None else l0.Set(name, checked.expr, node.span)


RATE: Final = "learning_rate"
"""The parameter that says how long the steps of an optimizer are."""
GIVEN = ("param", "gradient", "step", "epoch", "steps", "epochs")
_NO_RANDOM = "random numbers in an optimizer are not supported yet"


def build_optimizer(choice: tree.Mapping | None, c: Context, known: Definitions) -> l0.OptimizerDef | None:
    """The optimizer that `train`, or a group of weights, chooses; None after an error."""
    before = len(c.sink.items)
    out: l0.OptimizerDef | None = None
    if choice is not None and len(choice.entries) == 1:
        entry = choice.entries[0]
        chosen = known.find(entry.key)
        if chosen is not None:
            out = _optimizer(entry.name, chosen, mapping(entry.value), entry.key.span, c)
    return None if c.sink.failed(before) else out


def check_others(c: Context, known: Definitions, chosen: Collection[str] = ()) -> None:
    """Checks the definitions of the file that are not chosen."""
    for own in known.own():
        block = mapping(own.value)
        if block is not None and own.name not in chosen:
            _optimizer(own.name, block, None, own.key.span, c)


def _optimizer(
    name: str, block: tree.Mapping, given: tree.Mapping | None, at: Span, c: Context
) -> l0.OptimizerDef | None:
    before = len(c.sink.items)
    places: dict[str, Span] = {}
    schedules: list[l0.Set] = []
    params = _params(block, given, places, name, at, c, schedules)
    state = _state(block, places, c)
    update, read = _update(block, params, state, places, c)
    numbers, schedules = _apart(schedules, c)
    for entry in entries_of(given):
        if entry.name not in params:
            help = _elsewhere(name, entry.name, params) or did_you_mean(entry.name, params)
            if help is None:
                help = allowed("it has the parameters", params) if params else "it has no parameters"
            c.sink.error("E0201", f"optimizer `{name}` has no parameter `{entry.name}`", entry.key.span, help)
    if c.sink.failed(before):
        return None
    used = {p: v for p, v in c.names.numbers.items() if p in read and p not in places}
    numbers = {**{p: float(v) for p, v in used.items()}, **numbers}
    flags: dict[str, Expr] = {p: Ref(p).ne(0.0) for p in used if isinstance(used[p], bool)}
    statements = tuple(l0.Set(s.target, substitute(s.value, flags), s.span) for s in update)
    values = tuple((p, v) for p, v in params.items() if v is not None)
    return l0.OptimizerDef(
        name, (*values, *numbers.items()), tuple(state.items()), (*schedules, *statements), block.span
    )


_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {**dict.fromkeys(("lr", "eta", "step_size"), ("learning_rate",)), "eps": ("epsilon",)}
    | {"alpha": ("smoothing", "learning_rate"), "rho": ("smoothing", "decay")}
    | {"wd": ("decay",), "weight_decay": ("decay",)}
)
_OTHER_OPTIMIZERS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {("sgd", "momentum"): "momentum", ("sgd", "nesterov"): "nesterov", ("momentum", "nesterov"): "nesterov"}
    | {("adam", "weight_decay"): "adamw", ("adam", "decay"): "adamw", ("adam", "amsgrad"): "amsgrad"}
)


def _elsewhere(optimizer: str, key: str, params: Collection[str]) -> str | None:
    """The name of a parameter in other frameworks, or the optimizer that has it here."""
    other = _OTHER_OPTIMIZERS.get((optimizer, key))
    if other is not None:
        return f"the optimizer that has it is `{other}`"
    same = next((n for n in _OTHER_NAMES.get(key, ()) if n in params), None)
    if same is not None:
        return f"write `{same}`"
    if key in ("weight_decay", "decay"):
        return "write it beside the optimizer: `penalty: {l2: ...}`"
    return None


def _apart(schedules: list[l0.Set], c: Context) -> tuple[dict[str, float], list[l0.Set]]:
    """Parameters of the model that schedules read, as `model.<name>`: `learning_rate` may be the optimizer's, too."""
    numbers: dict[str, float] = {}
    bindings: dict[str, Expr] = {}
    for p in sorted(set().union(*(refs(s.value) for s in schedules)) & c.names.numbers.keys()):
        name = f"model.{p}"
        value = c.names.numbers[p]
        numbers[name] = float(value)
        bindings[p] = Ref(name).ne(0.0) if isinstance(value, bool) else Ref(name)
    return numbers, [l0.Set(s.target, substitute(s.value, bindings), s.span) for s in schedules]


def _declare(key: Scalar, noun: str, places: dict[str, Span], c: Context) -> bool:
    name = key.text
    if name in GIVEN:
        c.sink.error("E0107", f"`{name}` is given to every optimizer and cannot name {noun}", key.span)
        return False
    if keyword.iskeyword(name):
        c.sink.error("E0107", *taken_word(name, noun, key.span))
        return False
    if name in places:
        c.sink.error("E0212", f"`{name}` is declared twice", key.span, "choose another name", declared_at(places[name]))
        return False
    places[name] = key.span
    return True


def _params(
    block: tree.Mapping,
    given: tree.Mapping | None,
    places: dict[str, Span],
    name: str,
    at: Span,
    c: Context,
    schedules: list[l0.Set],
) -> dict[str, float | None]:
    """Parameters with their effective values; None after an error, and for scheduled ones."""
    out: dict[str, float | None] = {}
    for entry in entries_of(block.get("params")):
        if not _declare(entry.key, "a parameter", places, c):
            continue
        node: tree.Node | None = entry.value
        inner = mapping(node)
        if inner is not None:
            node = inner.get("value")
        own = given.get(entry.name) if given is not None else None
        if own is None and node is None and given is not None:
            message = f"optimizer `{name}` needs a value for `{entry.name}`"
            c.sink.error(
                "E0103", message, at, f"write `{{{name}: {{{entry.name}: ...}}}}`", declared_at(entry.key.span)
            )
        if own is not None and is_schedule(own, c):
            scheduled = read_schedule(own, c, entry.name)
            if scheduled is not None:
                schedules.append(scheduled)
            out[entry.name] = None
            continue
        values = [real(OPTIMIZER.by_name["params"].kind, n, c, f"`{entry.name}`") for n in (node, own) if n is not None]
        last = values[-1] if values else 0.0
        out[entry.name] = None if None in values else last
        if entry.name == RATE and own is not None and last is not None and last < 0:
            message = f"`{RATE}` is negative: every step makes the loss larger"
            c.sink.warning("W0011", message, own.span, "to climb, give the loss a negative weight")
    return out


def _state(block: tree.Mapping, places: dict[str, Span], c: Context) -> dict[str, float]:
    out: dict[str, float] = {}
    for entry in entries_of(block.get("state")):
        if not _declare(entry.key, "a state variable", places, c):
            continue
        value = real(OPTIMIZER.by_name["state"].kind, entry.value, c, f"the initial value of `{entry.name}`")
        out[entry.name] = value or 0.0
    return out


def _update(
    block: tree.Mapping,
    params: dict[str, float | None],
    state: dict[str, float],
    places: dict[str, Span],
    c: Context,
) -> tuple[list[l0.Set], set[str]]:
    """The statements, and every name that they read."""
    names = (*GIVEN, *params, *state)
    scope: Scope = c.names.scope.extended(dict.fromkeys(names, DIMENSIONLESS), places)
    nodes = block.get("update")
    out: list[l0.Set] = []
    read: set[str] = set()
    locals_: dict[str, Kind] = {}
    assigned = False
    before = len(c.sink.items)
    for node in listed(nodes):
        statement = read_statement(node, scope, c.sink)
        if statement is None:
            scope = unsure_of(node, scope)
            continue
        target, at = statement.target, statement.target_span
        known = target in (*names, *locals_)
        fixed = target in ("gradient", *TIMES) or target in params
        if fixed or "." in target or (target in scope.kinds and not known):
            _not_assignable(target, at, params, c.sink)
            continue
        if statement.op != "=" and not known:
            no_value_yet(statement, scope, c.sink)
            continue
        new = _new_value(statement, known, c.sink)
        if new is None:
            continue
        value, norm = new
        is_condition = locals_.get(target) is Kind.BOOL if known else None
        wanted = Wanted(f"`{target}`", DIMENSIONLESS, is_condition, _NO_RANDOM)
        found = check_tree(value, node.span, scope, wanted, c.sink)
        if target == "param":
            assigned = True
        if target not in names:
            kind = Kind.REAL if found is None or found.kind is not Kind.BOOL else Kind.BOOL
            locals_.setdefault(target, kind)
            scope = with_value(scope, target, found, at)
        if found is not None:
            whole = Call("norm", (found.expr,)) if norm else found.expr
            out.append(l0.Set(target, whole, statement.span))
            read |= refs(found.expr)
    if not assigned and nodes is not None and len(c.sink.items) == before:
        help = "for example `param = param - learning_rate * gradient`"
        c.sink.error("E0103", "no statement assigns to `param`: nothing would be trained", nodes.span, help)
    return out, read - locals_.keys()


def _not_assignable(target: str, at: Span, params: dict[str, float | None], sink: Sink) -> None:
    noun = "a parameter of the optimizer" if target in params else "a parameter of the model"
    noun = "given" if target in GIVEN else noun
    if "." in target:
        noun = "no name that an optimizer can have"
    help = "what changes from step to step belongs into `state`" if target in params else None
    sink.error("E0310", f"`{target}` is {noun} and cannot be assigned to", at, help)


def _new_value(statement: Assign, known: bool, sink: Sink) -> tuple[Expr, bool] | None:
    """The new value of the target (`x += a` is `x = x + a`), and whether it is the norm of that; None after an error.
    `known`: the target has a value for each element."""
    target, at, value = statement.target, statement.target_span, statement.value
    if statement.op != "=":
        value = Binary(statement.op[0], Ref(target, at), value, statement.span)
    argument = _norm_of(value)
    if argument is not None and known:
        help = "give the norm a name of its own: `size = norm(...)`"
        sink.error("E0310", f"a norm is one number; `{target}` has one value for each element", at, help)
        return None
    value = value if argument is None else argument
    inner = _inner_norm(value)
    if inner is not None:
        message = "a norm stands alone on the right-hand side of its assignment"
        sink.error("E0304", message, inner.span, f"write `size = {show(inner)}` before, and use `size` here")
        return None
    return value, argument is not None


def _norm_of(e: Expr) -> Expr | None:
    """The argument of the norm, where the whole right-hand side is one."""
    return e.args[0] if isinstance(e, Call) and e.func == "norm" and len(e.args) == 1 else None


def _inner_norm(e: Expr) -> Expr | None:
    """A call of `norm` somewhere in an expression."""
    if isinstance(e, Call) and e.func == "norm":
        return e
    return next((found for k in children(e) if (found := _inner_norm(k)) is not None), None)

"""Statements of a synapse: assignments to its state and locals, and deliveries.

Assumes: a draft whose parameters, state and named expressions are declared; the scope of names that it may read.
Guarantees: an action assigns to a state of the synapse or to a local of its list; the delivered value has the
dimension of the target input, where that is known; a `pre:` or `post:` block assigns to its own variables. Does not:
depend on projections (the caller passes both neurons, or none).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import compiler.frontend.build.shared.definition_builder as parts
import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, declared_at, did_you_mean
from compiler.core.source import Span
from compiler.expr.ast import Call, Expr, Ref, calls, refs
from compiler.expr.parse import Assign, Do
from compiler.expr.units import Dimension
from compiler.frontend.build.instances.sums import Taken, has_own_sums, take_sums
from compiler.frontend.build.shared.scope import (
    Scope,
    Wanted,
    check_tree,
    is_taken,
    no_value_yet,
    read_action,
    read_statement,
    unsure_of,
)
from compiler.frontend.build.spiking.neurons import BuiltNeuron
from compiler.frontend.schema.wording import allowed
from compiler.frontend.yaml.tree import Node

ENDS: Final = ("pre", "post")
DEGREES: Final = ("outdegree", "indegree")
REWIRING: Final = ("rewire", "remove", "form")


@dataclass(frozen=True)
class Ends:
    """The neurons at both ends and the dimension of the projection's input, as far as they are known: a standalone
    definition is checked without them."""

    pre: BuiltNeuron | None = None
    post: BuiltNeuron | None = None
    into: Dimension | None = None

    def of(self, end: str) -> BuiltNeuron | None:
        return self.pre if end == "pre" else self.post


@dataclass
class SynapseDraft(parts.Draft):
    """A synapse under construction. `traces`: the variables of `pre:` and `post:`; `deliveries`: spans that deliver
    into the projection's input; `shared`: states shared between instances (None: unspecified); `keep`: the degree
    conserved by the first `rewire`, and its span; `vacancies`: synapses are removed or formed; `times`: the times of
    spikes and events of each end."""

    ends: Ends = field(default_factory=Ends)
    traces: dict[str, dict[str, Dimension | None]] = field(default_factory=lambda: {"pre": {}, "post": {}})
    deliveries: list[Span] = field(default_factory=list)
    shared: tuple[str, ...] | None = None
    keep: tuple[str, Span] | None = None
    vacancies: bool = False
    times: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict.fromkeys(ENDS, l0.times_of(l0.SPIKE)))


def build_actions(
    d: SynapseDraft, items: tuple[Node, ...], scope: Scope, sums: bool = False, transposes: bool = False
) -> tuple[l0.Action, ...]:
    """The statements of one list; its locals are scoped to it. `transposes`: states may be copied from another
    projection. `sums`: rewiring and sums over synapses are allowed. Such statements, and assignments to a shared
    state, are barriers: they begin when all synapses have finished the preceding statements, and locals end there."""
    out: list[l0.Action] = []
    names = _Locals(scope, scope)
    for node in items:
        statement = read_action(node, names.scope, d.c.sink)
        if statement is None:
            names.scope = unsure_of(node, names.scope)
            continue
        value = statement.call if isinstance(statement, Do) else statement.value
        taken = Taken({}, {})
        transposing = (
            transposes and isinstance(statement, Assign) and "transpose" in calls(value) - scope.functions.keys()
        )
        summing = sums and not transposing and has_own_sums(value, scope)
        if summing:
            value, taken = take_sums(value, node.span, scope, names.local, d)
            if taken.wrong:
                continue
            statement = _with_value(statement, value)
        if transposing or summing or (sums and _waits(d, statement)):
            names.end(node)
        if transposing and isinstance(statement, Assign):
            out.extend(_transposed(d, statement))
        elif not _ended(d, value, statement.span, names):
            made = _action(d, statement, node, taken, names, sums)
            out += [] if made is None else [made]
    return tuple(out)


@dataclass
class _Locals:
    """The names of one list of statements. `own`: what is known at its beginning, `scope`: now; `local`: names that it
    assigned; `gone`: where those were assigned that are not known any more."""

    own: Scope
    scope: Scope
    local: parts.Locals = field(default_factory=dict)
    gone: dict[str, Span] = field(default_factory=dict)

    def end(self, node: Node) -> None:
        """The statement `node` waits for all synapses."""
        self.gone |= {name: self.scope.places.get(name, node.span) for name in self.local}
        self.local, self.scope = {}, self.own


def _with_value(statement: Assign | Do, value: Expr) -> Assign | Do:
    if isinstance(statement, Assign):
        return replace(statement, value=value)
    assert isinstance(value, Call)
    return replace(statement, call=value)


def _waits(d: SynapseDraft, statement: Assign | Do) -> bool:
    """Whether a statement without a sum waits for all synapses: it rewires, or assigns to a shared state."""
    if isinstance(statement, Do):
        return statement.call.func in REWIRING
    return statement.target in (d.shared or ())


def _action(
    d: SynapseDraft, statement: Assign | Do, node: Node, taken: Taken, names: _Locals, rewires: bool
) -> l0.Action | None:
    """What a statement does, with the sums that were `taken` out of it in place; None after an error."""
    if isinstance(statement, Assign):
        return _set(d, statement, node, taken, names)
    rewiring = rewires and statement.call.func in REWIRING
    made = (_rewired if rewiring else _delivery)(d, statement, node, taken.scope(names.scope))
    if made is None:
        return None
    value = taken.put(made.value)
    d.read |= refs(value)
    return replace(made, value=value)


def _set(d: SynapseDraft, statement: Assign, node: Node, taken: Taken, names: _Locals) -> l0.Set | None:
    """An assignment to a state or a local of the list, which the first one declares."""
    target, at, scope = statement.target, statement.target_span, names.scope
    known = target in d.states or target in names.local
    if not known and "." in target:
        _not_of_the_synapse(d, target, at)
        return None
    if not known and (target in d.places or is_taken(scope, target, node)):
        parts.not_assignable(d, target, at, scope)
        return None
    if not known and statement.op != "=":
        no_value_yet(statement, scope, d.c.sink)
        return None
    found = parts.assigned(d, statement, taken.scope(scope), parts.wanted_of(target, d.states, names.local), node)
    if not known:
        names.scope = parts.with_local(scope, names.local, target, found, at)
    found = taken.back(found, d)
    return None if found is None else l0.Set(target, found.expr, statement.span)


def _transposed(d: SynapseDraft, statement: Assign) -> tuple[l0.Transpose, ...]:
    """`w = transpose(forward.w)`; nothing after an error."""
    match statement.value:
        case Call("transpose", (Ref(name, at),)) if name.count(".") == 1 and statement.op == "=":
            pass
        case _:
            message = "`transpose` stands alone and takes a variable of another projection"
            d.c.sink.error("E0301", message, statement.span, "write `w = transpose(forward.w)`")
            return ()
    if statement.target not in d.states:
        parts.not_a_state(d, statement.target, statement.target_span, "cannot be assigned to")
        return ()
    projection, _, variable = name.partition(".")
    return (l0.Transpose(statement.target, projection, variable, at),)


def _ended(d: SynapseDraft, value: Expr, at: Span, names: _Locals) -> bool:
    """Reports a name that was assigned before a sum over synapses and is read after it."""
    ended = sorted((refs(value) & names.gone.keys()) - names.local.keys())
    if not ended:
        return False
    name = ended[0]
    message = f"`{name}` was assigned before a statement that waits for all synapses, and is not known after it"
    help = f"a value that each synapse keeps meanwhile is a state: `state: {{{name}: 0}}`"
    d.c.sink.error("E0302", message, at, help, (Related("assigned here", names.gone[name]),))
    return True


def _rewired(d: SynapseDraft, statement: Do, node: Node, scope: Scope) -> l0.Rewire | None:
    """`rewire(w < 0)`, `rewire(w < 0, indegree)`, `remove(w < 0)`, `form(random() < 0.1)`; None after an error."""
    call = statement.call
    how, most = call.func, 1 if call.func == "remove" else 2
    if not 1 <= len(call.args) <= most:
        takes = "1 argument" if most == 1 else "1 or 2 arguments"
        help = f"write the condition: `{how}({'random() < 0.1' if how == 'form' else 'w < 0'})`"
        d.c.sink.error("E0304", f"`{how}` takes {takes}, {len(call.args)} given", statement.span, help)
        return None
    found = check_tree(call.args[0], node.span, scope, Wanted(f"what `{how}` tests", None, True, None), d.c.sink)
    keep = "outdegree"
    if len(call.args) == 2:
        given = call.args[1]
        if not isinstance(given, Ref) or given.name not in DEGREES:
            message = f"the second argument of `{how}` is a degree of the neurons"
            d.c.sink.error("E0301", message, given.span, f"write `{how}(..., indegree)`, or `outdegree`")
            return None
        keep = given.name
    d.vacancies = d.vacancies or how != "rewire"
    if how != "remove":
        if d.keep is not None and d.keep[0] != keep:
            message = f"`{how}` is about the {keep} here, and about the {d.keep[0]} elsewhere: synapses have one order"
            d.c.sink.error("E0802", message, statement.span, None, (Related("elsewhere", d.keep[1]),))
            return None
        d.keep = d.keep or (keep, statement.span)
    return None if found is None else l0.Rewire(found.expr, keep, how, statement.span)


def build_own(d: parts.Draft, items: tuple[Node, ...], scope: Scope) -> tuple[l0.Set, ...]:
    """The statements of a `pre:` or `post:` block: assignments to its variables."""
    out: list[l0.Set] = []
    for node in items:
        statement = read_statement(node, scope, d.c.sink)
        if statement is None:
            continue
        target = statement.target
        if target not in d.states:
            _not_own(d, statement)
            continue
        found = parts.assigned(d, statement, scope, Wanted(f"`{target}`", d.states[target], False, d.no_random), node)
        if found is not None:
            out.append(l0.Set(target, found.expr, statement.span))
    return tuple(out)


def _not_own(d: parts.Draft, statement: Assign) -> None:
    end, dot, name = statement.target.partition(".")
    if dot and end in ENDS and name in d.states:
        message = f"`{statement.target}` is called `{name}` here"
        d.c.sink.error("E0310", message, statement.target_span, f"write `{name} = ...`")
        return
    parts.not_a_state(d, statement.target, statement.target_span, "cannot be assigned to")


def _not_of_the_synapse(d: SynapseDraft, target: str, at: Span) -> None:
    """E0310 for an assignment to `pre.x`."""
    end, _, name = target.partition(".")
    if end not in ENDS:
        message = f"`{target}` is no name of this synapse"
        d.c.sink.error("E0310", message, at, did_you_mean(target, d.states))
        return
    if name in d.traces[end]:
        what, help = "held once per neuron", f"write `{end}: {{on_spike: [{name} = ...]}}`"
    elif name in d.times[end]:
        what, help = what_time(name), "a time of your own is a state: `state: {last: -1000 ms}`"
    else:
        what = "a variable of the neuron"
        help = f"deliver into one of its inputs, `deliver(..., {end}.name)`"
    message = f"`{target}` is {what} and cannot be assigned to here"
    d.c.sink.error("E0310", message, at, help)


def what_time(name: str) -> str:
    """What a time such as `last_spike` is of."""
    event = name.partition("_")[2]
    return "the time of a spike" if event == l0.SPIKE else f"the time of an event `{event}`"


# ------------------------------------------------------------------------------------- deliveries


def _delivery(d: SynapseDraft, statement: Do, node: Node, scope: Scope) -> l0.Send | None:
    call, sink = statement.call, d.c.sink
    if call.func != "deliver":
        near = did_you_mean(call.func, ("deliver",))
        if call.func in REWIRING:
            near = "synapses are rewired, removed and formed in `update` and in `on` of a synapse"
        help = near or "a statement is `name = expression`, `deliver(w)` or `deliver(w, post.ge)`"
        sink.error("E0301", f"a call of `{call.func}` has no effect here", statement.span, help)
        return None
    if len(call.args) not in (1, 2):
        help = "write `deliver(w)` or `deliver(w, post.ge)`"
        sink.error("E0304", f"`deliver` takes 1 or 2 arguments, not {len(call.args)}", statement.span, help)
        return None
    dimension, end = d.ends.into, "post"
    into: str | None = None
    if len(call.args) == 2:
        named = _named_input(d, call.args[1])
        if named is None:
            return None
        end, into, dimension = named
    else:
        d.deliveries.append(statement.span)
    what = "what is delivered" if into is None else f"what is delivered into `{end}.{into}`"
    found = check_tree(call.args[0], node.span, scope, Wanted(what, dimension, False, None), sink)
    if found is None:
        return None
    d.read |= refs(found.expr)
    return l0.Send(found.expr, end, into, statement.span)


def _named_input(d: SynapseDraft, e: Expr) -> tuple[str, str, Dimension | None] | None:
    """End, name and dimension of an input such as `post.ge`."""
    sink = d.c.sink
    help: str | None
    if not isinstance(e, Ref):
        help = "for example `deliver(w, post.ge)`"
        sink.error("E0301", "the second argument of `deliver` is an input, `post.name` or `pre.name`", e.span, help)
        return None
    end, dot, name = e.name.partition(".")
    if not dot or end not in ENDS or "." in name:
        help = f"write `post.{e.name}`, or `pre.{e.name}` to deliver back to the source" if not dot else None
        message = f"`{e.name}` is not an input: it is written `post.name` or `pre.name`"
        sink.error("E0301", message, e.span, help)
        return None
    if f"{end}.{name}" in d.inputs:
        return end, name, d.inputs[f"{end}.{name}"]
    found = input_of(d, end, name, e.span)
    return None if found is None else (end, name, found[0])


def input_of(d: SynapseDraft, end: str, name: str, at: Span) -> tuple[Dimension | None] | None:
    """The dimension of an input of the neuron at an end; None after an error."""
    neuron = d.ends.of(end)
    if neuron is None:
        return (None,)
    if name in neuron.inputs:
        return (neuron.inputs[name],)
    help = did_you_mean(name, neuron.inputs)
    if name in neuron.states or name in neuron.params:
        noun = "a state variable" if name in neuron.states else "a parameter"
        help = f"`{name}` is {noun}; synapses deliver into `inputs`"
    elif help is None:
        help = allowed("its inputs are", neuron.inputs) if neuron.inputs else "it has no `inputs`"
    side = "target" if end == "post" else "source"
    related = declared_at(neuron.span, "the neuron")
    d.c.sink.error("E0201", f"the {side} neuron `{neuron.name}` has no input `{name}`", at, help, related)
    return None

"""Statements of a synapse: assignments to its state and locals, and deliveries.

Assumes: a draft whose parameters, state and named expressions are declared; the scope of names that it may read.
Guarantees: an action assigns to a state of the synapse or to a local of its list; what is delivered has the dimension
of the input that it goes into, where that is known; a `pre:` or `post:` block assigns to its own variables.
Does not: know projections (the caller gives both neurons, or none).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from compiler.diagnostics import Related, did_you_mean
from compiler.expr.ast import Call, Expr, Ref, refs
from compiler.expr.parse import Assign, Do
from compiler.expr.types import Kind
from compiler.expr.units import Dimension
from compiler.frontend.build_neurons import BuiltNeuron
from compiler.frontend.drafts import Draft, assigned, not_a_state, not_assignable
from compiler.frontend.scope import Checked, Scope, Wanted, check_tree, read_action, read_statement
from compiler.frontend.synapse_sums import Taken, has_own_sums, take_sums
from compiler.frontend.tree import Node
from compiler.frontend.wording import allowed
from compiler.ir.model import Action, Rewire, Send, Set
from compiler.source import Span

ENDS: Final = ("pre", "post")
SPIKE_TIMES: Final = ("last_spike", "previous_spike")


@dataclass(frozen=True)
class Ends:
    """The neurons at both ends and the dimension of the projection's input, as far as they are known: a definition by
    itself is checked without."""

    pre: BuiltNeuron | None = None
    post: BuiltNeuron | None = None
    into: Dimension | None = None

    def of(self, end: str) -> BuiltNeuron | None:
        return self.pre if end == "pre" else self.post


@dataclass
class SynapseDraft(Draft):
    """A synapse being built. `traces`: the variables of `pre:` and `post:`; `deliveries`: places that deliver into
    the projection's input."""

    ends: Ends = field(default_factory=Ends)
    traces: dict[str, dict[str, Dimension | None]] = field(default_factory=lambda: {"pre": {}, "post": {}})
    deliveries: list[Span] = field(default_factory=list)


def build_actions(d: SynapseDraft, items: tuple[Node, ...], scope: Scope, sums: bool = False) -> tuple[Action, ...]:
    """The statements of one list; its locals are known in it only. `sums`: synapses may be rewired, and values may read
    sums over synapses; such a statement begins when all synapses are done with those before it, whose locals end."""
    out: list[Action] = []
    local: dict[str, tuple[Kind, Dimension | None]] = {}
    own, gone = scope, dict[str, Span]()
    for node in items:
        statement = read_action(node, scope, d.c.sink)
        if statement is None:
            continue
        value = statement.call if isinstance(statement, Do) else statement.value
        taken = Taken({}, {})
        if sums and has_own_sums(value, scope):
            taken_out, taken = take_sums(value, node.span, own, local, d)
            if taken.wrong:
                continue
            gone |= {name: scope.places.get(name, node.span) for name in local}
            local, scope = {}, own
            if isinstance(statement, Do):
                assert isinstance(taken_out, Call)
                statement = replace(statement, call=taken_out)
            else:
                statement = replace(statement, value=taken_out)
        if _ended(d, statement, gone, local):
            continue
        if sums and isinstance(statement, Do) and statement.call.func == "rewire":
            gone |= {name: scope.places.get(name, node.span) for name in local}
            local, scope = {}, own
            when = _rewired(d, statement, node, taken.scope(scope))
            if when is not None:
                d.read |= refs(taken.put(when))
                out.append(Rewire(taken.put(when), statement.span))
            continue
        if isinstance(statement, Do):
            sent = _delivery(d, statement, node, taken.scope(scope))
            if sent is not None:
                d.read |= refs(taken.put(sent.value))
                out.append(replace(sent, value=taken.put(sent.value)))
            continue
        target, at = statement.target, statement.target_span
        found: Checked | None
        if target in d.states:
            wanted = Wanted(f"`{target}`", d.states[target], False, None)
            found = assigned(d, statement, taken.scope(scope), wanted, node)
        elif target in local:
            kind, dimension = local[target]
            wanted = Wanted(f"`{target}`", dimension, kind is Kind.BOOL, None)
            found = assigned(d, statement, taken.scope(scope), wanted, node)
        elif "." in target:
            _not_of_the_synapse(d, target, at)
            continue
        elif target in d.places or target in scope.kinds:
            not_assignable(d, target, at, scope)
            continue
        elif statement.op != "=":
            message = f"`{target}` has no value yet that `{statement.op}` could change"
            d.c.sink.error("E0302", message, at, did_you_mean(target, scope.kinds))
            continue
        else:
            found = assigned(d, statement, taken.scope(scope), Wanted(f"`{target}`", None, None, None), node)
            kind = Kind.REAL if found is None or found.kind is Kind.INT else found.kind
            local[target] = (kind, None if found is None else found.dimension)
            scope = scope.extended({target: kind}, {target: local[target][1]}, {target: at})
        found = taken.back(found, d)
        if found is not None:
            out.append(Set(target, found.expr, statement.span))
    return tuple(out)


def _ended(d: SynapseDraft, statement: Assign | Do, gone: Mapping[str, Span], local: Mapping[str, object]) -> bool:
    """Reports a name that was assigned before a sum over synapses and is read after it."""
    value = statement.call if isinstance(statement, Do) else statement.value
    ended = sorted((refs(value) & gone.keys()) - local.keys())
    if not ended:
        return False
    name = ended[0]
    message = f"`{name}` was assigned before a sum over synapses or `rewire`, and is not known after it"
    help = f"a value that each synapse keeps meanwhile is a state: `state: {{{name}: 0}}`"
    d.c.sink.error("E0302", message, statement.span, help, (Related("assigned here", gone[name]),))
    return True


def _rewired(d: SynapseDraft, statement: Do, node: Node, scope: Scope) -> Expr | None:
    """The condition of `rewire(...)`; None after an error."""
    call = statement.call
    if len(call.args) != 1:
        help = "write the condition under which a synapse ends: `rewire(w < 0)`"
        d.c.sink.error("E0304", f"`rewire` takes 1 argument, {len(call.args)} given", statement.span, help)
        return None
    found = check_tree(call.args[0], node.span, scope, Wanted("what `rewire` tests", None, True, None), d.c.sink)
    return None if found is None else found.expr


def build_own(d: Draft, items: tuple[Node, ...], scope: Scope) -> tuple[Set, ...]:
    """The statements of a `pre:` or `post:` block: assignments to its variables."""
    out: list[Set] = []
    for node in items:
        statement = read_statement(node, scope, d.c.sink)
        if statement is None:
            continue
        target = statement.target
        if target not in d.states:
            _not_own(d, statement)
            continue
        found = assigned(d, statement, scope, Wanted(f"`{target}`", d.states[target], False, d.no_random), node)
        if found is not None:
            out.append(Set(target, found.expr, statement.span))
    return tuple(out)


def _not_own(d: Draft, statement: Assign) -> None:
    end, dot, name = statement.target.partition(".")
    if dot and end in ENDS and name in d.states:
        message = f"`{statement.target}` is called `{name}` here"
        d.c.sink.error("E0310", message, statement.target_span, f"write `{name} = ...`")
        return
    not_a_state(d, statement.target, statement.target_span, "cannot be assigned to")


def _not_of_the_synapse(d: SynapseDraft, target: str, at: Span) -> None:
    """E0310 for an assignment to `pre.x`."""
    end, _, name = target.partition(".")
    if end not in ENDS:
        message = f"`{target}` is no name of this synapse"
        d.c.sink.error("E0310", message, at, did_you_mean(target, d.states))
        return
    if name in d.traces[end]:
        what, help = "held once per neuron", f"write `{end}: {{on_spike: [{name} = ...]}}`"
    elif name in SPIKE_TIMES:
        what, help = "the time of a spike", "a time of your own is a state: `state: {last: -1000 ms}`"
    else:
        what = "a variable of the neuron"
        help = f"deliver into one of its inputs, `deliver(..., {end}.name)`"
    message = f"`{target}` is {what} and cannot be assigned to here"
    d.c.sink.error("E0310", message, at, help)


# ------------------------------------------------------------------------------------- deliveries


def _delivery(d: SynapseDraft, statement: Do, node: Node, scope: Scope) -> Send | None:
    call, sink = statement.call, d.c.sink
    if call.func != "deliver":
        near = did_you_mean(call.func, ("deliver",))
        if call.func == "rewire":
            near = "synapses are rewired in `update` and in `on` of a synapse"
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
    return Send(found.expr, end, into, statement.span)


def _named_input(d: SynapseDraft, e: Expr) -> tuple[str, str, Dimension | None] | None:
    """End, name and dimension of the input that `post.ge` names."""
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
    neuron = d.ends.of(end)
    if neuron is None:
        return end, name, None
    if name in neuron.inputs:
        return end, name, neuron.inputs[name]
    help = did_you_mean(name, neuron.inputs)
    if name in neuron.states or name in neuron.params:
        noun = "a state variable" if name in neuron.states else "a parameter"
        help = f"`{name}` is {noun}; synapses deliver into `inputs`"
    elif help is None:
        help = allowed("its inputs are", neuron.inputs) if neuron.inputs else "it has no `inputs`"
    side = "target" if end == "post" else "source"
    related = (Related("the neuron is declared here", neuron.span),)
    sink.error("E0201", f"the {side} neuron `{neuron.name}` has no input `{name}`", e.span, help, related)
    return None

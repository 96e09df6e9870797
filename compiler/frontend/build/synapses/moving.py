"""Parameters that a projection gives as expressions of the time: `params: {rate: 0.1 * exp(-t / (10 s))}`.

Assumes: the definition has been built.
Guarantees: the expression stands wherever the synapse reads the parameter, with `t` and counters of phases as they are
there (docs/synapses.md); parameters of the model in it are data. Projections without such expressions are as before.
Does not: read values of the projection, which differ from member to member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, declared_at
from compiler.expr.ast import Expr, Ref, refs, substitute
from compiler.expr.inline import reads_through
from compiler.expr.units import TIME
from compiler.frontend.build.shared.phases import counters
from compiler.frontend.build.shared.scope import Wanted, check_expression
from compiler.frontend.build.shared.values import Context, entries_of
from compiler.frontend.build.spiking.drives import reads_time
from compiler.frontend.build.synapses.synapses import BuiltSynapse
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node
from compiler.ir.level0.controls import rewritten


def moving_params(block: tree.Mapping, synapse: BuiltSynapse, c: Context) -> dict[str, Node]:
    """The parameters that a projection gives as expressions of the time or of counters of phases."""
    given = entries_of(block.get("params"))
    return {e.name: e.value for e in given if e.name in synapse.params and reads_time(e.value, c)}


def with_moving(
    synapse: BuiltSynapse, given: Mapping[str, Node], name: str, known: dict[object, BuiltSynapse], c: Context
) -> BuiltSynapse | None:
    """The synapse with the expressions of the projection `name` in place of the parameters `given`; None after an
    error. `known`: those made before, so that projections with the same expressions share one."""
    s = synapse.definition
    if not given or s is None:
        return synapse
    scope = c.names.scope.extended({"t": TIME, "dt": TIME, **counters(c)})
    values: dict[str, Expr] = {}
    for parameter, node in given.items():
        what = f"parameter `{parameter}` of `{name}`"
        found = check_expression(node, scope, Wanted(what, synapse.params[parameter]), c.sink)
        if found is None or not _possible(s, parameter, found.expr, what, node, c):
            return None
        values[parameter] = found.expr
    key = (id(synapse), tuple(values.items()))
    if key not in known:
        numbers = c.names.numbers
        read = set[str]().union(*(refs(e) for e in values.values()))
        flags: dict[str, Expr] = {p: Ref(p).ne(0.0) for p in read if isinstance(numbers.get(p), bool)}
        put = {p: substitute(e, flags) for p, e in values.items()}
        made = rewritten(s, lambda e: substitute(e, put))
        model_params = tuple(p for p in numbers if p in s.model_params or p in read)
        made = replace(made, params=tuple(p for p in s.params if p.name not in values), model_params=model_params)
        kept = {p: dimension for p, dimension in synapse.params.items() if p not in values}
        known[key] = replace(synapse, definition=made, params=kept, moving=frozenset(values))
    return known[key]


def _possible(s: l0.SynapseDef, parameter: str, value: Expr, what: str, node: Node, c: Context) -> bool:
    """Whether a parameter may change in time; reports it if not."""
    timed = next((n for n in c.names.scope.timed if l0.hidden(n) in refs(value)), None)
    clash = next((n for n in sorted(refs(value)) if n in _own(s)), None)
    related: tuple[Related, ...] = ()
    help: str | None = "give it a number"
    if timed is not None:
        message = f"{what} reads the timed array `{timed}`, which is not supported yet in synapses"
        help = "read it in an equation of a neuron, and that as `others` here"
    elif clash is not None:
        message = f"{what} reads `{clash}`, a parameter of the model, and the synapse `{s.name}` has one of that name"
        help = "rename one of them"
    elif s.event_driven and any(parameter in reads_through((o.rhs,), s.lets) for o in s.dynamics):
        message = f"{what} changes in time, but the equations of `{s.name}` are solved at spikes only"
        help = "leave `event_driven` out: then they are integrated in every step"
        related = declared_at(s.span, "the synapse")
    elif (user := _follows(s, parameter)) is not None:
        message = f"{what} changes in time, but `{user}` follows from it, which is one value"
        help = "give it a number" if "." in user else f"give `{user}` a value of its own"
        related = declared_at(s.span, "the synapse")
    else:
        return True
    c.sink.error("E0802", message, node.span, help, related)
    return False


def _own(s: l0.SynapseDef) -> set[str]:
    """The names that a synapse declares."""
    return {*(p.name for p in s.params), *(x.name for x in s.state), *(x.target for x in s.lets)}


def _follows(s: l0.SynapseDef, parameter: str) -> str | None:
    """The first parameter or state whose value is a formula over `parameter`."""
    values: list[tuple[str, object]] = [(p.name, p.default) for p in s.params]
    values += [(x.name, x.init) for x in s.state]
    for end, block in s.ends.items():
        values += [(f"{end}.{x.name}", x.init) for x in block.state]
        decays = [(f"{end}.{x.name}", x.decay) for x in block.inputs]
        values += [(name, l0.Formula(decay)) for name, decay in decays if decay is not None]
    return next((n for n, v in values if isinstance(v, l0.Formula) and parameter in refs(v.expr)), None)

"""What statements read of a projection's synapses: their variables by the model's names, sums over them
(`sum_post(w)`, `mean_instances(dw)` and their kin), and past values of neurons (`delayed(pre.v)`).

Assumes: a legal projection. Sums are calls in values of statements of `update` and of `on`; delayed reads, calls with
one dotted name, stand anywhere in a synapse but in its `pre:` and `post:` blocks.
Guarantees: frontend, lowering and runner agree on names, arrays and units: one table, one definition of each form.
Does not: read the values, compute sums (passes/projections/synapse_sums.py), or store past state
(passes/cells/cell_arrays.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
from compiler.expr.ast import Call, Expr, Num, Ref, calls, children, nodes, refs, rewrite
from compiler.ir.space import array_name, own_array

DELAYED: Final = "delayed"


def delayed_name(e: Expr) -> str | None:
    """`pre.v` of `delayed(pre.v)`; None for any other expression."""
    match e:
        case Call(func, (Ref(name),)) if func == DELAYED:
            return name
    return None


def read_delayed(e: Expr) -> set[str]:
    return {name for x in nodes(e) if (name := delayed_name(x)) is not None}


def read_now(e: Expr) -> set[str]:
    """The names with undelayed reads in `e`."""
    return refs(rewrite(e, lambda x: x if delayed_name(x) is None else Num(0), top_down=True))


INSTANCES: Final = "instances"
KERNEL: Final = "kernel"

SUMS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {f"{op}_{end}": (op, end) for op in ("sum", "mean", "max", "min") for end in ("post", "pre", INSTANCES, KERNEL)}
    | {f"first_{KERNEL}": ("first", KERNEL)}
)
"""Name -> what is done, and the end whose neuron the synapses share: `sum_post(w)` is the sum of w over all synapses of
the projection onto the same target, `sum_instances(w)` that over the same synapse in all instances of the network,
`sum_kernel(w)` that over the synapses with the same element of the kernel, at all positions."""


OVER_INSTANCES: Final = frozenset(name for name, (_, end) in SUMS.items() if end == INSTANCES)
"""Those over instances, which statements of neurons have too."""


def has_sums(e: Expr) -> bool:
    """Whether `e` reads other synapses."""
    return not calls(e).isdisjoint(SUMS)


def over_instances(e: Expr) -> Call | None:
    """The first sum over instances in `e`."""
    if isinstance(e, Call) and e.func in OVER_INSTANCES:
        return e
    return next((found for k in children(e) if (found := over_instances(k)) is not None), None)


COUNTED: Final[Mapping[str, str]] = MappingProxyType({"n_in": "post", "n_out": "pre"})
"""What expressions call the number of synapses of the neuron at an end."""


def synapse_variables(projection: l0.Projection) -> tuple[str, ...]:
    """The states of a synapse model; of static synapses the weight, and per-synapse delays."""
    if projection.synapse is None:
        drawn = any(m.delays is not None for m in projection.members)
        return ("weight", "delay") if drawn else ("weight",)
    return tuple(s.name for s in projection.synapse.state)


def synapse_unit(projection: l0.Projection, variable: str, populations: Iterable[l0.Population]) -> str:
    """The canonical unit of one of them; a weight has that of the input."""
    if projection.synapse is not None:
        return next(s.unit for s in projection.synapse.state if s.name == variable)
    if variable == "delay":
        return "ms"
    targets = {m.target for m in projection.members}
    inputs = (i for p in populations if p.name in targets for i in p.neuron.inputs if i.name == projection.into)
    return next((i.unit for i in inputs), "1")


def member_name(projection: l0.Projection, member: l0.Member) -> str:
    """Model path of one projection of a family (or of the one that it shares its synapses with); the arrays of its
    synapses begin with it."""
    source, target = member.like or (member.source, member.target)
    return f"{projection.name}[{source}->{target}]"


def own_name(projection: l0.Projection, member: l0.Member) -> str:
    """Model path of one projection of a family, whether it shares its synapses or not: for arrays that it does not
    share."""
    return f"{projection.name}[{member.source}->{member.target}]"


def variable_array(projection: l0.Projection, member: l0.Member, variable: str) -> str:
    if projection.synapse is None and variable == "delay":
        return own_array(member_name(projection, member), variable)
    shared = projection.synapse is None or variable in (projection.synapse.shared or ())
    return array_name((member_name if shared else own_name)(projection, member), variable)


def event_name(projection: l0.Projection, member: l0.Member, event: str) -> str:
    """Model path of an event of the synapses; the arrays of its lists begin with it."""
    return f"{own_name(projection, member)}.{event}"


def recorded_events(model: l0.Model, record: l0.RecordOwnEvents) -> Iterator[tuple[str, str]]:
    """(model path, population of the neurons) of every event that a record asks for."""
    if not record.of_synapses:
        yield from ((f"{record.source}.{event}", record.source) for event in record.events)
        return
    family = next(p for p in model.projections if p.name == record.source)
    assert family.synapse is not None
    ends = {e.name: e.end for e in family.synapse.events}
    for m in family.members:
        for event in record.events:
            yield event_name(family, m, event), m.source if ends[event] == "pre" else m.target


def stored_by_target(projection: l0.Projection) -> bool:
    """Whether synapses are numbered target by target, sources ascending: those that keep their target when they are
    rewired. All others are numbered source by source."""
    return projection.synapse is not None and projection.synapse.rewired == "indegree"

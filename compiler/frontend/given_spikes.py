"""Given spikes of one neuron that share a step: each counts, where counting them has one meaning.

Assumes: populations and projections are built.
Guarantees: spikes that meet only ever add up (deliveries, recordings). A synapse that changes at a spike, draws random
numbers at it or asks when the spike before was has no order for spikes of one step: refused (E0605).
Does not: look at spikes of neurons with equations, which have one in a step at most.
"""

from __future__ import annotations

from functools import cache

from compiler.diagnostics import Related, Sink
from compiler.expr.ast import refs, substitute
from compiler.expr.simplify import has_random
from compiler.frontend.build_populations import Populations
from compiler.ir.model import Projection, Send, Set, SynapseDef, values_of


def check_repeated(populations: Populations, projections: tuple[Projection, ...], sink: Sink) -> None:
    """E0605 for projections that cannot take several spikes of a neuron in a step; the first one of each."""
    repeated = populations.repeated
    if not repeated:
        return

    @cache
    def adds_up(number: int, end: str) -> bool:
        synapse = projections[number].synapse
        return synapse is None or spikes_add_up(synapse, end)

    for number, p in enumerate(projections):
        for member in p.members:
            ends = (("pre", member.source), ("post", member.target))
            bad = [name for end, name in ends if name in repeated and not adds_up(number, end)]
            if not bad:
                continue
            found = repeated[bad[0]]
            message = (
                f"neuron {found.neuron} of `{bad[0]}` has {found.times} spikes in the step that ends at {found.at:g} "
                f"ms, and the synapses of `{p.name}` cannot take more than one"
            )
            help = "move a spike into another step, or use a smaller `dt`; synapses that only deliver take any number"
            sink.error("E0605", message, p.span, help, (Related("the spikes are given here", found.span),))
            break


def spikes_add_up(synapse: SynapseDef, end: str) -> bool:
    """Whether what spikes of one neuron of an end do at the synapses is the same in any order, and does not depend on
    how far each of them has got."""
    actions = synapse.on_pre if end == "pre" else synapse.on_post
    block = synapse.pre if end == "pre" else synapse.post
    known = {let.target: let.value for let in synapse.lets}
    values = [substitute(value, known) for value in values_of(actions)]
    states = {s.name for s in synapse.state}
    others = [*values_of(synapse.update), *(let.value for let in synapse.lets)]
    read = set().union(*(refs(e) for e in (*values, *others)))
    return not (
        (block is not None and block.on_spike)
        or (actions and synapse.event_driven)
        or any(f"{end}.{time}" in read for time in ("last_spike", "previous_spike"))
        or any(has_random(value) for value in (*values, *known.values()))
        or any(not isinstance(a, Send | Set) or (isinstance(a, Set) and a.target in states) for a in actions)
    )

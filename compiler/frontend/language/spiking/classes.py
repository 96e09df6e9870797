"""Classes: settings that populations and projections share.

Assumes: populations.py, connections.py.
Guarantees: a class may hold every key of a population or of a projection that is not its place in the network.
Does not: say which of both a class is for: the members that name it do.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.expr.keys.kinds import Block, Field, MapOf
from compiler.expr.keys.values import DESCRIPTION, FOR, TEMPLATE_KEY, USE
from compiler.frontend.language.spiking.connections import PROJECTION_VALUES
from compiler.frontend.language.spiking.populations import POPULATION_ELSEWHERE, POPULATION_VALUES


def _values() -> tuple[Field, ...]:
    """The keys of both, each once: `params` and `init` are of one kind in both."""
    found = {f.name: replace(f, required=False) for f in (*PROJECTION_VALUES, *POPULATION_VALUES)}
    for name, of in (("params", "neuron or synapse model"), ("init", "state variables, in place of the model's")):
        first = "Values for parameters of the " if name == "params" else "Initial values of "
        found[name] = replace(found[name], doc=f"{first}{of}, as populations and projections give them.")
    return tuple(found.values())


CLASS = Block(
    "class",
    (USE, FOR, DESCRIPTION, *_values()),
    doc="Settings for all populations, or all projections, that name this class.",
    title="class",
    elsewhere=POPULATION_ELSEWHERE,
    open_with=("use",),
    example="{neuron: library/neurons/lif, params: {tau_m: 10 ms}}",
)

CLASSES = MapOf("class", CLASS, TEMPLATE_KEY, "cortical")

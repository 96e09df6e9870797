"""Network inputs that are what a population does in a trial: `activity: {from: exc, of: spikes, every: 10 ms}`.

Assumes: populations have been built; the length of a trial is that of the simulation.
Guarantees: the population and the variable exist, and a trial is a whole number of frames; the shape is
[frames, neurons], or [neurons] without `every`.
Does not: count spikes (copies.py) or read arrays (runtime/trials.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import declared_at, did_you_mean
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.values import Context
from compiler.frontend.build.spiking.neurons import BuiltNeuron
from compiler.frontend.build.spiking.populations import SPIKE, Populations
from compiler.frontend.build.spiking.select import select_one
from compiler.frontend.language.network import NETWORK_INPUT
from compiler.frontend.schema.wording import allowed
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Scalar
from compiler.layers.shared.kind import Shape

COUNTED = (l0.SPIKES, l0.RATE)


@dataclass(frozen=True)
class Activities:
    """Reads `from`, `of` and `every` of network inputs. `trial`: the steps of a trial; None where they are not known,
    after an error."""

    populations: Populations
    trial: int | None
    c: Context

    def __call__(self, name: str, block: tree.Mapping) -> tuple[l0.Activity, Shape] | None:
        source, variable = block.get("from"), block.get("of")
        if not isinstance(source, Scalar) or not isinstance(variable, Scalar):
            return None
        if not self.populations.names and self.trial is not None:
            return None  # that `simulate` needs `populations` has been reported
        names = select_one(source, self.populations, self.c)
        if names is None:
            return None
        if len(names) != 1:
            message = f"`{source.text}` stands for {len(names)} populations; a network input is the activity of one"
            self.c.sink.error("E0802", message, source.span, "give each an input, and join them with `concat`")
            return None
        neuron, built = self.populations.neuron_of.get(names[0]), self.populations.built.get(names[0])
        every = self._every(name, block)
        if neuron is None or built is None or not self._known(variable, names[0], neuron) or every is None:
            return None
        assert self.trial is not None
        frames = () if block.get("every") is None else (self.trial // every,)
        return l0.Activity(names[0], variable.text, every), (*frames, built.size)

    def _every(self, name: str, block: tree.Mapping) -> int | None:
        """The steps of a frame; None after an error."""
        node = block.get("every")
        if node is None or self.trial is None or self.populations.step is None:
            return self.trial
        every = Reader(NETWORK_INPUT, block, self.c).steps("every", self.populations.step, f"`every` of `{name}`")
        if every and self.trial % every:
            dt = self.populations.step.dt
            message = f"a trial of {self.trial * dt:g} ms is not a whole number of frames of {every * dt:g} ms"
            self.c.sink.error("E0802", message, node.span, "change `every`, or `duration` of `simulate`")
            return None
        return every or None

    def _known(self, variable: Scalar, population: str, neuron: BuiltNeuron) -> bool:
        """Whether the variable can be read, with an error if not."""
        sink, text = self.c.sink, variable.text
        related = declared_at(neuron.span, "the neuron")
        own = (*neuron.states, *neuron.inputs)
        if text in COUNTED and text in own:
            message = f"`{text}` is a variable of `{population}`, and means its spikes here"
            sink.error("E0107", message, variable.span, "give the variable another name", related)
            return False
        if text in COUNTED and neuron.definition is not None:
            if neuron.source != "equations":
                sink.error("E0802", f"the spikes of `{population}` are given", variable.span, None, related)
                return False
            return not self.populations.never_spikes((population,), variable.span, SPIKE)
        if text in own or neuron.definition is None:
            return neuron.definition is not None
        help = did_you_mean(text, (*own, *COUNTED)) or allowed("there are", (*COUNTED, *own))
        sink.error("E0201", f"neuron `{neuron.name}` of `{population}` has no `{text}`", variable.span, help, related)
        return False

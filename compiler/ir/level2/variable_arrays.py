"""The names of arrays of populations and projections: of variables that the user named, and of the compiler's own.

Assumes: a variable of neurons or synapses is an identifier; those of pools and of `pre:` and `post:` blocks have dots,
and no array of the compiler's own begins as they do.
Guarantees: `<owner>.<variable>` is the array of a variable, or `<owner>.<variable>.value` where the compiler may have
an array of the first name: it has none of its own that does not stand here. Lowering and runner agree.
Does not: name arrays that belong to a variable (`<owner>.<variable>.delivered`) or to no owner.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

OF_POPULATIONS: Final = frozenset({"spikes", "spike_count", "refractory_left"})
"""What the compiler stores of a population beside its variables."""
OF_SYNAPSES: Final = frozenset(
    {"row", "col", "index", "words", "to_row", "to_col", "to_index", "to_filled", "filled", "element", "order"}
    | {"rank", "each", "targets", "kernel_row", "kernel_col", "kernel_first_row", "kernel_first_col", "kernel_element"}
    | {"transposed", "exists", "gone", "updated", "n_in", "n_out", "delay", "back_delay"}
)
"""What the compiler stores of the synapses of a projection beside theirs."""


OWN: Final = MappingProxyType({part: part for part in (*sorted(OF_POPULATIONS), *sorted(OF_SYNAPSES))})
"""The names of the compiler's own arrays after their owners."""


def own_array(owner: str, part: str) -> str:
    """The compiler's array of a population, of an event, or of the synapses of a projection. Raises KeyError for names
    that are not in the tables: they may be those of variables."""
    return f"{owner}.{OWN[part]}"


def population_array(population: str, variable: str) -> str:
    """The array of a variable, an input or a parameter of a population."""
    return f"{population}.{variable}.value" if variable in OF_POPULATIONS else f"{population}.{variable}"


def synapse_part(variable: str) -> str:
    """What follows the path of a projection in the array of a state or a parameter of its synapses."""
    return f"{variable}.value" if variable in OF_SYNAPSES else variable

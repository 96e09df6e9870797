"""The arrays of variables that the user named, apart from what the compiler calls its own arrays beside them.

Assumes: a variable of neurons or synapses is an identifier; those of pools and of `pre:` and `post:` blocks have dots,
and no array of the compiler's own begins as they do.
Guarantees: `<owner>.<variable>` is the array of a variable, or `<owner>.<variable>.value` where the compiler may have
an array of the first name. Lowering and runner agree.
Does not: name the compiler's own arrays.
"""

from __future__ import annotations

from typing import Final

OF_POPULATIONS: Final = frozenset({"spikes", "spike_count", "refractory_left"})
"""What the compiler stores of a population beside its variables."""
OF_SYNAPSES: Final = frozenset(
    {"row", "col", "index", "words", "to_row", "to_col", "to_index", "to_filled", "filled", "element", "order"}
    | {"rank", "each", "targets", "kernel_row", "kernel_col", "kernel_first_row", "kernel_first_col", "kernel_element"}
    | {"transposed", "exists", "gone", "updated", "n_in", "n_out", "delay", "back_delay"}
)
"""What the compiler stores of the synapses of a projection beside theirs."""


def population_array(population: str, variable: str) -> str:
    """The array of a variable, an input or a parameter of a population."""
    return f"{population}.{variable}.value" if variable in OF_POPULATIONS else f"{population}.{variable}"


def synapse_part(variable: str) -> str:
    """What follows the path of a projection in the array of a state or a parameter of its synapses."""
    return f"{variable}.value" if variable in OF_SYNAPSES else variable

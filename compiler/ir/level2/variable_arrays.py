"""The names of arrays: of variables that the user named, and of the compiler's own.

Assumes: names of a model are identifiers, dotted where they belong to something.
Guarantees: `<owner>.<variable>` is the array of a variable. What the compiler stores of an owner, or of what another
array holds, is that name, `'` and what it is: `exc'spikes`, `exc.ge'delivered`. A name says which array it is, and one
of the model is none of the compiler's. Lowering and runner agree.
Does not: name arrays of layers.
"""

from __future__ import annotations

OWN = "'"


def array_name(owner: str, variable: str) -> str:
    """The array of a variable, an input or a parameter of a population or of the synapses of a projection."""
    return f"{owner}.{variable}"


def own_array(of: str, part: str) -> str:
    """What the compiler stores of a population, of an event, of the synapses of a projection, or of another array."""
    return f"{of}'{part}"

"""Names of the sums over synapses in statements of a synapse: `sum_post(w)`, `mean_instances(dw)` and their kin.

Assumes: level 0: they are calls in values of statements of `update` and of `on`.
Guarantees: one table of names for frontend and lowering.
Does not: compute them (passes/projections/synapse_sums.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compiler.expr.ast import Call, Expr, calls, children

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

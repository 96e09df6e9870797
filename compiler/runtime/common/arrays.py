"""Arrays of an instance in their logical shape, whatever layout the target stores them in.

Assumes: an Instance with the arrays of the program.
Guarantees: `to_logical` and `to_physical` are inverse up to the padding of lanes, which becomes zero.
Does not: allocate device memory.
"""

from __future__ import annotations

import numpy as np

import compiler.ir.level2.program as l2
from backends.protocol import AnyArray, Instance
from compiler.ir.space import Role
from compiler.layout.plan_memory import written

PERSISTENT = (Role.STATE, Role.WEIGHT, Role.EVENT)
"""Arenas that a checkpoint holds: with the same program and seed, they determine all that follows."""


def to_logical(array: l2.Array, flat: AnyArray) -> AnyArray:
    """Contents as stored -> contents in logical shape (N, rest...)."""
    if array.layout is None:
        return flat.reshape(array.shape if array.size_from is None else (-1,))
    lanes, (n, *rest) = array.layout.lanes, array.shape
    stored = flat.reshape(-(-n // lanes), *rest, lanes)
    return np.ascontiguousarray(np.moveaxis(stored, -1, 1).reshape(-1, *rest)[:n])


def to_physical(array: l2.Array, values: AnyArray) -> AnyArray:
    """Contents in logical shape -> contents as stored, flat."""
    if array.layout is None:
        return np.ascontiguousarray(values).reshape(-1)
    lanes, (n, *rest) = array.layout.lanes, array.shape
    blocks = -(-n // lanes)
    padded = np.zeros((blocks * lanes, *rest), values.dtype)
    padded[:n] = values.reshape(array.shape)
    return np.ascontiguousarray(np.moveaxis(padded.reshape(blocks, lanes, *rest), 1, -1)).reshape(-1)


def read_logical(instance: Instance, array: l2.Array) -> AnyArray:
    return to_logical(array, instance.read(array.name))


def persistent_arrays(program: l2.Merged, frozen: bool = False) -> tuple[l2.Array, ...]:
    """The arrays of a checkpoint, in the program's order: also synapses that something changes while the model runs;
    of a `frozen` run all of them, which something may have changed before."""
    phases = tuple(p.name for p in program.phases if p.name not in (*l2.CONNECT_PHASES, *l2.INIT_PHASES))
    changed = frozenset(written(program, phases))
    return tuple(a for a in program.arrays if a.role in PERSISTENT or _of_synapses(a, changed, frozen))


def _of_synapses(array: l2.Array, changed: frozenset[str], frozen: bool) -> bool:
    return array.role is Role.SYNAPSE and (frozen or array.name in changed)

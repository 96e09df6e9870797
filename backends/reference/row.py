"""One row of a kernel with its formals bound to memory: the environment in which bodies are interpreted.

Assumes: rows name arrays that exist, in physical layout, flat.
Guarantees: scalars are numbers in the type that bodies compute with: reals in the precision,
integers int64.
Does not: allocate, or depend on phases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

import compiler.ir.level2.program as l2
from backends.protocol import AnyArray


class InterpretError(Exception):
    """An illegal action of a kernel (an access out of bounds, a list that overflows)."""


@dataclass(frozen=True, eq=False)
class Row:
    """`arrays` and `names`: memory and array name by array formal; `scalars`: number by column; `kept`: what has been
    worked out and is the same in every step."""

    label: str
    formals: tuple[l2.Formal, ...]
    body: l2.Body
    arrays: Mapping[str, AnyArray]
    names: Mapping[str, str]
    scalars: Mapping[str, Any]
    real: np.dtype[Any]
    kept: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def array_formals(self) -> Mapping[str, l2.ArrayFormal]:
        return {f.name: f for f in self.formals if isinstance(f, l2.ArrayFormal)}

    def size(self, x: int | str) -> int:
        """A literal or the value of an integer column."""
        return int(self.scalars[x]) if isinstance(x, str) else x

    def checked(self, formal: str, address: Any) -> Any:
        """`address` (int64) if every element of it lies in the formal's array."""
        if not address.size or np.maximum.reduce(address.view(np.uint64), axis=None) < self.arrays[formal].size:
            return address  # a negative one is a large one without a sign
        raise InterpretError(
            f"{self.label}: `{formal}` ({self.names[formal]}) is accessed at {address.min()} to {address.max()}, "
            f"but has {self.arrays[formal].size} elements"
        )

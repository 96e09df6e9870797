"""relations: how a projection's synapses are found, by source or by target.

Assumes: `connect` has made the stored rows where there are any.
Guarantees: what comes back is all that a Propagate needs of the relation: formals, the arrays that they are bound to,
columns, and `text`, equal for two projections exactly when formals and relation are.
Does not: make statements or deliveries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.ir.graph import Instance
from compiler.ir.model import Member, Projection
from compiler.ir.program import ArrayFormal, ColumnValue, Csr, Formal, Mode, Relation, Whole
from compiler.ir.space import DType
from compiler.passes.build_program import ProgramBuilder
from compiler.passes.lower_connect import transpose


@dataclass(frozen=True)
class Found:
    """A relation of level 2 and what its kernel must carry for it."""

    relation: Relation
    formals: tuple[Formal, ...]
    arrays: Mapping[str, str]
    columns: Mapping[str, ColumnValue]

    @property
    def text(self) -> object:
        return self.relation, self.formals


def relation_of(
    builder: ProgramBuilder,
    projection: Projection,
    member: Member,
    name: str,
    pre: Instance,
    post: Instance,
    by: str = "pre",
) -> Found:
    """The relation of one projection, walked from the end `by`; makes the transposed one when that is the target's."""
    row = ArrayFormal("row", DType.I64, Mode.READ, Whole())
    col = ArrayFormal("col", DType.I32, Mode.READ, Whole())
    if by == "pre":
        return Found(Csr("row", "col"), (row, col), {"row": f"{name}.row", "col": f"{name}.col"}, {})
    transpose(builder, projection, name, pre, post)
    index = ArrayFormal("index", DType.I32, Mode.READ, Whole())
    bound = {"row": f"{name}.to_row", "col": f"{name}.to_col", "index": f"{name}.to_index"}
    return Found(Csr("row", "col", "index"), (row, col, index), bound, {})

"""tensor_phase: what the parts of lower_tensors share while one phase is lowered.

Assumes: nothing.
Guarantees: a row of a kernel and its launch are made in one place (`emit_row`).
Does not: look at nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.ir.graph import (
    Tensor,
    TensorGraph,
)
from compiler.ir.program import (
    ArrayFormal,
    ColumnValue,
    Formal,
    Kind,
    Mode,
    Nest,
    ScalarFormal,
    StreamKey,
)
from compiler.ir.program import Contract as ContractBody
from compiler.ir.space import Affine, DType, Role, along
from compiler.passes.assign_layouts import array_of
from compiler.passes.build_program import ProgramBuilder
from compiler.passes.decisions import Decision
from compiler.passes.nest_builder import Loops
from compiler.source import Span
from compiler.strategies.pins import Pins, steps_as_one


@dataclass
class Phase:
    """State while one phase is lowered."""

    builder: ProgramBuilder
    graph: TensorGraph
    lanes: int
    real_bytes: int
    available: frozenset[str]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    arrays: dict[str, str] = field(default_factory=dict)  # tensor -> array that holds it
    wide: set[str] = field(default_factory=set)
    decisions: list[Decision] = field(default_factory=list)
    pins: Pins = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)  # layer -> its place in the model

    def rank(self, path: str) -> int:
        """The place of a tensor's layer in the model: forward nodes come first in a graph."""
        return self.ranks.setdefault(path.split(".")[0], len(self.ranks))

    def dtype(self, tensor: Tensor) -> DType:
        return self.builder.arrays[self.arrays[tensor.name]].dtype

    def temporary(self, tensor: Tensor, span: Span) -> str:
        """The WORK array of a tensor that nothing outside this phase reads."""
        name = f"{self.graph.phase}/{tensor.name}"
        kept = tensor.name in self.graph.outputs
        role = Role.STATE if kept else Role.WORK
        self.builder.array(array_of(tensor, name, self.builder.precision, self.lanes, role, span=span))
        return name


def axes_of(tensor: Tensor) -> tuple[Affine, ...]:
    return tuple(along(f"d{a}") for a in range(len(tensor.shape)))


def array_formal(name: str, dtype: DType, mode: Mode, loops: Loops) -> ArrayFormal:
    return ArrayFormal(name, dtype, mode, loops.accesses[name])


def emit_row(
    p: Phase,
    kind: Kind,
    label: str,
    arrays: list[ArrayFormal],
    bound: Mapping[str, str],
    columns: Mapping[str, int],
    scalars: tuple[tuple[str, float], ...],
    body: Nest | ContractBody,
    path: str,
    span: Span,
    keys: Mapping[str, StreamKey] | None = None,
    every: int = 1,
) -> None:
    """One row of a kernel and its launch in this phase, in the steps that `every` divides. Labels leave out which
    step of a sequence a row belongs to: a kernel is called after a row, and its text must not depend on how many."""
    label = steps_as_one(label)
    real = p.builder.precision
    formals: tuple[Formal, ...] = (
        *arrays,
        *(ScalarFormal(c, DType.I64) for c in columns),
        *(ScalarFormal(s, real) for s, _ in scalars),
        *(ScalarFormal(k, DType.U64) for k in keys or ()),
    )
    values: dict[str, ColumnValue] = {**columns, **dict(scalars), **(keys or {})}
    key = (kind, formals, body)
    row = p.builder.row(key, label, kind, formals, body, bound, values, path, span, p.rank(path))
    p.builder.launch(p.graph.phase, key, row, row + 1, every, join=False)

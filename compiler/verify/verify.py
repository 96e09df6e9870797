"""Legality specs of the three IR levels, in one place: the checks of `--verify` and of tests.

Assumes: nothing; a level may hold anything that its constructors accept.
Guarantees: `verify_*` raises InternalError with every violation; `*_violations` returns them. The
specs stand in the headers of model.py, cells.py, graph.py, kernel.py and
program.py.
Does not: report to users: a violation is a fault of the compiler.
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.ir.level1.cells import Cell
from compiler.ir.level1.spiking import SpikingGraph, StoredProjection
from compiler.ir.level1.synapses import SynapseCell
from compiler.verify.cells import cell_violations, turn_violations
from compiler.verify.graph import graph_violations
from compiler.verify.kernel import code_violations
from compiler.verify.model import model_violations
from compiler.verify.program import merged_violations, program_violations
from compiler.verify.projections import projection_violations, synapse_cell_violations
from compiler.verify.violations import check


def verify_model(model: l0.Model) -> None:
    """Level 0. Raises InternalError."""
    check(f"the model `{model.name}`", model_violations(model))


def verify_cell(cell: Cell) -> None:
    """Level 1, one cell, before or after integration. Raises InternalError."""
    check(f"the cell `{cell.name}`", cell_violations(cell))


def verify_turns(graph: SpikingGraph) -> None:
    """Level 1, the order of a step. Raises InternalError."""
    check("the order of populations", turn_violations(graph))


def verify_projection(projection: StoredProjection) -> None:
    """Level 1, one family of projections. Raises InternalError."""
    check(f"the projection `{projection.name}`", projection_violations(projection))


def verify_synapse(cell: SynapseCell) -> None:
    """Level 1, a synapse model in projections of one kind. Raises InternalError."""
    check(f"the synapse `{cell.definition.name}`", synapse_cell_violations(cell))


def verify_graph(graph: l1.TensorGraph, *, gather_only: bool = False) -> None:
    """Level 1, the tensors of one phase. Raises InternalError."""
    check(f"the graph of phase `{graph.phase}`", graph_violations(graph, gather_only=gather_only))


def verify_kernel(kernel: l2.Kernel) -> None:
    """Level 2, formals and body of one kernel. Raises InternalError."""
    check(f"the kernel `{kernel.name}`", code_violations(kernel))


def verify_program(program: l2.Program) -> None:
    """Level 2, unmerged. Raises InternalError."""
    check(f"the program `{program.name}`", program_violations(program))


def verify_merged(merged: l2.Merged, program: l2.Program | None = None) -> None:
    """Level 2, merged; with `program`, that it launches the same rows. Raises InternalError."""
    check(f"the merged program `{merged.name}`", merged_violations(merged, program))

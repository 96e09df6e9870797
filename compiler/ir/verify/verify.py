"""Legality specs of the three IR levels, in one place: what passes call under `--verify` and in
tests.

Assumes: nothing; a level may hold anything that its constructors accept.
Guarantees: `verify_*` raises InternalError with every violation; `*_violations` returns them. The
specs stand in the headers of model.py, graph.py, kernel.py and
program.py.
Does not: speak to users: what these functions find is a fault of the compiler.
"""

from __future__ import annotations

from compiler.ir.level0.model import Model
from compiler.ir.level1.graph import Cell, TensorGraph
from compiler.ir.level2.program import Kernel, Merged, Program
from compiler.ir.verify.graph import cell_violations, graph_violations
from compiler.ir.verify.kernel import code_violations
from compiler.ir.verify.model import model_violations
from compiler.ir.verify.program import merged_violations, program_violations
from compiler.ir.verify.violations import InternalError, check

__all__ = [
    "InternalError",
    "cell_violations",
    "code_violations",
    "graph_violations",
    "merged_violations",
    "model_violations",
    "program_violations",
    "verify_cell",
    "verify_graph",
    "verify_kernel",
    "verify_merged",
    "verify_model",
    "verify_program",
]


def verify_model(model: Model) -> None:
    """Level 0. Raises InternalError."""
    check(f"the model `{model.name}`", model_violations(model))


def verify_cell(cell: Cell) -> None:
    """Level 1, one cell, before or after integration. Raises InternalError."""
    check(f"the cell `{cell.name}`", cell_violations(cell))


def verify_graph(graph: TensorGraph, *, gather_only: bool = False) -> None:
    """Level 1, the tensors of one phase. Raises InternalError."""
    check(f"the graph of phase `{graph.phase}`", graph_violations(graph, gather_only=gather_only))


def verify_kernel(kernel: Kernel) -> None:
    """Level 2, formals and body of one kernel. Raises InternalError."""
    check(f"the kernel `{kernel.name}`", code_violations(kernel))


def verify_program(program: Program) -> None:
    """Level 2, unmerged. Raises InternalError."""
    check(f"the program `{program.name}`", program_violations(program))


def verify_merged(merged: Merged, program: Program | None = None) -> None:
    """Level 2, merged; with `program`, that it launches the same rows. Raises InternalError."""
    check(f"the merged program `{merged.name}`", merged_violations(merged, program))

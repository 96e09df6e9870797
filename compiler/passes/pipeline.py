"""The pipeline from a model (level 0) to a merged program (level 2).

Assumes: a legal model, and the capabilities of the target.
Guarantees: passes run in the order that compiler/passes/__init__.py lists; with `verify` every level is checked
against its legality spec after each pass that makes or changes it.
Does not: emit code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compiler.core.gc_pause import no_garbage_collection
from compiler.ir.level0.model import Model
from compiler.ir.level1.graph import TensorGraph
from compiler.ir.level2.program import Merged, Order, Phase, Program
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType
from compiler.passes.program.decisions import Decision
from compiler.passes.program.merge import merge
from compiler.strategies.cuda.tensor_cores import permitted
from compiler.strategies.pins import Pins

if TYPE_CHECKING:
    from compiler.passes.model.lower_model import SpikingGraph


@dataclass(frozen=True)
class Lowered:
    """Every level of one model for one target, and what the passes decided."""

    model: Model
    spiking: SpikingGraph | None
    tensors: tuple[TensorGraph, ...]
    program: Program
    merged: Merged
    decisions: tuple[Decision, ...]


def _join(a: Program, b: Program) -> Program:
    """Two programs as one: phases of the same name run one after the other."""
    base = len(a.kernels)
    phases = {p.name: list(p.launches) for p in a.phases}
    for phase in b.phases:
        phases.setdefault(phase.name, []).extend(replace(item, kernel=item.kernel + base) for item in phase.launches)
    return replace(
        a,
        arrays=a.arrays + b.arrays,
        kernels=a.kernels + b.kernels,
        phases=tuple(Phase(name, tuple(items)) for name, items in phases.items()),
        constants={**a.constants, **b.constants},
    )


def merged_for(program: Program, capabilities: Capabilities, verify: bool) -> tuple[Merged, list[Decision]]:
    """The merged form of a program, with what a target does to whole phases."""
    if verify:
        from compiler.ir.verify.verify import verify_merged, verify_program  # large, and seldom asked for

        verify_program(program)
    merged = merge(program)
    if verify:
        verify_merged(merged, program)
    if not capabilities.chains:
        return merged, []
    from compiler.passes.program.batch_launches import gather
    from compiler.passes.program.persistent_rnn import chains

    merged, why, unrolled = chains(merged)
    merged, how = gather(merged, unrolled)
    if verify:
        verify_merged(merged)
    return merged, [*why, *how]


@no_garbage_collection()
def lower(model: Model, capabilities: Capabilities, verify: bool = False, pins: Pins | None = None) -> Lowered:
    """All levels of `model` for a target. `pins`: strategies of contractions that are decided already."""
    precision = DType.F64 if model.numerics.precision == "float64" else DType.F32
    order = Order(model.numerics.order)
    capabilities = permitted(capabilities, model.numerics)
    if verify:
        from compiler.ir.verify.verify import verify_cell, verify_model

        verify_model(model)
    programs: list[Program] = []
    decisions: list[Decision] = []
    spiking: SpikingGraph | None = None
    tensors: tuple[TensorGraph, ...] = ()
    if model.populations:
        from compiler.passes.spiking_pipeline import (
            lower_populations_to_program,  # a model has mostly one half: import that
        )

        spiking, program, made = lower_populations_to_program(model, precision, order, capabilities)
        if verify:
            for cell in spiking.cells:
                verify_cell(cell)
        programs.append(program)
        decisions += made
    if model.network is not None:
        from compiler.passes.tensor_pipeline import lower_network_to_program

        tensors, program, made = lower_network_to_program(model, precision, order, capabilities, verify, pins)
        programs.append(program)
        decisions += made
    whole = programs[0] if len(programs) == 1 else _join(programs[0], programs[1])
    merged, made = merged_for(whole, capabilities, verify)
    decisions += made
    return Lowered(model, spiking, tensors, whole, merged, tuple(decisions))

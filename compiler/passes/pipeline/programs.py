"""The passes within level 2: joining, merging, and transformations of whole phases for a target.

Assumes: a program for each half of the model.
Guarantees: one merged program.
Does not: emit code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import compiler.ir.level2.program as l2
from compiler.passes.pipeline.manager import Context, Lowering, Pass


class JoinHalves(Pass):
    """The programs of both halves as one: phases of the same name run one after the other."""

    def applies(self, context: Context, ir: Lowering) -> bool:
        return len(ir.programs) > 1

    def run(self, context: Context, ir: Lowering) -> Lowering:
        whole = ir.programs[0]
        for other in ir.programs[1:]:
            whole = _join(whole, other)
        return replace(ir, programs=(whole,))


def _join(a: l2.Program, b: l2.Program) -> l2.Program:
    base = len(a.kernels)
    phases = {p.name: list(p.launches) for p in a.phases}
    loops = {p.name: list(p.loops) for p in a.phases}
    for phase in b.phases:
        done = len(phases.setdefault(phase.name, []))
        phases[phase.name] += [replace(item, kernel=item.kernel + base) for item in phase.launches]
        shifted = [replace(x, first=x.first + done, last=x.last + done) for x in phase.loops]
        loops.setdefault(phase.name, []).extend(shifted)
    return replace(
        a,
        arrays=a.arrays + b.arrays,
        kernels=a.kernels + b.kernels,
        phases=tuple(l2.Phase(name, tuple(items), tuple(loops[name])) for name, items in phases.items()),
        constants={**a.constants, **b.constants},
    )


class Merge(Pass):
    """Kernels with equal text become a template and its table: compiler/passes/program/merge.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.program.merge import merge

        return replace(ir, merged=merge(ir.programs[0]))


class PersistentRnn(Pass):
    """Whether all steps of a recurrent layer are one launch: compiler/passes/program/persistent_rnn.py."""

    optional: ClassVar = True

    def applies(self, context: Context, ir: Lowering) -> bool:
        return context.capabilities.chains

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.program.persistent_rnn import chains

        assert ir.merged is not None
        found = chains(ir.merged, context.capabilities.device, context.pins)
        return replace(ir, merged=found.merged, forks=(*ir.forks, *found.forks)).decided(found.decisions)


class KeepSteps(Pass):
    """What a step of a chain makes has a place of its own: compiler/passes/program/keep_steps.py."""

    def applies(self, context: Context, ir: Lowering) -> bool:
        return ir.merged is not None and any(p.chains for p in ir.merged.phases)

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.program.keep_steps import keep_steps

        assert ir.merged is not None
        return replace(ir, merged=keep_steps(ir.merged))


class BatchLaunches(Pass):
    """Launches are batched by dependence level: compiler/passes/program/batch_launches.py; products of one launch split
    their sums as it needs: compiler/passes/program/resplit_products.py."""

    optional: ClassVar = True

    def applies(self, context: Context, ir: Lowering) -> bool:
        return context.capabilities.chains

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.program.batch_launches import gather
        from compiler.passes.program.resplit_products import resplit

        assert ir.merged is not None
        merged, how = gather(ir.merged)
        merged, more = resplit(merged, context.capabilities.device, context.pins)
        return replace(ir, merged=merged).decided([*how, *more])

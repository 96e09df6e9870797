"""The passes within level 2: joining, merging, and transformations of whole phases for a target.

Assumes: a program for each half of the model.
Guarantees: one merged program.
Does not: emit code.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Final

import compiler.ir.level2.program as l2
from compiler.passes.pipeline.manager import Context, Lowering, Pass
from compiler.passes.program.merge import merge


def _join(a: l2.Program, b: l2.Program) -> l2.Program:
    base = len(a.kernels)
    phases = {p.name: list(p.launches) for p in a.phases}
    loops = {p.name: list(p.loops) for p in a.phases}
    for phase in b.phases:
        done = len(phases.setdefault(phase.name, []))
        phases[phase.name] += [replace(item, template=item.template + base) for item in phase.launches]
        shifted = [replace(x, first=x.first + done, last=x.last + done) for x in phase.loops]
        loops.setdefault(phase.name, []).extend(shifted)
    return replace(
        a,
        arrays=a.arrays + b.arrays,
        kernels=a.kernels + b.kernels,
        phases=tuple(l2.Phase(name, tuple(items), tuple(loops[name])) for name, items in phases.items()),
        constants={**a.constants, **b.constants},
    )


def _persistent_rnn(context: Context, ir: Lowering) -> Lowering:
    """Whether all steps of a recurrent layer are one launch."""
    from compiler.passes.program.persistent_rnn import chains

    assert ir.merged is not None
    found = chains(ir.merged, context.capabilities, context.pins)
    return replace(ir, merged=found.merged, forks=(*ir.forks, *found.forks)).decided(found.decisions)


def _keep_steps(context: Context, ir: Lowering) -> Lowering:
    """What a step of a chain makes has a place of its own."""
    from compiler.passes.program.keep_steps import keep_steps

    assert ir.merged is not None
    return replace(ir, merged=keep_steps(ir.merged))


def _batch_launches(context: Context, ir: Lowering) -> Lowering:
    """Launches are batched by dependence level; products of one launch split their sums as it needs."""
    from compiler.passes.program.batch_launches import gather
    from compiler.passes.program.resplit_products import resplit

    assert ir.merged is not None
    merged, how = gather(ir.merged)
    merged, more = resplit(merged, context.capabilities.device, context.pins)
    return replace(ir, merged=merged).decided([*how, *more])


def _chains(context: Context, ir: Lowering) -> bool:
    return context.capabilities.chains


def _long_sums(context: Context, ir: Lowering) -> Lowering:
    """Sums of many terms are added up in blocks."""
    from compiler.passes.program.long_sums import long_sums

    return replace(ir, programs=(long_sums(ir.programs[0], context.capabilities),))


def _drop_idle(context: Context, ir: Lowering) -> Lowering:
    """What changes nothing is neither emitted nor launched."""
    from compiler.passes.program.drop_idle import drop_idle

    return replace(ir, programs=(drop_idle(ir.programs[0]),))


JOIN_HALVES: Final = Pass(
    "join_halves",
    lambda context, ir: replace(ir, programs=(reduce(_join, ir.programs),)),
    lambda context, ir: len(ir.programs) > 1,
)
"""The programs of both halves as one: phases of the same name run one after the other."""
PROGRAMS: Final[tuple[Pass, ...]] = (
    JOIN_HALVES,
    Pass("drop_idle", _drop_idle, lambda context, ir: True, optional=True),
    Pass("long_sums", _long_sums, lambda context, ir: True),
    Pass("merge", lambda context, ir: replace(ir, merged=merge(ir.programs[0])), lambda context, ir: True),
    Pass("persistent_rnn", _persistent_rnn, _chains, optional=True),
    Pass("keep_steps", _keep_steps, lambda _, ir: ir.merged is not None and any(p.chains for p in ir.merged.phases)),
    Pass("batch_launches", _batch_launches, _chains, optional=True),
)

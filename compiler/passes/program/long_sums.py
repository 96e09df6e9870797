"""long_sums: sums of many terms are added up in blocks, so that their errors do not grow with their length.

Assumes: a program before it is merged; extents of RED dims are known.
Guarantees: where one thread adds up all terms of a point (Capabilities.rows is not set, or the order is bitwise) in
float32, the sums of a nest that have more than LONGEST terms have Blocks of at most BLOCK terms, along the innermost
dim that has so many; all targets have the same. Elsewhere no nest has any: threads that share a sum have few terms
each, and float64 has digits enough. Rows of a kernel that differ in this are rows of two kernels.
Does not: change shorter sums, or contractions by a strategy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType

LONGEST: Final = 1024
"""Terms that are added up at once."""
BLOCK: Final = 256
"""Terms of a block, at most. 256 equal terms are off by up to 4e-6, 256 squares of normal numbers by 2e-7."""

Ints = npt.NDArray[np.int64]


def long_sums(program: l2.Program, capabilities: Capabilities) -> l2.Program:
    """The program with blocks where long sums need them."""
    wanted = program.precision is DType.F32 and (program.order is l2.Order.BITWISE or not capabilities.rows)
    kernels: list[l2.Kernel] = []
    moved: list[list[tuple[int, Ints]]] = []
    for kernel in program.kernels:
        found = _cut(kernel) if wanted else [(_without(kernel), np.arange(kernel.rows.count))]
        moved.append([(len(kernels) + n, rows) for n, (_, rows) in enumerate(found)])
        kernels += [k for k, _ in found]
    if len(kernels) == len(program.kernels):
        return replace(program, kernels=tuple(kernels))
    return replace(program, kernels=tuple(kernels), phases=tuple(_relaunched(p, moved) for p in program.phases))


def _without(kernel: l2.Kernel) -> l2.Kernel:
    if not isinstance(kernel.body, l2.Nest) or kernel.body.blocks is None:
        return kernel
    return replace(kernel, body=replace(kernel.body, blocks=None))


def _cut(kernel: l2.Kernel) -> list[tuple[l2.Kernel, Ints]]:
    """The kernels that take the place of one, each with the rows that it has of it."""
    nest, every = kernel.body, np.arange(kernel.rows.count)
    if not isinstance(nest, l2.Nest) or nest.blocks or "add" not in {s.combine for s in nest.stages}:
        return [(kernel, every)]
    dims, lengths = _blocks(kernel, nest)
    divided = {d for x in kernel.strided.values() for a in x.axes if a.div != 1 for d, _ in a.terms}
    found = []
    for at in np.unique(dims).tolist():
        rows = np.flatnonzero(dims == at)
        part = kernel if len(rows) == len(every) else replace(kernel, rows=kernel.rows.taken(rows.tolist()))
        if at >= 0 and (dim := nest.red[at].name) not in divided:
            column = l2.ScalarFormal(f"{dim}_block", DType.I64)
            scalars = {**part.rows.scalars, column.name: lengths[rows]}
            part = replace(
                part,
                formals=(*part.formals, column),
                body=replace(nest, blocks=l2.Blocks(dim, column.name)),
                rows=replace(part.rows, scalars=scalars),
            )
        found.append((part, rows))
    return found


def _blocks(kernel: l2.Kernel, nest: l2.Nest) -> tuple[Ints, Ints]:
    """Of each row the number of the dim that is cut (-1: the sums are short), and into how many iterations."""
    inner = np.ones(kernel.rows.count, np.int64)
    dims, lengths = np.full_like(inner, -1), np.zeros_like(inner)
    for number, d in reversed(list(enumerate(nest.red))):
        extents = d.extent if isinstance(d.extent, int) else kernel.rows.scalars[d.extent]
        if isinstance(extents, tuple):  # sizes that connecting tells
            return np.full_like(inner, -1), lengths
        here = (dims < 0) & (inner * extents > BLOCK)
        dims[here] = number
        lengths[here] = BLOCK // inner[here]
        inner = inner * np.asarray(extents, np.int64)
    return np.where(inner > LONGEST, dims, -1), lengths


def _relaunched(phase: l2.Phase, moved: list[list[tuple[int, Ints]]]) -> l2.Phase:
    """The launches of all kernels that have rows of one; a loop has those of all its launches."""
    launches: list[l2.Launch] = []
    places = [0]
    for x in phase.launches:
        for kernel, rows in moved[x.template]:
            lo, hi = np.searchsorted(rows, (x.lo, x.hi)).tolist()
            if lo < hi:
                launches.append(replace(x, template=kernel, lo=lo, hi=hi))
        places.append(len(launches))
    loops = tuple(replace(x, first=places[x.first], last=places[x.last]) for x in phase.loops)
    return l2.Phase(phase.name, tuple(launches), loops)

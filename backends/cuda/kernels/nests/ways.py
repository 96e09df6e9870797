"""ways: which pass gives the points of a nest, and the terms of their sums, to threads.

Assumes: a legal Nest.
Guarantees: its point is built once (nest.py), and one pass, chosen by its accesses and statements, makes a function: a
thread for each point, or for several (several_points.py, lines.py); threads that share a point (shared.py); columns of
a matrix (columns.py). A strided sum, which skips terms, has an additional function of nested loops, for single threads;
backends/cuda/kernels/launch_geometry.py chooses between the two. `bitwise` always takes nested loops.
Does not: change statements (the passes do).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import RANDOM
from backends.c_family.point_nest import Point, read_in_terms
from backends.cuda.kernels.kernel import WAIT, Function, of_block
from backends.cuda.kernels.nests.columns import WIDE_RESIDENT, columns
from backends.cuda.kernels.nests.lines import Lines, in_lines, windows_in_lines
from backends.cuda.kernels.nests.nest import NestPrinter, is_short
from backends.cuda.kernels.nests.several_points import in_fours, in_pairs
from backends.cuda.kernels.nests.shared import RESIDENT, shared, staged
from backends.cuda.kernels.nests.window_registers import in_registers
from backends.kernel_ir.descriptor import Division
from backends.kernel_ir.stmt import If, Stmt, marked_lines, names_of
from compiler.expr.functions import COUNTS

SHARED: Final = "_together"
"""Suffix of the function in which several threads share a point, where a thread alone has another one."""
_DRAWS: Final = tuple(f"nl_{x}_" for x in RANDOM)
_LONG: Final = tuple(f"nl_{x}_" for x in sorted(COUNTS))
"""Functions that take most of the registers of a wave: a thread draws one at a time."""
_LIGHT: Final = frozenset({"bf16", "max", "min", "abs", "sqrt", "sign", "clip"})
"""Functions of a few instructions."""
_MOST_LINES: Final = 16
_LINES_RESIDENT: Final = 3
"""Blocks that a processor holds of a map whose threads have several neighbours each, and of no more than"""
_MOST_HELD: Final = 3
"""arrays what is the same for all of their points."""


def nest_functions(k: Kernel, nest: l2.Nest, waves: bool) -> list[Function]:
    """The functions of one nest; `waves`: blocks may have more points than threads (backends/cuda/waves/waves.py)."""
    p = NestPrinter(k, nest)
    x = p.built()
    return p.with_inverses([_map(p, x, waves)] if nest.combine is None else _sums(p, x, waves))


def _sums(p: NestPrinter, x: Point, waves: bool) -> list[Function]:
    template, nest = p.k.template, p.nest
    if template.order is l2.Order.BITWISE or is_short(nest):
        return [_alone(p, x, waves)]
    if nest.staged:
        return [staged(p, x)]
    division = Division.NEIGHBOURS if sums_rows(template, nest) else Division.TERMS
    if sums_apart(template):
        return [_alone(p, x, waves), shared(p, x, SHARED, 0, division)]
    if not waves and sums_columns(template, nest):
        return [columns(p, x)]
    return [shared(p, x, "", RESIDENT if len(p.red) == 1 else 0, division)]


def _map(p: NestPrinter, x: Point, waves: bool) -> Function:
    """By a thread for each point, or for several: in waves two, else four neighbours or four that lie apart, if its
    statements are few. Random numbers are drawn before preceding kernels have ended."""
    inner, before, ahead = [*p.points.body, *x.start], p.before, tuple(p.ahead)
    drawn = 0 if before else _drawn(inner, p.arrays)
    if drawn:
        inner.insert(drawn, WAIT)
    points = replace(p.points, body=inner)
    loop: list[Stmt] = [points]
    if waves and len(p.par) == 1 and not any(n.startswith(_LONG) for n in names_of(inner)):
        loop = in_pairs(points, WAIT, p.arrays)
    elif not waves and not before and drawn == 0 and _is_light(inner):
        if (lines := in_lines(p, x.start)) is not None:
            made = _in_lines(lines, _LINES_RESIDENT if lines.held <= _MOST_HELD else WIDE_RESIDENT, ahead)
            if lines.where is None:
                return made
            return replace(made, body=(If(lines.where, of_block(made.body), in_fours(points, p.arrays)),))
        loop = in_fours(points, p.arrays)
    division = Division.POINTS if waves else Division.FEW
    if drawn == 0:
        return Function("", (*before, *loop), ahead=ahead, division=division)
    return Function("", (*loop, WAIT), ahead=ahead, waits=True, division=division)


def _drawn(inner: Sequence[Stmt], arrays: frozenset[str]) -> int:
    """Number of leading statements that draw random numbers and access no array: they need not wait for preceding
    kernels."""
    free = next((at for at, x in enumerate(inner) if names_of([x]) & arrays), 0)
    return free if any(n.startswith(_DRAWS) for n in names_of(inner[:free])) else 0


def _is_light(inner: Sequence[Stmt]) -> bool:
    """Whether statements wait for memory most of the time, and are few enough to be repeated."""
    functions = {n[3:-4] for n in names_of(inner) if n.startswith("nl_") and n.endswith(("_f32", "_f64"))}
    return len(marked_lines(inner)) <= _MOST_LINES and functions <= _LIGHT


def _in_lines(lines: Lines, resident: int, ahead: tuple[Stmt, ...] = ()) -> Function:
    division = Division.EIGHT if lines.many == 8 else Division.FEW
    return Function("", lines.loop, ahead=ahead, resident=resident, division=division)


def _alone(p: NestPrinter, x: Point, waves: bool) -> Function:
    """By a thread for each point."""
    short, nested = is_short(p.nest), p.nest.staged
    if short and not nested and not waves and (together := _short_sums(p, x)) is not None:
        return together
    sums, end = p.serial(x)
    point = in_registers(p, [*sums, *end]) if nested and short else [*sums, *end]
    loop = replace(p.points, body=[*p.points.body, *point])
    return Function("", (loop,), resident=RESIDENT, division=Division.POINTS)


def _short_sums(p: NestPrinter, x: Point) -> Function | None:
    """Sums over few terms (windows) of several neighbouring points at a time, or, where windows of neighbours are no
    neighbours, with epilogues that read and write for several at once; None where these are none, either."""
    if len(p.par) < 2:
        return None
    if (lines := windows_in_lines(p, x)) is not None:
        return _in_lines(lines, _LINES_RESIDENT)
    sums, end = p.serial(x)
    lines = in_lines(p, [*sums, *end], end)
    return None if lines is None else _in_lines(lines, RESIDENT)


def sums_apart(template: l2.Template) -> bool:
    """Whether single threads that sum a point have a separate function, of nested loops: for strided sums, which skip
    terms. Else they use the function of shared points, as a group of one."""
    return any(axis.div != 1 for x in template.strided.values() for axis in x.axes)


def _strides(access: l2.Strided, dim: str) -> list[int | str]:
    """How far a step along a dim goes in memory, along each axis that it moves: literals, or columns."""
    return [a.stride if c == 1 else 0 for a, c in access.along(dim)]


def _read_in_terms(template: l2.Template, nest: l2.Nest) -> list[l2.Strided] | None:
    """The accesses of a sum's terms; None where one of them is windowed, or no element."""
    wanted = read_in_terms(nest)
    found = [f.access for f in template.arrays if f.name in wanted]
    plain = [x for x in found if isinstance(x, l2.Strided) and not x.guards]
    return plain if len(plain) == len(found) else None


def sums_columns(template: l2.Template, nest: l2.Nest) -> bool:
    """Whether the terms of neighbouring points are neighbours in memory, and those of one point are not: the sum over
    the rows of a matrix. What points share is not asked."""
    par, red = nest.par, [d.name for d in nest.red]
    accesses = _read_in_terms(template, nest)
    if not accesses or not par or not red:
        return False
    across = [_strides(x, par[-1].name) for x in accesses]
    along = [s for x, own in zip(accesses, across, strict=True) if own for d in red for s in _strides(x, d)]
    return all(s in ([], [1]) for s in across) and [1] in across and bool(along) and 1 not in along


def sums_rows(template: l2.Template, nest: l2.Nest) -> bool:
    """Whether the terms of one point are neighbours in memory."""
    red = [d.name for d in nest.red]
    accesses = _read_in_terms(template, nest) if red else None
    return bool(accesses) and all(_strides(x, red[-1]) in ([], [1]) for x in accesses or ())

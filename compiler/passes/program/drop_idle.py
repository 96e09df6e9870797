"""drop_idle: kernels that write nothing do not exist, and neither do statements that change nothing.

Assumes: a legal program before it is merged.
Guarantees: `x := x` and `x += 0` are left out, as are formals and columns that only they named; a nest or a propagation
that then writes no formal is no kernel, and is launched in no phase. Arrays stay: results are read from them. An
element that is -0.0 stays so where 0 was added to it.
Does not: look for values that come to what was there before (`x := 1 * x`), or at columns: their values are data.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level2.program as l2
from compiler.expr.ast import Binary, Call, Expr, Num, Ref
from compiler.passes.program.formals_read import formals_read


def drop_idle(program: l2.Program) -> l2.Program:
    """The program without kernels and statements that change nothing."""
    kept = [_cleaned(kernel) for kernel in program.kernels]
    if all(new is old for new, old in zip(kept, program.kernels, strict=True)):
        return program
    kernels = [k for k in kept if k is not None]
    numbers, count = dict[int, int](), 0
    for old, kernel in enumerate(kept):
        if kernel is not None:
            numbers[old], count = count, count + 1
    return replace(program, kernels=tuple(kernels), phases=tuple(_phase(p, numbers) for p in program.phases))


def _cleaned(kernel: l2.Kernel) -> l2.Kernel | None:
    """A kernel without such statements; None: it changes nothing."""
    body = kernel.body
    if not isinstance(body, l2.Nest | l2.Propagate):
        return kernel
    statements = _acting(body.statements)
    written = {s.target for s in statements if not isinstance(s, l2.Emit)}
    if not any(isinstance(s, l2.Emit) for s in statements) and written.isdisjoint(f.name for f in kernel.arrays):
        return None
    if len(statements) == len(body.statements):
        return kernel
    body = body.rewritten(lambda e: e, _acting) if isinstance(body, l2.Nest) else replace(body, statements=statements)
    formals = tuple(_mode(f, written) for f in formals_read(kernel.formals, body))
    names = {f.name for f in formals}
    rows = kernel.rows
    arrays = {name: bound for name, bound in rows.arrays.items() if name in names}
    scalars = {name: values for name, values in rows.scalars.items() if name in names}
    return replace(kernel, formals=formals, body=body, rows=replace(rows, arrays=arrays, scalars=scalars))


def _acting(statements: tuple[l2.Statement, ...]) -> tuple[l2.Statement, ...]:
    return tuple(s for s in statements if not _changes_nothing(s))


def _changes_nothing(s: l2.Statement) -> bool:
    if isinstance(s, l2.Assign):
        return s.value == Ref(s.target)
    return isinstance(s, l2.Add) and _nothing(s.value)


def _nothing(e: Expr) -> bool:
    """0, or 0 in counts of a fixed-point accumulator: `int(round(0 * counts))`."""
    match e:
        case Num(value):
            return value == 0
        case Call("int", (Call("round", (Binary("*", Num(value), Ref()),)),)):
            return value == 0
    return False


def _mode(formal: l2.Formal, written: set[str]) -> l2.Formal:
    """A formal that is read alone, now that nothing writes it."""
    if not isinstance(formal, l2.ArrayFormal) or isinstance(formal.access, l2.ByName) or formal.name in written:
        return formal
    return replace(formal, mode=l2.Mode.READ) if formal.mode is l2.Mode.UPDATE else formal


def _phase(phase: l2.Phase, numbers: dict[int, int]) -> l2.Phase:
    """The launches of kernels that remain, by their new numbers; a loop without launches goes."""
    launches, places = list[l2.Launch](), [0]
    for x in phase.launches:
        if x.template in numbers:
            launches.append(replace(x, template=numbers[x.template]))
        places.append(len(launches))
    loops = [replace(x, first=places[x.first], last=places[x.last]) for x in phase.loops]
    return l2.Phase(phase.name, tuple(launches), tuple(x for x in loops if x.first < x.last))

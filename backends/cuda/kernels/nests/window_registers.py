"""window_registers: the elements of a small window, which are read and written again, stand in registers.

Assumes: the statements of a point whose loops over the window are unrolled, and whose elements are Places.
Guarantees: the lines of a window are read at once, before the point, and written at once, after it: of arrays whose
elements are neighbours along the last dim, are not guarded, and to which nothing else is added.
Does not: change the order of anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

import backends.kernel_ir.stmt as ir
import compiler.ir.level2.program as l2
from backends.cuda.kernels.nests.nest import NEIGHBOURS, NestPrinter
from backends.kernel_ir.expr import address, braces, code, form, name
from backends.kernel_ir.stmt import Let, Set, Stmt
from backends.kernel_ir.tree import Call, Code, Given


def in_registers(p: NestPrinter, point: list[Stmt]) -> list[Stmt]:
    """The statements of a point; as they are where lines of its window are too long, or more than its rows."""
    *others, last = p.red
    loads, stores, places = list[Stmt](), list[Stmt](), dict[str, Code]()
    if len(others) > 1 or not isinstance(last.extent, int) or last.extent > NEIGHBOURS:
        return point
    line, lines = (p.vars[others[0].name], others[0].extent) if others else (code(0), 1)
    assert isinstance(lines, int)
    width, column = code(last.extent), p.vars[last.name]

    def each(statement: Stmt) -> Stmt:
        """In each line, at its first element."""
        body: Sequence[Stmt] = [Let("nl_i64", column, code(0)), statement]
        return ir.Each(line, lines, body) if others else ir.Block("", body)

    for f, access in p.k.strided:
        element = p.elements[f.name]
        if not access.neighbours(last.name) or element.inside is not None or f.mode is l2.Mode.ACCUMULATE:
            continue
        few, kind = code(f"nl_{p.k.pointers[f.name]}"), p.k.dialect.type_name(element.type)
        own, at = few[line], address(element.place)
        loads.append(Let(f"nl_few<{kind}>", few[lines], braces(), const=False))
        if f.mode is not l2.Mode.WRITE:
            loads.append(each(Set(own, Call(Given(name("nl_get_line"), (width, name(kind))), (at,)))))
        if f.mode is not l2.Mode.READ:
            stores.append(each(ir.Do(Call(Given(name("nl_put_line"), (width,)), (at, own)))))
        places[f.name] = form("{}.x[{}]", own, column)
    return [*loads, *ir.moved(point, places), *stores]

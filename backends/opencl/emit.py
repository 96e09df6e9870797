"""emit: the OpenCL C text of a merged program.

Assumes: a legal Merged (verify/verify.py) whose arrays are row-major.
Guarantees: OpenCL C 1.2. The text is a function of the templates, the precision and the order alone: equal for any
number and values of rows. Every kernel names its part of the model; `spans` maps lines of the text to the model;
`needs` are the optional features of devices that the text uses.
Does not: compile (compile.py), or print tables (they are data).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Dialect
from backends.c_family.device_library import file_names
from backends.c_family.rule_rows import connect, skeleton
from backends.c_family.source_map import kernels_of, printed
from backends.kernel_ir.descriptor import Compiled
from backends.kernel_ir.stmt import Stmt, Text, names_of
from backends.opencl.events import SKELETONS, record
from backends.opencl.kernel import function
from backends.opencl.nest import nest_lines
from backends.opencl.propagate import propagate
from compiler.core.source import Span

_RESERVED: Final = frozenset({"half", "kernel", "global", "local", "constant", "private", "uniform", "pipe", "complex"})
_ATOMICS: Final = frozenset({"nl_add_i64", "nl_add_u64", "nl_add_f64"})


@dataclass(frozen=True)
class Emitted:
    """`text`: the .cl file; `spans`: model spans by line of the text (from 1). `needs`: "double", "atomics" (of 64
    bits), "order" (division and roots that are rounded correctly). `kernels`: descriptors, by template."""

    text: str
    spans: Mapping[int, Span]
    needs: frozenset[str]
    kernels: Compiled


def emit(program: l2.Merged) -> Emitted:
    """The OpenCL C text of a program. Raises BackendError (E0903) for programs without one."""
    dialect = Dialect(program.precision, restrict="", add="nl_add_{}", space="__global ", wide="L")
    blocks, made = kernels_of(program, dialect, "OpenCL C", _kernel)
    kernels = printed(blocks)
    words = names_of(s for b in blocks for s in b)
    names = file_names(program, kernels, words, "opencl")
    needs = {"order"} if names["fixed_order"] else set()
    needs |= {"atomics"} if words & _ATOMICS else set()
    needs |= {"double"} if names["real"] == "double" or "double" in words or "double" in names["device"] else set()
    text = SKELETONS.render("module.cl.j2", needs=needs, **names)
    return Emitted(text, kernels.within(text), frozenset(needs), made)


def _kernel(k: Kernel) -> list[Stmt]:
    k.namer.reserve(_RESERVED)
    match k.template.body:
        case (l2.Nest() as nest) | l2.Contract(nest):
            body = nest_lines(k, nest)
        case l2.Propagate() as p:
            return [Text(""), *propagate(k, p)]
        case l2.Connect() as c:
            body = [connect(k, c, SKELETONS.statements())]
        case l2.RecordEvents() | l2.RecordTrace() as r:
            body = record(k, r)
        case l2.EmitScheduled():
            body = [skeleton(k, SKELETONS.statements(), "emit_scheduled.c.j2")]
    return [Text(""), *function(k, body)]

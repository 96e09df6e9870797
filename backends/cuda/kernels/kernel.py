"""The CUDA function of one template: its row, the loads of its columns, and its share of a launch.

Assumes: a kernel that backends/c_family/access.py has opened; blocks of at most BLOCK threads.
Guarantees: a row holds device addresses and numbers in the types that they are used in (the host converts the words of
the table when it uploads them); a column is loaded only where its name is used; work is counted in 64 bits. The work of
one block is a function of an nl_task; the kernel around it has the same arguments for all templates (NL_ARGUMENTS in
templates/module.cu.j2).
Does not: print bodies (nest.py, events.py) or files (backends/cuda/emit/emit.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family import access
from backends.c_family.access import Kernel, array_type, describe, mentioned, scalar_type
from backends.c_family.cprint import Line, indent
from compiler.ir.space import DType

BLOCK: Final = 256
"""Threads of a block; a warp is 32 of them."""
WORK: Final = "_block"
"""Suffix of the device function that does the work of one block."""


@dataclass(frozen=True)
class Function:
    """One __global__ function of a template. `suffix` tells the functions of one template apart. `resident`: minimum
    blocks per multiprocessor for register allocation (0: the compiler decides). `given`: its parameters beside its row,
    if it is a device function of a kernel that several templates share (contract.py). `ahead`: code that depends on the
    step and the row alone, run before preceding kernels have ended; `waits`: the body itself waits for them."""

    suffix: str
    body: tuple[Line, ...]
    early: tuple[Line, ...] = ()
    resident: int = 0
    given: str = ""
    ahead: tuple[Line, ...] = ()
    waits: bool = False


def with_end(text: str, end: Sequence[Line]) -> tuple[Line, ...]:
    """The lines of a rendered skeleton, with the epilogue in place of `@end`."""
    lines: list[Line] = []
    for line in text.strip("\n").split("\n"):
        if line.strip() == "@end":
            depth = (len(line) - len(line.lstrip())) // 4
            lines += [Line(x.text, x.depth + depth, x.span) for x in end]
        else:
            lines.append(Line(line))
    return tuple(lines)


def row_struct(k: Kernel) -> list[Line]:
    """The structure of one row, in the order of the formals, 8 bytes each."""
    fields: list[tuple[str, str, str]] = []
    for f in k.template.formals:
        if isinstance(f, l2.ArrayFormal):
            fields.append(("", f"{array_type(k, f)} *{k.fields[f.name]}; /* {describe(k, f)} */", ""))
        else:
            narrow = "alignas(8) " if f.dtype == DType.F32 else ""
            fields.append((narrow + scalar_type(k, f, ""), k.fields[f.name], f.unit))
    if not fields:
        fields.append(("nl_u64", "unused", ""))
    return [Line(f"struct {k.row_type} {{"), *indent(access.declarations(fields)), Line("};")]


def columns(k: Kernel, names: Iterable[str]) -> list[Line]:
    """As access.columns, with pointers of the device."""

    def pointer(f: l2.ArrayFormal, source: str) -> str:
        # both ends of a projection may be one array: no `restrict` on pointers of At-accesses
        shared = isinstance(f.access, l2.At) and f.mode is not l2.Mode.READ
        alone = "" if shared else f"{k.dialect.restrict} ".lstrip()
        return f"{array_type(k, f)} *{alone}const {k.pointers[f.name]} = nl_global({source});"

    return access.columns(k, names, "", pointer)


def function(k: Kernel, made: Function, whole: bool = True) -> list[Line]:
    """The text of a function: the work of one block, and the kernel (if `whole`). `early` runs first, with its own
    columns, and may return."""
    first = mentioned(k, (*made.ahead, *made.early))
    rest = mentioned(k, made.body) - first
    step = [Line("const nl_i64 step = nl_t.step;")] if _uses(made, "step") else []
    me = [Line("const nl_job &nl_me = nl_t.me;")]
    row = [Line(f"const {k.row_type} *const self = (const {k.row_type} *)nl_t.self;")]
    if not (first or rest):
        row = []
    start, wait = [*me, *row, *step], [] if made.waits else [WAIT]
    if made.given:
        inner = [*columns(k, rest), *made.body]
        name, given = k.function + made.suffix, f"const {k.row_type} *self, nl_i64 step, {made.given}"
        return [Line(f"NL_PART void {name}({given})"), Line("{"), *indent(inner), Line("}")]
    if made.early:
        inner = [*start, *columns(k, first), *made.ahead, *wait, *made.early, *columns(k, rest), *made.body]
    else:
        inner = [*start, *columns(k, first | rest), *made.ahead, *wait, *made.body]
    name = k.function + made.suffix
    bounds = f"__launch_bounds__({BLOCK}, {made.resident})" if made.resident else "NL_BLOCK"
    kernel = f'extern "C" __global__ void {bounds} {name}(NL_ARGUMENTS) {{ {name}{WORK}(NL_TASK({k.row_type})); }}'
    return [
        Line(f"NL_FN void {name}{WORK}(const nl_task &nl_t)"),
        Line("{"),
        *indent(inner),
        Line("}"),
        *([Line(kernel)] if whole else []),
    ]


def _uses(made: Function, word: str) -> bool:
    pattern = re.compile(rf"\b{word}\b")
    return any(pattern.search(x.text) for x in (*made.ahead, *made.early, *made.body))


WAIT: Final = Line("nl_wait();")
ONCE: Final = Line("#pragma unroll 1")
"""Most loops over elements run once in a thread: unrolled, they take twice as long to compile and run no faster."""


def each_element(index: str, count: str, inner: Sequence[Line]) -> list[Line]:
    """A loop over this block's part of `count` elements: neighbouring threads take neighbouring elements."""
    return [
        Line(f"const nl_i64 nl_end = nl_least({count}, (nl_me.part + 1ll) * nl_t.chunk);"),
        ONCE,
        Line(
            f"for (nl_i64 {index} = nl_me.part * nl_t.chunk + threadIdx.x; {index} < nl_end; {index} += blockDim.x) {{"
        ),
        *indent(inner),
        Line("}"),
    ]

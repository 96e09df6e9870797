"""emit: the CUDA text of a merged program.

Assumes: a legal Merged (verify/verify.py) whose arrays are row-major.
Guarantees: the text is a function of the templates, the precision and the order alone: equal for any number and values
of rows. Every kernel names its part of the model; `spans` maps lines of the text to the model; products share kernels
(backends/cuda/kernels/contract.py), which are at the end. `parts` are translation units that together have the same
kernels, each once (translation_units.py), without shapes of tiles that no row uses. Descriptors of all kernels
accompany them, so that loading prints nothing.
Does not: compile (compile.py), divide work (backends/cuda/kernels/launch_geometry.py), or print tables (they are data).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import backends.cuda.kernels.contract as contracts
import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel, compiled, open_kernel, row_struct
from backends.c_family.cprint import Dialect, PrintError
from backends.c_family.device_library import file_names
from backends.c_family.source_map import fixed_order, heading, no_text, printed
from backends.cuda.emit.translation_units import Share, parts_of, whole_of
from backends.cuda.kernels.attention import attention
from backends.cuda.kernels.events import connect, from_skeleton, record
from backends.cuda.kernels.kernel import BLOCK, COLUMNS, SKELETONS, Function, Shared, function, read_by
from backends.cuda.kernels.nests.rows_added import asked_dims, rows_added
from backends.cuda.kernels.nests.ways import nest_functions
from backends.cuda.kernels.propagate import propagate
from backends.cuda.persistent.rnn import chain_names, chained_templates
from backends.cuda.persistent.rnn_plan import Shapes, shapes_of
from backends.cuda.persistent.rnn_text import links_of, shape_lines
from backends.cuda.waves.shared_deliveries import WORDS
from backends.cuda.waves.waves import (
    PER_PROCESSOR,
    ROOM,
    WaveFunction,
    compile_work,
    kernel_name,
    wave_functions,
    wave_kernels,
    wave_templates,
)
from backends.kernel_ir.descriptor import Compiled, CompiledFunction, CompiledKernel
from backends.kernel_ir.stmt import Stmt, Text, names_of
from backends.kernel_ir.verify import verify
from compiler.core.source import Span
from compiler.ir.level2.dependence import is_flat
from compiler.layers.shared.context import HIDDEN
from compiler.strategies.cuda import fused_attention

COARSE: Final = frozenset({"exp", "sigmoid", "tanh", "erf"})
"""Functions of values that are rounded to bf16 by fewer instructions (backends/device/math.h): an epilogue of products
that computes gelu takes as long as these otherwise."""


@dataclass(frozen=True)
class Emitted:
    """`text`: the .cu file; `spans`: model spans by line of the text (from 1). `parts`: the translation units that are
    compiled instead, in parallel (none: the text itself). `name`, `quick`: of a part, whether it needs little
    optimisation. `tensor`: whether it multiplies on matrix units by instructions that belong to one architecture.
    `kernels`: of the whole text, their descriptors, by template."""

    text: str
    spans: Mapping[int, Span]
    parts: tuple[Emitted, ...] = ()
    name: str = ""
    quick: bool = False
    tensor: bool = False
    kernels: Compiled = ()


@dataclass(frozen=True)
class _Pieces:
    """The components of a program's texts. `printed`: each template with its kernels; `descriptors`: by
    template; `pointwise`: templates of which a
    chain needs only the rows; `shapes`, `points`: of its stages, and their functions
    (backends/cuda/persistent/rnn_plan.py, backends/cuda/persistent/rnn_text.py); `numbers`: see
    backends/cuda/kernels/contract.py."""

    program: l2.Merged
    kernels: list[Kernel]
    made: list[list[Function]]
    printed: list[list[Stmt]]
    descriptors: Compiled
    pointwise: frozenset[int]
    shapes: Shapes
    points: list[Stmt]
    waves: Sequence[WaveFunction]
    shared: list[Shared]
    numbers: Mapping[int, frozenset[int]]

    def block(self, template: int, whole: bool) -> list[Stmt]:
        """The lines of a template, `whole` or only the part that other kernels need."""
        if whole:
            return self.printed[template]
        made = [] if template in self.pointwise else self.made[template]
        return kernel_lines(self.kernels[template], self.descriptors[template], made, False)


def emit(program: l2.Merged) -> Emitted:
    """The CUDA text of a program. Raises BackendError (E0903) for programs without one."""
    dialect = Dialect(
        program.precision,
        restrict="__restrict__",
        add="nl_accumulate",
        short=True,
        cpp=True,
        pointer="nl_global({})",
        coarse=frozenset() if fixed_order(program) else COARSE,
    )
    made: list[list[Function]] = []
    # chains and waves read arrays written by several launches: no `restrict`
    waves = wave_templates(program)
    again, chained = replace(dialect, restrict=""), frozenset(chained_templates(program))
    several = chained.union(waves)
    kernels = [open_kernel(t, again if t.index in several else dialect) for t in program.templates]
    for template, k in zip(program.templates, kernels, strict=True):
        try:
            made.append(functions_of(k, template.index in waves))
        except PrintError as e:
            raise no_text(template, "CUDA", e) from None
    shapes = shapes_of(program)
    links = links_of(program, shapes, again)
    read = [read_by(k, f) for k, f in zip(kernels, made, strict=True)]
    for link in (x for shape in links for x in shape):
        read[link.kernel.template.index] |= link.read
    known = list(zip(kernels, made, read, strict=True))
    described = [_described(k, f, r) for k, f, r in known]
    printed = [kernel_lines(k, d, f, True) for (k, f, _), d in zip(known, described, strict=True)]
    calling = wave_kernels(program, {t: compile_work(printed[t]) for t in waves})
    descriptors = tuple(replace(d, wave=calling.get(t, 0)) for t, d in enumerate(described))
    for k, lines in zip(kernels, printed, strict=True):
        verify(k.function, lines, program.precision)
    points = shape_lines(shapes, links, again, [len(d.columns) for d in descriptors])
    verify("nl_stage", points, program.precision)
    shared, numbers = contracts.shared_kernels(kernels), contracts.numbers_of(program)
    pieces = _Pieces(
        program,
        kernels,
        made,
        printed,
        descriptors,
        chained,
        shapes,
        points,
        wave_functions(descriptors),
        shared,
        numbers,
    )
    whole, shares = replace(_text(pieces, whole_of(program)), kernels=descriptors), parts_of(program, calling)
    if len(shares) == 1:
        return replace(whole, quick=shares[0].quick)
    found = (s for share in shares if (s := _with_rows(pieces, share)) is not None)
    return replace(whole, parts=tuple(_text(pieces, s) for s in found))


def _with_rows(x: _Pieces, share: Share) -> Share | None:
    """A part of kernels of contractions without the templates of which no row has a shape of their tiles, or None."""
    if share.part is None:
        return share
    users = {k.template.index for s in x.shared if s.part == share.part for k in s.with_rows(x.numbers).users}
    return replace(share, kernels=users) if users else None


def _text(x: _Pieces, share: Share) -> Emitted:
    program = x.program
    blocks = [x.block(t, t in share.kernels) for t in sorted({*share.kernels, *share.called})]
    points = x.points if share.chains else []
    waves = [f for f in x.waves if share.wave in (None, f.wave)]
    kernels = printed(blocks)
    shapes = printed([points] if points else [])
    deliveries = any(f.event for f in waves)
    called = names_of(s for b in (*blocks, points) for s in b) | ({"nl_slot"} if deliveries else set())
    file = file_names(program, kernels, called, "cuda")
    names = contracts.shared_names(x.shared, share.kernels, share.called, x.numbers if share.name else None, share.part)
    text = SKELETONS.render(
        "module.cu.j2",
        block=BLOCK,
        columns=COLUMNS,
        shape_text=shapes.text,
        helpers=share.helpers,
        waves={kernel_name(n): [f for f in x.waves if f.wave == n] for n in sorted({f.wave for f in waves})},
        deliveries=deliveries,
        delivery_words=WORDS,
        wave_blocks=PER_PROCESSOR,
        wave_room=ROOM,
        attention={"rows": fused_attention.ROWS, "threads": fused_attention.THREADS, "hidden": HIDDEN},
        **chain_names(program, x.shapes, share.chains),
        **file,
        **names,
    )
    tensor = names["units"] or names["fft_products"]
    found = kernels.within(text) | shapes.within(text)
    return Emitted(text, found, name=share.name, quick=share.quick, tensor=tensor)


def functions_of(k: Kernel, waves: bool) -> list[Function]:
    """The functions of one template, the plain one (suffix "") first; `waves`: whether these call it, too."""
    match k.template.body:
        case l2.Nest() as nest:
            asked = asked_dims(nest)
            return nest_functions(k, nest, waves) if asked is None else rows_added(k, nest, asked)
        case l2.Contract() as contract:
            return contracts.contract_functions(k, contract)
        case l2.Attention() as a:
            return [attention(k, a)]
        case l2.Propagate() as p:
            return propagate(k, p)
        case l2.Connect() as c:
            return connect(k, c)
        case l2.RecordEvents() | l2.RecordTrace() as r:
            return record(k, r)
        case l2.EmitScheduled():
            return [from_skeleton(k, "emit_scheduled.cu.j2")]


def kernel_lines(k: Kernel, described: CompiledKernel, functions: Iterable[Function], whole: bool) -> list[Stmt]:
    """The comments, row structure and functions of one template; `whole`: with the kernels."""
    lines = [*heading(k), row_struct(k, {k.template.formals[n].name for n in described.columns})]
    for made in functions:
        lines += [Text(""), *function(k, made, whole)]
    return lines


def _described(k: Kernel, functions: Sequence[Function], read: Collection[str]) -> CompiledKernel:
    """The descriptor of a template with these functions, of whose rows kernels read the formals `read`."""
    found = replace(compiled(k, read), flat=is_flat(k.template))
    match k.template.body:
        case l2.Contract() as contract:
            return replace(found, functions=contracts.compiled_functions(k.template, contract))
    return replace(found, functions=tuple(_launched(k, f) for f in functions))


def _launched(k: Kernel, f: Function) -> CompiledFunction:
    joins = names_of(f.body) & {"__shared__", "__syncthreads", "nl_is_last", "nl_came_last", "nl_joined"}
    by_event = f.event is not None
    return CompiledFunction(k.function + f.suffix, f.block, f.division, bool(joins), f.resident, by_event)

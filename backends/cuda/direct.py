"""Convolutions summed in registers: the functions of the strategies direct_conv and direct_conv_weights.

Assumes: a Contract that compiler/strategies/direct_conv.py or direct_conv_weights.py took: the image's last two axes
are guarded sums of a dim of the output and one of the window, everything else is plain.
Guarantees: the parts that dims play are found from the accesses alone; strides of the window and the number of taps
along a row are literals of the text, all else is read from the row. The epilogue is printed from the nest.
Does not: lay out blocks: that is columns (see the strategies), which work.py turns into numbers of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from backends.access import Kernel
from backends.cprint import Line, PrintError, Symbol
from backends.cuda.kernel import Function, with_end
from backends.cuda.nest import NestPrinter
from backends.cuda.skeletons import render
from compiler.ir.program import ArrayFormal, Axis, Contract, DimKind, Strided, Template
from compiler.strategies import direct_conv, direct_conv_weights

STRATEGIES: Final = frozenset({direct_conv.NAME, direct_conv_weights.NAME})
SUFFIXES: Final = ("", "_narrow")
_RESIDENT: Final = 3
"""Blocks of a weight gradient that a processor holds: while one waits for its operands another one sums."""
"""Of direct_conv's functions, by `s_tile`."""


@dataclass(frozen=True)
class Line2:
    """One windowed axis of the image: index = step * out + tap * window + const."""

    out: str
    window: str
    step: int
    tap: int
    axis: Axis
    stride_text: str = ""
    extent_text: str = ""
    const_text: str = ""


@dataclass(frozen=True)
class Roles:
    """Dims by their part, and the formals of the image and of the other operand."""

    image: str
    other: str
    n: str
    o: str
    c: str
    i: str
    j: str
    r: str
    s: str
    row: Line2
    col: Line2


def _access(template: Template, formal: str) -> Strided:
    access = next(f.access for f in template.formals if f.name == formal and isinstance(f, ArrayFormal))
    assert isinstance(access, Strided)
    return access


def roles(template: Template, contract: Contract) -> Roles:
    """The parts of the dims. Raises PrintError where the accesses are of another form."""
    image, other = (f"x{dict(contract.literals)['image']}", f"x{1 - dict(contract.literals)['image']}")
    kinds = {d.name: d.kind for d in contract.nest.dims}
    forward = contract.strategy == direct_conv.NAME
    windowed = [a for a in _access(template, image).axes if len(a.terms) == 2]
    if len(windowed) != 2:
        raise PrintError("the image has not two windowed axes", template.span)
    lines = []
    for axis in windowed:
        (d1, c1), (d2, c2) = axis.terms
        if (kinds[d1] is DimKind.RED) == forward:  # pixels are summed over only in the gradient of the weights
            (d1, c1), (d2, c2) = (d2, c2), (d1, c1)
        lines.append(Line2(d1, d2, c1, c2, axis))
    row, col = lines
    plain = [d for a in _access(template, image).axes if len(a.terms) == 1 for d, _ in a.terms]
    others = {d for a in _access(template, other).axes for d, _ in a.terms}
    c = next(d for d in plain if (kinds[d] is DimKind.RED) == forward)
    n = next(d for d in plain if d != c)
    o = next(d for d in others if d not in {n, c, row.out, row.window, col.out, col.window})
    return Roles(image, other, n, o, c, row.out, col.out, row.window, col.window, row, col)


def direct_functions(k: Kernel, contract: Contract) -> list[Function]:
    """direct_conv: one function for each number of outputs of a thread; direct_conv_weights: one."""
    if contract.nest.prologue or contract.nest.fill != 0:
        raise PrintError(f"there is no strategy `{contract.strategy}` for this kernel", k.template.span)
    found = roles(k.template, contract)
    nest = NestPrinter(k, contract.nest)
    dims = {d.name: d for d in contract.nest.dims}

    def number(value: int | str) -> str:
        return str(value) if isinstance(value, int) else k.scope[value].text

    def line(x: Line2) -> Line2:
        first, extent = number(x.axis.const), x.axis.extent
        if extent is None:  # no index leaves the image: this is the last one
            last = [f"{x.step} * ({number(dims[x.out].extent)} - 1)"]
            last += [f"{x.tap} * ({number(dims[x.window].extent)} - 1)"] if x.tap > 0 else []
            texts = number(x.axis.stride), f"({' + '.join([first, *last, '1'])})", first
        else:
            texts = number(x.axis.stride), number(extent), first
        return Line2(x.out, x.window, x.step, x.tap, x.axis, *texts)

    def stride(formal: str, dim: str) -> str:
        return next(number(a.stride) for a in _access(k.template, formal).axes if a.terms == ((dim, 1),))

    texts = {
        "r": Roles(**{**vars(found), "row": line(found.row), "col": line(found.col)}),
        "pointer": lambda formal: k.pointers[formal],
        "stride": stride,
        "extent": lambda dim: nest.extent([dims[dim]]),
        "column": lambda name: k.scope[name].text,
        "name": lambda dim: nest.vars[dim],
        "taps": dict(contract.literals)["taps"],
        "end": "@end",
    }
    taps = dict(contract.literals)["taps"]
    forward = contract.strategy == direct_conv.NAME
    shapes = direct_conv.OUTS if forward else (direct_conv_weights.outs_of(taps),)
    end = _epilogue(k, nest)
    made = []
    for suffix, outs in zip(SUFFIXES, shapes, strict=False):
        text = render(f"strategy_{contract.strategy}.cu.j2", outs=outs, **texts)
        made.append(Function(suffix, with_end(text, end), resident=0 if forward else _RESIDENT))
    return made


def _epilogue(k: Kernel, nest: NestPrinter) -> list[Line]:
    """What is done with one sum."""
    body = nest._body()
    acc = k.namer(nest.nest.acc)
    body.scope[nest.nest.acc] = Symbol(acc, k.dialect.precision)
    first = Line(f"const {k.dialect.real} {acc} = nl_sum;")
    return [first, *body.run(nest.nest.epilogue), *body.stores()]

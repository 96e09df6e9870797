"""batch_independence: the parts of arrays that a row of a kernel accesses for one sample of a batch; the kernels
permitted in a chain.

Assumes: row-major arrays; a batch is the first dim of a nest, or the outer part of it.
Guarantees: conservative: arrays reported as separate per sample are: with an array and the first dim of the nest in
`samples` equal parts each, part s of the dim accesses part s of the array alone.
Does not: analyse more than index maps: an access through data is never separate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

import compiler.ir.level2.program as l2
from compiler.expr.ast import Binary, Ref
from compiler.ir.space import DType

MOST_TERMS = 31
"""Terms of a sum inside a chain that is no product."""
Number = Callable[[int | str], int | None]


@dataclass(frozen=True)
class Product:
    """A product of samples with a matrix: the formals of the two, the dims of the samples, of the outputs and of the
    terms, and whether the rows of the matrix are outputs (or terms)."""

    values: str
    matrix: str
    sample: str
    out: str
    term: str
    by_out: bool


def nest_of(template: l2.Template) -> l2.Nest | None:
    body = template.body.nest if isinstance(template.body, l2.Contract) else template.body
    return body if isinstance(body, l2.Nest) else None


def _plain(template: l2.Template, formal: str) -> dict[str, int | str] | None:
    """The strides of an access by dim, if every index is a plain dim."""
    axes = template.strided.get(formal, l2.SCALAR).axes
    found = {a.dim: a.stride for a in axes if a.dim is not None}
    return found if all(a.dim for a in axes) else None


def product_of(template: l2.Template) -> Product | None:
    """The template as a product of samples with a matrix whose outputs and terms are contiguous in memory."""
    contract = template.body
    if not isinstance(contract, l2.Contract) or contract.nest.prologue or contract.nest.fill != 0:
        return None
    nest = contract.nest
    par, red = ([d.name for d in dims] for dims in (nest.par, nest.red))
    term = nest.term
    product = isinstance(term, Binary) and term.op == "*" and {term.left, term.right} == {Ref("x0"), Ref("x1")}
    if len(par) != 2 or len(red) != 1 or nest.combine != "add" or not product:
        return None
    (sample, out), k = par, red[0]
    operands = {x: _plain(template, x) for x in ("x0", "x1")}
    values = next((x for x, by in operands.items() if by and set(by) == {sample, k} and by[k] == 1), None)
    matrix = next((x for x, by in operands.items() if by and set(by) == {out, k} and 1 in by.values()), None)
    y = _plain(template, "y")
    if values is None or matrix is None or y is None or y.get(out) != 1:
        return None
    by = operands[matrix]
    assert by is not None
    return Product(values, matrix, sample, out, k, by[k] == 1)


def _short(nest: l2.Nest) -> bool:
    """Whether a nest is a map, or a sum of few terms whose number is part of the text."""
    return prod(d.extent if isinstance(d.extent, int) else MOST_TERMS + 1 for d in nest.red) <= MOST_TERMS


def may_be_chained(template: l2.Template) -> bool:
    """Whether rows of the template may be links of a chain: products with a matrix, maps, and sums of few terms."""
    nest = nest_of(template)
    if nest is None or not nest.dims or nest.beside or nest.staged or any(d.kind is l2.DimKind.LANE for d in nest.dims):
        return False
    if nest.dims[0].kind is not l2.DimKind.PAR:
        return False
    for f in template.arrays:
        if not isinstance(f.access, l2.Strided) or f.mode is l2.Mode.ACCUMULATE or f.dtype is DType.BF16:
            return False
    if not all(isinstance(s, l2.Assign) for s in (*nest.prologue, *nest.epilogue)):
        return False
    return product_of(template) is not None if isinstance(template.body, l2.Contract) else _short(nest)


# ------------------------------------------------------------------------------------------- one row


def numbers(rows: l2.Rows, row: int) -> Number:
    """Literals, and integer columns of one row; None for values known only after connecting."""

    def number(x: int | str) -> int | None:
        value = x if isinstance(x, int) else rows.scalars[x][row]
        return None if not isinstance(value, int) and not hasattr(value, "__index__") else int(value)

    return number


def extent_of(template: l2.Template, rows: l2.Rows, row: int, dim: str) -> int:
    nest = nest_of(template)
    assert nest is not None
    extent = numbers(rows, row)(next(d.extent for d in nest.dims if d.name == dim))
    assert extent is not None
    return extent


def outs_of(template: l2.Template, rows: l2.Rows, row: int, product: Product | None, samples: int) -> int:
    """Outputs of a product in one row, or elements of a map, for each sample."""
    if product is not None:
        return extent_of(template, rows, row, product.out)
    nest = nest_of(template)
    assert nest is not None
    return prod(extent_of(template, rows, row, d.name) for d in nest.dims) // samples


def _reach(axis: l2.Axis, last: Mapping[str, int | None], number: Number) -> tuple[int, int] | None:
    """The smallest and largest index along an axis, or None."""
    const, extent = number(axis.const), None if axis.extent is None else number(axis.extent)
    ends = [last.get(d) for d, _ in axis.terms]
    if const is None or any(e is None for e in ends):
        return None if extent is None else (0, extent - 1)
    steps = [c * e for (_, c), e in zip(axis.terms, ends, strict=True) if e is not None]
    low, high = const + sum(min(x, 0) for x in steps), const + sum(max(x, 0) for x in steps)
    low, high = -(-low // axis.div), high // axis.div
    return (low, high) if extent is None else (max(low, 0), min(high, extent - 1))


def apart(template: l2.Template, formal: l2.ArrayFormal, number: Number, samples: int, size: int) -> bool:
    """Whether, for each of `samples` parts of the first dim, a row accesses only the same one of as many parts of an
    array of `size` elements."""
    nest = nest_of(template)
    assert nest is not None and isinstance(formal.access, l2.Strided)
    first = nest.dims[0]
    extent = number(first.extent)
    lead = [a for a, _ in formal.access.along(first.name)]
    if extent is None or extent % samples or size % samples or len(lead) != 1:
        return False
    stride = number(lead[0].stride)
    if lead[0].dim is None or stride is None or stride * (extent // samples) != size // samples:
        return False
    ends = {d.name: number(d.extent) for d in nest.dims}
    last = {d: None if e is None else e - 1 for d, e in ends.items()}
    high = 0
    for axis in formal.access.axes:
        if axis is lead[0]:
            continue
        reach, by = _reach(axis, last, number), number(axis.stride)
        if reach is None or by is None or by < 0 or reach[0] < 0:
            return False
        high += max(reach[1], 0) * by
    return high < stride


# ------------------------------------------------------------------------------------------ legality


def links_of(body: Iterable[l2.Launch]) -> tuple[l2.Launch, ...]:
    """The links of a chain: the rows of a step of its loop, each as a launch."""
    return tuple(replace(x, lo=row, hi=row + 1) for x in body for row in range(x.lo, x.hi))


def chain_violations(merged: l2.Merged, phase: l2.Phase) -> Iterator[str]:
    """Breaches of the spec by loops that keep samples apart."""
    for loop in phase.loops:
        if loop.pays and not loop.samples:
            yield f"phase `{phase.name}`: the loop `{loop.name}` pays as a chain, but is none"
        if loop.samples:
            where = f"phase `{phase.name}`: the chain `{loop.name}`"
            yield from (f"{where} {v}" for v in _loop_violations(merged, phase, loop))


def _loop_violations(merged: l2.Merged, phase: l2.Phase, loop: l2.Loop) -> Iterator[str]:
    links = links_of(phase.launches[loop.first : loop.last])
    beside = {x.name: x.beside for x in phase.loops}
    if min(loop.spread, loop.cluster) < 1 or loop.spread > 1 < loop.cluster:
        yield f"is spread over {loop.spread} blocks, in clusters of {loop.cluster}"
    elif loop.beside and (loop.name not in loop.beside or any(beside.get(n) != loop.beside for n in loop.beside)):
        yield "runs at the same time as a loop that does not know it"
    elif not all(may_be_chained(merged.templates[t]) for t in {x.template for x in links}):
        yield "has a kernel that has no samples"
    else:
        yield from (f"has samples that meet in `{name}`" for name in sorted(meetings(merged, links, loop)))


def meetings(merged: l2.Merged, links: Sequence[l2.Launch], loop: l2.Loop) -> set[str]:
    """Arrays of which a step of a loop accesses, beside the part of a sample, what it or another step writes."""
    names = {n for x in links for n in bound(merged, x).values()}
    arrays = {a.name: a for a in merged.arrays if a.name in names}
    touched = [
        (x, f, arrays[merged.tables[x.template].arrays[f.name][x.lo]])
        for x in links
        for f in merged.templates[x.template].arrays
    ]
    written: dict[str, set[l2.Array]] = {}
    for _, f, a in touched:
        if f.mode is not l2.Mode.READ:
            written.setdefault(a.within or a.name, set()).add(a)
    found = set[str]()
    for x, f, a in touched:
        number = numbers(merged.tables[x.template], x.lo)
        others = [b for b in written.get(a.within or a.name, ()) if not _beside(a, b, loop.steps)]
        alone = all(_in_step(a, b) for b in others)
        if others and not (alone and apart(merged.templates[x.template], f, number, loop.samples, a.physical_size)):
            found.add(a.name)
    return found


def bound(merged: l2.Merged, link: l2.Launch) -> dict[str, str]:
    """The arrays of a link, by formal."""
    return {formal: names[link.lo] for formal, names in merged.tables[link.template].arrays.items()}


def _beside(a: l2.Array, b: l2.Array, steps: int) -> bool:
    """Whether two arrays of one whole have no common element in any steps."""
    (first, last), (begin, end) = a.over(steps), b.over(steps)
    return last <= begin or end <= first


def _in_step(a: l2.Array, b: l2.Array) -> bool:
    """Whether the parts of any two steps are the same elements, or others."""
    apart = gcd(a.first - b.first, a.by_step, b.by_step)
    return a.physical_size == b.physical_size and (apart == 0 or apart >= a.physical_size)


def padded(rows: int, columns: int, real_bytes: int) -> tuple[int, int]:
    """Rows and elements of a row of a matrix on chip: both in units of 16 bytes, of which a row has an odd number, so
    that neighbouring rows lie in different banks."""
    unit = 16 // real_bytes
    return -(-rows // unit) * unit, (-(-columns // unit) | 1) * unit

"""SIMD convolutions of many events: LANES output channels per vector.

Assumes: a Toeplitz relation, by source, whose statements only add to elements of targets.
Guarantees: the bits of the plain walk: every target is summed in the order of events, starting from its old value. A
block of LANES channels is copied to the context's scratch memory as [position][lane] and back, the kernel's elements as
[in channel, ky, kx][lane], so that a kernel position adds a vector. That pays for many events per step: the text
compares their number with the size of the copies and otherwise takes the plain walk.
Does not: print the plain walk (backends/c_family/synapse_walk.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import C_TYPES, Body, Element, Line, Symbol, indent
from backends.c_family.synapse_walk import over, place, reached
from backends.cpu.kernels.batched_rng import has_draws
from compiler.expr.ast import refs

LANES: Final = 16
"""Output channels side by side: a vector of 512 bits of float32."""
_SLOT: Final = LANES * 8
"""Bytes of scratch memory for the lanes of one position, whatever their type."""


@dataclass(frozen=True)
class Parts:
    """The formals held in scratch memory: sums of targets, and elements of the kernel."""

    sums: tuple[l2.ArrayFormal, ...]
    kinds: tuple[l2.ArrayFormal, ...]


def parts_of(template: l2.Template) -> Parts | None:
    """The formals for scratch memory; None when the statements do more than add to targets."""
    p = template.body
    if not isinstance(p, l2.Propagate) or not isinstance(p.relation, l2.Toeplitz) or p.by != "pre":
        return None
    if p.relation.depthwise or p.relation.shared:
        return None
    arrays = {f.name: f for f in template.formals if isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.At)}
    sums: dict[str, l2.ArrayFormal] = {}
    used: set[str] = set()
    for s in p.statements:
        if not isinstance(s, l2.Add | l2.Assign):
            return None
        used |= refs(s.value)
        if has_draws(s.value):
            return None
        f = arrays.get(s.target)
        if isinstance(s, l2.Add) and f is not None and f.mode is l2.Mode.ACCUMULATE and _at(f).end == "post":
            sums[f.name] = f
        elif f is not None or isinstance(s, l2.Add):
            return None
    kinds = tuple(f for f in arrays.values() if f.name in used and _at(f).end == "syn")
    late = {ring[0] for f in sums.values() if (ring := _at(f).ring) is not None}
    others = (f for f in arrays.values() if f.name in used and _at(f).end == "post")
    if used & {"post", "syn"} or late & arrays.keys() or any(others) or not sums:
        return None
    return Parts(tuple(sums.values()), kinds)


def _at(f: l2.ArrayFormal) -> l2.At:
    assert isinstance(f.access, l2.At)
    return f.access


def scratch_bytes(template: l2.Template, table: npt.NDArray[np.uint64]) -> int:
    """Maximum scratch memory of a row of the template; `table`: u64 (rows, formals)."""
    parts = parts_of(template)
    if parts is None:
        return 0
    assert isinstance(template.body, l2.Propagate) and isinstance(template.body.relation, l2.Toeplitz)
    kh, kw = template.body.relation.kernel
    names = [f.name for f in template.formals]
    in_c, out_h, out_w = (table[:, names.index(n)].astype(np.int64) for n in ("in_c", "out_h", "out_w"))
    places = len(parts.sums) * out_h * out_w + len(parts.kinds) * in_c * (kh * kw)
    return int(places.max(initial=0)) * _SLOT


@dataclass(frozen=True)
class _Block:
    """C names of a block of channels: the first one, a lane, how many lanes there are, a position."""

    o: str
    lane: str
    lanes: str
    q: str


@dataclass(frozen=True)
class _Held:
    """An array in scratch memory: what declares it, what copies it there and back, what points to the lanes of a kernel
    position, and an element of these."""

    declared: tuple[Line, ...]
    copied_in: tuple[Line, ...]
    copied_out: tuple[Line, ...]
    inside: Line
    element: Element


def _type(k: Kernel, f: l2.ArrayFormal) -> str:
    return k.dialect.type_name(f.dtype) if f.dtype == k.dialect.precision else C_TYPES[f.dtype]


def _sums(k: Kernel, f: l2.ArrayFormal, b: _Block, n: int, plane: str, position: str) -> _Held:
    """Sums of targets, the array number `n`; `plane`: positions of a channel, `position`: the first lane of one."""
    t = _type(k, f)
    sums, target, to = (k.namer.beside(f.name, word) for word in ("sums", "planes", "to"))
    start = f"ctx->scratch + {n} * {plane} * {_SLOT}" if n else "ctx->scratch"
    at, ring = k.pointers[f.name], _at(f).ring
    if ring is not None:
        late, slots, size = (k.scope[x].text for x in ring)
        at += f" + nl_later(nl_slot(step, {slots}), {late}, {slots}) * {size}"
    far = f"{target}[({b.o} + {b.lane}) * ({plane}) + {b.q}]"
    near = f"{sums}[{b.q} * {LANES} + {b.lane}]"
    return _Held(
        (Line(f"{t} *const {sums} = ({t} *)({start});"), Line(f"{t} *const {target} = {at};")),
        _copy(b, plane, f"{near} = {far};"),
        _copy(b, plane, f"{far} = {near};"),
        Line(f"{t} *restrict const {to} = {sums} + {position};"),
        Element(f"{to}[{b.lane}]", f.dtype, f.mode),
    )


def _kinds(k: Kernel, f: l2.ArrayFormal, b: _Block, start: str, kinds: str, kind: str) -> _Held:
    """Elements of the kernel, from slot `start` on; `kinds`: how many a channel has, `kind`: the first lane of one."""
    t = _type(k, f)
    held, of = k.namer.beside(f.name, "lanes"), k.namer.beside(f.name, "of")
    value = f"{b.lane} < {b.lanes} ? {k.pointers[f.name]}[({b.o} + {b.lane}) * ({kinds}) + {b.q}] : 0"
    copied = (
        Line(f"for (nl_i64 {b.q} = 0; {b.q} < {kinds}; {b.q}++)"),
        Line(f"for (nl_i64 {b.lane} = 0; {b.lane} < {LANES}; {b.lane}++)", 1),
        Line(f"{held}[{b.q} * {LANES} + {b.lane}] = {value};", 2),
    )
    declared = Line(f"{t} *const {held} = ({t} *)(ctx->scratch + ({start}) * {_SLOT});")
    inside = Line(f"const {t} *restrict const {of} = {held} + {kind};")
    return _Held((declared,), copied, (), inside, Element(f"{of}[{b.lane}]", f.dtype, f.mode))


def channels_last(
    k: Kernel,
    p: l2.Propagate,
    parts: Parts,
    events: tuple[str, Sequence[Line]],
    event: str,
    before: Sequence[Line],
    scope: Mapping[str, Symbol],
    places: Mapping[str, Element],
) -> tuple[str, list[Line]]:
    """(the condition under which it pays, the loops). `events`: their number, and the lines that open the loop over
    them (the last ones inside it). `scope` and `before`: symbols and loads of the event `event`."""
    relation = p.relation
    assert isinstance(relation, l2.Toeplitz)
    (kh, kw), (sh, sw) = relation.kernel, relation.stride
    s = {name: k.scope[name].text for name in ("in_c", "out_c", "out_h", "out_w")}
    o, lane, lanes, q, ky, kx = (k.namer.fresh(x) for x in ("o", "lane", "lanes", "q", "ky", "kx"))
    block = _Block(o, lane, lanes, q)
    plane, kinds = f"{s['out_h']} * {s['out_w']}", f"{s['in_c']} * {kh * kw}"
    where, here = place(k, relation, event)
    position = f"({reached(where.up, ky, sh)} * {s['out_w']} + {reached(where.left, kx, sw)}) * {LANES}"
    kind = f"(({where.c} * {kh} + {ky}) * {kw} + {kx}) * {LANES}"
    held = {f.name: _sums(k, f, block, n, plane, position) for n, f in enumerate(parts.sums)}
    first = f"{len(held)} * {plane}"
    held |= {f.name: _kinds(k, f, block, f"{first} + {n} * {kinds}", kinds, kind) for n, f in enumerate(parts.kinds)}
    body = Body(k.printer, dict(scope), {**places, **{name: h.element for name, h in held.items()}}, k.namer)
    inner = body.finish(p.statements)
    number, opening = events
    lines = [
        *(line for h in held.values() for line in h.declared),
        Line(f"for (nl_i64 {o} = 0; {o} < {s['out_c']}; {o} += {LANES}) {{"),
        Line(f"const nl_i64 {lanes} = {s['out_c']} - {o} < {LANES} ? {s['out_c']} - {o} : {LANES};", 1),
        *indent([line for h in held.values() for line in h.copied_in]),
        *indent(opening),
        *indent(here, 2),
        *indent(before, 2),
        Line(over(ky, where.ky0, where.ky1, sh), 2),
        Line(over(kx, where.kx0, where.kx1, sw), 3),
        *indent([h.inside for h in held.values()], 4),
        Line(f"for (nl_i64 {lane} = 0; {lane} < {LANES}; {lane}++) {{", 4),
        *indent(inner, 5),
        *(Line("}", depth) for depth in (4, 3, 2, 1)),
        *indent([line for h in held.values() for line in h.copied_out]),
        Line("}"),
    ]
    return f"{number} * {kh * kw} > 2 * ({plane} + {kinds})", lines


def _copy(b: _Block, plane: str, statement: str) -> tuple[Line, ...]:
    """One element of every position and lane, in squares that stay in the cache."""
    near = f"{b.q}_0"
    return (
        Line(f"for (nl_i64 {near} = 0; {near} < {plane}; {near} += 16)"),
        Line(f"for (nl_i64 {b.lane} = 0; {b.lane} < {b.lanes}; {b.lane}++)", 1),
        Line(f"for (nl_i64 {b.q} = {near}; {b.q} < {near} + 16 && {b.q} < {plane}; {b.q}++)", 2),
        Line(statement, 3),
    )

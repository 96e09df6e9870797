"""Convolutions of many events: sums of LANES output channels side by side.

Assumes: a Toeplitz relation, by source, whose statements only add to elements of targets.
Guarantees: the bits of the plain walk: every target is summed in the order of events, starting from what it held. A
block of LANES channels is copied to the context's scratch memory as [position][lane] and back, the kernel's elements
as [in channel, ky, kx][lane], so that what a kernel position adds is a vector. That pays when the events of a step
are many: the text compares their number with what is copied and takes the plain walk otherwise.
Does not: print the plain walk (synapse_loops.py).
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
from backends.cpu.kernels.batched_rng import has_draws
from backends.cpu.kernels.synapse_loops import over, place, reached
from compiler.expr.ast import refs

LANES: Final = 16
"""Output channels side by side: a vector of 512 bits of float32."""
_SLOT: Final = LANES * 8
"""Bytes of scratch memory for the lanes of one position, whatever their type."""


@dataclass(frozen=True)
class Parts:
    """The formals that lie in scratch memory: sums of targets, and elements of the kernel."""

    sums: tuple[l2.ArrayFormal, ...]
    kinds: tuple[l2.ArrayFormal, ...]


def parts_of(template: l2.Template) -> Parts | None:
    """What would lie in scratch memory; None when the statements do more than add to targets."""
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
    """The most scratch memory that a row of the template uses here; `table`: u64 (rows, formals)."""
    parts = parts_of(template)
    if parts is None:
        return 0
    assert isinstance(template.body, l2.Propagate) and isinstance(template.body.relation, l2.Toeplitz)
    kh, kw = template.body.relation.kernel
    names = [f.name for f in template.formals]
    in_c, out_h, out_w = (table[:, names.index(n)].astype(np.int64) for n in ("in_c", "out_h", "out_w"))
    places = len(parts.sums) * out_h * out_w + len(parts.kinds) * in_c * (kh * kw)
    return int(places.max(initial=0)) * _SLOT


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
    """(when it pays, the loops). `events`: how many there are, and the lines that open the loop over them (the last
    ones inside it). `scope` and `before`: what is known and loaded of the event `event`."""
    relation = p.relation
    assert isinstance(relation, l2.Toeplitz)
    (kh, kw), (sh, sw) = relation.kernel, relation.stride
    s = {name: k.scope[name].text for name in ("in_c", "out_c", "out_h", "out_w")}
    fresh = k.namer.fresh
    o, lane, lanes, q, ky, kx = (fresh(x) for x in ("o", "lane", "lanes", "q", "ky", "kx"))
    plane, kinds = f"{s['out_h']} * {s['out_w']}", f"{s['in_c']} * {kh * kw}"
    copied_in: list[Line] = []
    copied_out: list[Line] = []
    declared: list[Line] = []
    inside: list[Line] = []
    element: dict[str, Element] = dict(places)
    where, here = place(k, relation, event)
    position = f"({reached(where.up, ky, sh)} * {s['out_w']} + {reached(where.left, kx, sw)}) * {LANES}"
    kind = f"(({where.c} * {kh} + {ky}) * {kw} + {kx}) * {LANES}"
    slots = 0
    for f in parts.sums:
        t = k.dialect.type_name(f.dtype) if f.dtype == k.dialect.precision else C_TYPES[f.dtype]
        sums, target, to = (k.namer.beside(f.name, word) for word in ("sums", "planes", "to"))
        start = f"ctx->scratch + {slots} * {plane} * {_SLOT}" if slots else "ctx->scratch"
        declared.append(Line(f"{t} *const {sums} = ({t} *)({start});"))
        at, ring = k.pointers[f.name], _at(f).ring
        if ring is not None:
            late, slots_, size = (k.scope[n].text for n in ring)
            at += f" + nl_later(nl_slot(step, {slots_}), {late}, {slots_}) * {size}"
        declared.append(Line(f"{t} *const {target} = {at};"))
        far = f"{target}[({o} + {lane}) * ({plane}) + {q}]"
        near = f"{sums}[{q} * {LANES} + {lane}]"
        copied_in += _copy(q, lane, lanes, plane, f"{near} = {far};")
        copied_out += _copy(q, lane, lanes, plane, f"{far} = {near};")
        inside.append(Line(f"{t} *restrict const {to} = {sums} + {position};"))
        element[f.name] = Element(f"{to}[{lane}]", f.dtype, f.mode)
        slots += 1
    first = slots
    for n, f in enumerate(parts.kinds):
        t = k.dialect.type_name(f.dtype) if f.dtype == k.dialect.precision else C_TYPES[f.dtype]
        held, of = k.namer.beside(f.name, "lanes"), k.namer.beside(f.name, "of")
        start = f"ctx->scratch + ({first} * {plane} + {n} * {kinds}) * {_SLOT}"
        declared.append(Line(f"{t} *const {held} = ({t} *)({start});"))
        value = f"{lane} < {lanes} ? {k.pointers[f.name]}[({o} + {lane}) * ({kinds}) + {q}] : 0"
        copied_in += [
            Line(f"for (nl_i64 {q} = 0; {q} < {kinds}; {q}++)"),
            Line(f"for (nl_i64 {lane} = 0; {lane} < {LANES}; {lane}++)", 1),
            Line(f"{held}[{q} * {LANES} + {lane}] = {value};", 2),
        ]
        inside.append(Line(f"const {t} *restrict const {of} = {held} + {kind};"))
        element[f.name] = Element(f"{of}[{lane}]", f.dtype, f.mode)
    body = Body(k.printer, dict(scope), element, k.namer)
    inner = [*body.run(p.statements), *body.stores()]
    number, opening = events
    lines = [
        *declared,
        Line(f"for (nl_i64 {o} = 0; {o} < {s['out_c']}; {o} += {LANES}) {{"),
        Line(f"const nl_i64 {lanes} = {s['out_c']} - {o} < {LANES} ? {s['out_c']} - {o} : {LANES};", 1),
        *indent(copied_in),
        *indent(opening),
        *indent(here, 2),
        *indent(before, 2),
        Line(over(ky, where.ky0, where.ky1, sh), 2),
        Line(over(kx, where.kx0, where.kx1, sw), 3),
        *indent(inside, 4),
        Line(f"for (nl_i64 {lane} = 0; {lane} < {LANES}; {lane}++) {{", 4),
        *indent(inner, 5),
        *(Line("}", depth) for depth in (4, 3, 2, 1)),
        *indent(copied_out),
        Line("}"),
    ]
    return f"{number} * {kh * kw} > 2 * ({plane} + {kinds})", lines


def _copy(q: str, lane: str, lanes: str, plane: str, statement: str) -> list[Line]:
    """One element of every position and lane, in squares that stay in the cache."""
    block = f"{q}_0"
    return [
        Line(f"for (nl_i64 {block} = 0; {block} < {plane}; {block} += 16)"),
        Line(f"for (nl_i64 {lane} = 0; {lane} < {lanes}; {lane}++)", 1),
        Line(f"for (nl_i64 {q} = {block}; {q} < {block} + 16 && {q} < {plane}; {q}++)", 2),
        Line(statement, 3),
    ]

"""SIMD convolutions of many events: LANES output channels per vector.

Assumes: a Toeplitz relation, by source, whose statements only add to elements of targets.
Guarantees: the bits of the plain walk: every target is summed in the order of events, starting from its old value. A
block of LANES channels is copied to the context's scratch memory as [position][lane] and back, the kernel's elements as
[in channel, ky, kx][lane], so that a kernel position adds a vector. That pays for many events per step: the text
compares their number with the size of the copies and otherwise takes the plain walk.
Does not: print the plain walk (backends/c_family/synapse_walk.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import C_TYPES, STEP, Body, Element, Symbol
from backends.c_family.synapse_walk import place, reached
from backends.cpu.kernels.batched_rng import has_draws
from backends.kernel_ir.expr import call, code, cond, form, name
from backends.kernel_ir.stmt import For, Let, Set, Stmt
from backends.kernel_ir.tree import Code
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
    arrays = {f.name: f for f in template.arrays if isinstance(f.access, l2.At)}
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
    """A block of channels: the first one, a lane, how many lanes there are, a position."""

    o: Code
    lane: Code
    lanes: Code
    q: Code


@dataclass(frozen=True)
class _Held:
    """An array in scratch memory: what declares it, what copies it there and back, what points to the lanes of a kernel
    position, and an element of these."""

    declared: tuple[Stmt, ...]
    copied_in: tuple[Stmt, ...]
    copied_out: tuple[Stmt, ...]
    inside: Stmt
    element: Element


def _type(k: Kernel, f: l2.ArrayFormal) -> str:
    return k.dialect.type_name(f.dtype) if f.dtype == k.dialect.precision else C_TYPES[f.dtype]


def _sums(k: Kernel, f: l2.ArrayFormal, b: _Block, n: int, plane: Code, position: Code) -> _Held:
    """Sums of targets, the array number `n`; `plane`: positions of a channel, `position`: the first lane of one."""
    t = _type(k, f)
    sums, target, to = (k.namer.beside(f.name, word) for word in ("sums", "planes", "to"))
    start = form("ctx->scratch + {} * {} * {}", n, plane, _SLOT) if n else code("ctx->scratch")
    at, ring = k.pointers[f.name], _at(f).ring
    if ring is not None:
        late, slots, size = (k.scope[x].code for x in ring)
        at = at + call("nl_later", call("nl_slot", STEP, slots), late, slots) * size
    far = target[form("({} + {}) * {} + {}", b.o, b.lane, plane, b.q)]
    near = sums[b.q * LANES + b.lane]
    return _Held(
        (Let(f"{t} *const", sums, form(f"({t} *){{}}", start), False), Let(f"{t} *const", target, at, False)),
        _copy(b, plane, Set(near, far)),
        _copy(b, plane, Set(far, near)),
        Let(f"{t} *restrict const", to, sums + position, False),
        Element(to[b.lane], f.dtype, f.mode),
    )


def _kinds(k: Kernel, f: l2.ArrayFormal, b: _Block, start: Code, kinds: Code, kind: Code) -> _Held:
    """Elements of the kernel, from slot `start` on; `kinds`: how many a channel has, `kind`: the first lane of one."""
    t = _type(k, f)
    held, of = k.namer.beside(f.name, "lanes"), k.namer.beside(f.name, "of")
    far = k.pointers[f.name][form("({} + {}) * {} + {}", b.o, b.lane, kinds, b.q)]
    store = Set(held[b.q * LANES + b.lane], cond(b.lane < b.lanes, far, 0))
    lanes = For(b.lane, 0, LANES, [store])
    declared = Let(f"{t} *const", held, form(f"({t} *)(ctx->scratch + {{}} * {_SLOT})", start), False)
    inside = Let(f"{t} *restrict const", of, held + kind)
    copied = For(b.q, 0, kinds, [lanes])
    return _Held((declared,), (copied,), (), inside, Element(of[b.lane], f.dtype, f.mode))


def channels_last(
    k: Kernel,
    p: l2.Propagate,
    parts: Parts,
    events: tuple[Code, Sequence[Stmt], Callable[[Sequence[Stmt]], Stmt]],
    event: Code,
    before: Sequence[Stmt],
    scope: Mapping[str, Symbol],
    places: Mapping[str, Element],
) -> tuple[Code, list[Stmt]]:
    """(the condition under which it pays, the loops). `events`: their number, what comes before the loop over them, and
    the loop around a body. `scope` and `before`: symbols and loads of the event `event`."""
    relation = p.relation
    assert isinstance(relation, l2.Toeplitz)
    (kh, kw), (sh, sw) = relation.kernel, relation.stride
    s = {name: k.scope[name].code for name in ("in_c", "out_c", "out_h", "out_w")}
    o, lane, lanes, q, ky, kx = (k.namer.fresh(x) for x in ("o", "lane", "lanes", "q", "ky", "kx"))
    block = _Block(o, lane, lanes, q)
    plane, kinds = s["out_h"] * s["out_w"], s["in_c"] * (kh * kw)
    where, here = place(k, relation, event)
    position = (reached(where.up, ky, sh) * s["out_w"] + reached(where.left, kx, sw)) * LANES
    kind = form("(({} * {} + {}) * {} + {}) * {}", where.c, kh, ky, kw, kx, LANES)
    held = {f.name: _sums(k, f, block, n, plane, position) for n, f in enumerate(parts.sums)}
    first = len(held) * plane if len(held) > 1 else plane
    starts = [first + n * kinds if n > 1 else first + kinds if n else first for n in range(len(parts.kinds))]
    held |= {f.name: _kinds(k, f, block, x, kinds, kind) for f, x in zip(parts.kinds, starts, strict=True)}
    body = Body(k.dialect, dict(scope), {**places, **{name: h.element for name, h in held.items()}}, k.namer)
    inner = [*(h.inside for h in held.values()), For(lane, 0, LANES, body.finish(p.statements))]
    taps = For(ky, where.ky0, where.ky1, [For(kx, where.kx0, where.kx1, inner, sw)], sh)
    number, opening, each = events
    rest = s["out_c"] - o
    lines = [
        *(x for h in held.values() for x in h.declared),
        For(o, 0, s["out_c"], [
            Let("nl_i64", lanes, cond(rest < LANES, rest, LANES)),
            *(x for h in held.values() for x in h.copied_in),
            *opening,
            each([*here, *before, taps]),
            *(x for h in held.values() for x in h.copied_out),
        ], LANES),
    ]  # fmt: skip
    return form("{} * {} > 2 * ({} + {})", number, kh * kw, plane, kinds), lines


def _copy(b: _Block, plane: Code, statement: Stmt) -> tuple[Stmt, ...]:
    """One element of every position and lane, in squares that stay in the cache."""
    near = name(f"{b.q}_0")
    end = form("{} + 16 && {} < {}", near, b.q, plane)
    inner = For(b.lane, 0, b.lanes, [For(b.q, near, end, [statement])])
    return (For(near, 0, plane, [inner], 16),)

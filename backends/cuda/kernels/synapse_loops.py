"""The loop over the synapses of one neuron, spread over threads, for every relation.

Assumes: formals as compiler/ir/level2/program.py names them; nl_my_share (templates/module.cu.j2).
Guarantees: adjacent threads take adjacent synapses; each loads WIDE of them before it processes them, so that their
latencies overlap (not for bitmasks, which are decoded bit by bit). Where several warps share the synapses of an event,
these are a function of the event and of the threads that share it.
Does not: print the statements at a synapse (propagate.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import PrintError, Scalar
from backends.c_family.rule_rows import row_again
from backends.c_family.synapse_walk import centre
from backends.cuda.kernels.kernel import SKELETONS
from backends.kernel_ir.expr import braces, call, code, cond, every, form
from backends.kernel_ir.stmt import Do, For, Frame, If, Kind, Let, Set, Stmt
from backends.kernel_ir.tree import Code
from compiler.connect import drawing_of
from compiler.connect.drawing import Passing

WIDE: Final = 6
"""Synapses that a thread reads before it works on them."""
EVENT: Final = "_event"
"""Suffix of the device function of the synapses of one event that several warps share."""


@dataclass(frozen=True)
class Names:
    """Identifiers of the loops. `own` is the neuron of the event, `other` the other end, `syn` the synapse; `t` counts
    the elements of a neuron, `u` those that a thread has read; `event` counts events, `number` is their number."""

    own: Code
    other: Code
    syn: Code
    t: Code
    u: Code
    event: Code
    number: Code
    which: Code


@dataclass(frozen=True)
class Body:
    """The body at a synapse: `held` is prefetched (formal name -> local array and its type), `before` runs once per
    event, `inner` at every synapse. `numbered`: the synapse's number is used."""

    held: Mapping[str, tuple[Code, Scalar]]
    before: Sequence[Stmt]
    inner: Sequence[Stmt]
    numbered: bool


@dataclass(frozen=True)
class Elements:
    """The elements of one neuron: `after` of them (with the lines that find the number), the n-th of which is `first` +
    n in all, and the lines that find the other end and the synapse of it. `partial`: `other` is negative where there is
    none."""

    begin: tuple[Stmt, ...]
    first: Code | None
    after: Code
    finds: tuple[Stmt, ...]
    syn_type: str | None = None
    partial: bool = False

    def number(self, n: Code) -> Code:
        """Which of all elements the n-th of the neuron is."""
        return n if self.first is None else self.first + n


@dataclass(frozen=True)
class Loops:
    """`lines`: the loop over the events of a block. `event`: the synapses `thread`, `thread` + `threads`, ... of one of
    them, if threads share these; the lines call a function of it, whose name they leave open."""

    lines: tuple[Stmt, ...]
    event: tuple[Stmt, ...] = ()
    thread: Code | None = None
    threads: Code | None = None


def shares_events(relation: l2.Relation, gather: bool) -> bool:
    """Whether several warps may share the synapses of an event."""
    alone = isinstance(relation, l2.OneToOne) or (isinstance(relation, l2.Procedural) and _passes(relation.rule))
    return not gather and not alone


def ends_of(relation: l2.Relation, names: Names) -> tuple[Code, Code]:
    """How the statements name the other end and the synapse."""
    match relation:
        case l2.OneToOne():
            return names.own, names.own
        case l2.Bitmask():
            return names.other, names.syn
        case l2.Procedural(rule) if _passes(rule):
            return names.other, names.syn
        case l2.Csr(_, _, None):
            return names.other[names.u], names.t
    return names.other[names.u], names.syn[names.u]


def _passes(rule: str) -> bool:
    """Whether a warp draws rows of this rule, in ascending order."""
    return isinstance(drawing_of(rule), Passing)


def reads_ahead(relation: l2.Relation) -> bool:
    """Whether a thread loads several synapses before it processes them."""
    if isinstance(relation, l2.Procedural):
        return not _passes(relation.rule)
    return not isinstance(relation, l2.OneToOne | l2.Bitmask)


def loops(k: Kernel, relation: l2.Relation, by: str, names: Names, body: Body, gather: bool = False) -> Loops:
    """All loops: events, synapses, statements. `gather`: a thread for each neuron."""
    if gather and not isinstance(relation, l2.OneToOne):
        return Loops(tuple(_one_by_one(_elements(k, relation, by, names, body), k.namer.fresh("n"), names, body)))
    match relation:
        case l2.OneToOne():
            return Loops(tuple(_one_to_one(names, body)))
        case l2.Procedural(rule) if _passes(rule):
            return Loops(tuple(_drawn_again(k, relation, names, body)))
    thread, threads = k.namer.fresh("thread"), k.namer.fresh("threads")
    if isinstance(relation, l2.Bitmask):
        event = _bitmask(k, relation, names, body, thread, threads)
    else:
        event = _batches(k, _elements(k, relation, by, names, body), names, body, thread, threads)
    return Loops(tuple(_events(k, names)), tuple(event), thread, threads)


def _elements(k: Kernel, relation: l2.Relation, by: str, names: Names, body: Body) -> Elements:
    place, number = names.other[names.u], names.syn[names.u]
    own, t, ptr = names.own, names.t, k.pointers
    after = k.namer.fresh("end")
    finds: list[Stmt]
    match relation:
        case l2.Csr(row, col, index):
            finds = [Set(place, ptr[col][t])]
            if index is not None:
                finds.append(Set(number, ptr[index][t]))
            start = k.namer.fresh("begin")
            begin = (
                Let("nl_i64", start, ptr[row][own]),
                Let("nl_u32", after, form("(nl_u32){}", ptr[row][own + 1] - start)),
            )
            kind = "nl_i32" if index is not None else None
            return Elements(begin, start, after, tuple(finds), kind)
        case l2.Dense(n_pre, n_post, hole):
            width = k.scope[n_post].code
            extent = form("(nl_u32){}", width if by == "pre" else k.scope[n_pre].code)
            count = (Let("nl_u32", after, extent - 1 if hole else extent),)
            finds = [Set(place, t + (t >= own) if hole else t)]
            if body.numbered:
                i, j = (own, place) if by == "pre" else (form("(nl_i64){}", place), own)
                at = i * ((width - 1) if hole else width) + j
                finds.append(Set(number, at - (j > (place if by == "post" else i)) if hole else at))
            return Elements(count, None, after, tuple(finds), "nl_i64" if body.numbered else None)
        case l2.Toeplitz():
            return _toeplitz(k, relation, names, body, after)
        case l2.Procedural():
            return _any_order(k, relation, names, body, after)
    raise PrintError(f"there is no {type(relation).__name__} relation for this target", k.template.span)


def _toeplitz(k: Kernel, relation: l2.Toeplitz, names: Names, body: Body, after: Code) -> Elements:
    """Element t is an output channel and a kernel position that the stride permits; those outside of the plane are
    skipped."""
    s = {n: k.scope[n].code for n in ("in_c", "out_c", "out_h", "out_w")}
    (kh, kw), (sh, sw) = relation.kernel, relation.stride
    ny, nx = -(-kh // sh), -(-kw // sw)
    c, up, left, o, ky, kx, y, x = (k.namer.fresh(v) for v in ("c", "up", "left", "o", "ky", "kx", "y", "x"))
    alone = relation.depthwise or relation.shared
    count = code(ny * nx) if alone else s["out_c"] * (ny * nx)
    begin = (*centre(k, names.own, c, up, left, "nl_i32"), Let("nl_u32", after, form("(nl_u32){}", count)))
    t32 = form("(nl_u32){}", names.t)
    rows = form("{} / {} % {}", t32, f"{nx}u", f"{ny}u") if ny > 1 else code(0)
    columns = form("{} % {}", t32, f"{nx}u") if nx > 1 else code(0)

    def position(axis: Code, index: Code, stride: int) -> Code:
        return index if stride == 1 else form("{} % {} + {} * {}", axis, stride, stride, index)

    def reached(axis: Code, index: Code, stride: int) -> Code:
        return axis - index if stride == 1 else (axis - index) / stride

    tests = [up >= ky, left >= kx, y < s["out_h"], x < s["out_w"]]
    tests += [i < size for i, size, stride in ((ky, kh, sh), (kx, kw, sw)) if size % stride]
    kind: Code | None = form("{} * (nl_i32){} + {}", o, s["in_c"], c)
    channel, kind = (c, None if relation.shared else c) if alone else (o, kind)
    whole = every(tests) or code(1)
    target = form("({} * (nl_i32){} + {}) * (nl_i32){} + {}", channel, s["out_h"], y, s["out_w"], x)
    at_x, to_x = position(left, columns, sw), reached(left, kx, sw)
    finds: list[Stmt] = [
        *([] if alone else [Let("nl_i32", o, form("{} / {}", t32, f"{ny * nx}u"))]),
        Let("nl_i32", ky, position(up, rows, sh), beside=[Let("nl_i32", kx, at_x)]),
        Let("nl_i32", y, reached(up, ky, sh), beside=[Let("nl_i32", x, to_x)]),
        Set(names.other[names.u], cond(whole, target, -1)),
    ]
    if body.numbered:
        line = kind * kh + ky if kind else ky
        finds.append(Set(names.syn[names.u], line * kw + kx))
    return Elements(begin, None, after, tuple(finds), "nl_i32" if body.numbered else None, True)


def _any_order(k: Kernel, relation: l2.Procedural, names: Names, body: Body, after: Code) -> Elements:
    """Target t of a source, each drawn independently."""
    if body.numbered:
        raise PrintError("synapses that are drawn out of order have no number", k.template.span)
    s = {n: k.scope[n].code for n in ("same", "autapses", "n_post", "number")}
    new = {w: k.namer.fresh(w) for w in ("skip", "pool_a", "a", "word", "target")}
    begin = (
        Let("int", new["skip"], form("{} && !{}", s["same"], s["autapses"])),
        Let("nl_u64", new["pool_a"], form("(nl_u64)({} - {})", s["n_post"], new["skip"])),
        Let("nl_u32", after, form("(nl_u32){}", s["number"])),
    )
    drawn = _row_again(k, relation, {"i": names.own, "c": names.t, **new})
    return Elements(begin, None, after, (drawn, Set(names.other[names.u], form("(nl_i32){}", new["target"]))))


def _row_again(k: Kernel, p: l2.Procedural, names: Mapping[str, Code], inner: Sequence[Stmt] = ()) -> Frame:
    """The row of source `i` as its rule draws it, with `inner` at its synapses; of numbered connections: the target of
    number `c`."""
    return row_again(k, p, SKELETONS.statements(), names, {"@@": inner}, "cu")


def _drawn_again(k: Kernel, relation: l2.Procedural, names: Names, body: Body) -> list[Stmt]:
    """A warp for each event: its threads draw consecutive elements, and count them by a warp scan."""
    new = {"i": names.own, "target": names.other, "k": names.syn}
    inner = [
        Let("nl_i64", names.own, names.which),
        *body.before,
        _row_again(k, relation, new, body.inner),
    ]
    return [For(names.event, 0, names.number, inner, kind=Kind.WARPS)]


def _events(k: Kernel, names: Names) -> list[Stmt]:
    share = k.namer.fresh("share")
    own = call(k.function + EVENT, "self", "step", names.which, form("{}.thread", share), form("{}.threads", share))
    return [For(names.event, share, names.number, [Do(own)], type="nl_u32", kind=Kind.EVENTS)]


def _batches(k: Kernel, e: Elements, names: Names, body: Body, thread: Code, threads: Code) -> list[Stmt]:
    """WIDE elements at a time: load, then process."""
    first, n, u, t, place = k.namer.fresh("first"), k.namer.fresh("n"), names.u, names.t, names.other[names.u]

    def each(test: Code, inside: Sequence[Stmt]) -> Stmt:
        found = [Let("nl_u32", n, first + u * threads), Let("nl_i64", t, e.number(n)), If(test, inside)]
        return For(u, 0, WIDE, found, type="int", kind=Kind.UNROLLED)

    number = names.syn[u] if e.syn_type else t
    ahead: list[Stmt] = [Set(held[u], k.pointers[f][number]) for f, (held, _) in body.held.items()]
    if e.partial and ahead:
        ahead = [If(place >= 0, ahead)]
    here = n < e.after
    nothing = braces()  # else registers of the batch before are kept
    batch = [
        Let("nl_i32", names.other[WIDE], nothing, const=False),
        *([] if e.syn_type is None else [Let(e.syn_type, names.syn[WIDE], nothing, const=False)]),
        *(Let(k.dialect.type_name(x), held[WIDE], nothing, const=False) for held, x in body.held.values()),
        each(here, [*e.finds, *ahead]),
        each(form("{} && {} >= 0", here, place) if e.partial else here, body.inner),
    ]
    loop = For(first, thread, e.after, batch, WIDE * threads, "nl_u32", Kind.ONCE)
    return [*e.begin, *body.before, loop]


def _one_to_one(names: Names, body: Body) -> list[Stmt]:
    """A thread for each event."""
    inner = [Let("nl_i64", names.own, names.which), *body.before, *body.inner]
    return [For(names.event, 0, names.number, inner, kind=Kind.TURNS)]


def _one_by_one(e: Elements, n: Code, names: Names, body: Body) -> list[Stmt]:
    """A thread for each neuron, which visits its synapses in order."""
    inner = [
        Let("nl_i64", names.t, e.number(n)),
        Let("int", names.u, code(0)),
        Let("nl_i32", names.other[1]),
        *([] if e.syn_type is None else [Let(e.syn_type, names.syn[1])]),
        *e.finds,
        *body.inner,
    ]
    loop = For(n, 0, e.after, inner, type="nl_u32", kind=Kind.ONCE)
    return _one_to_one(names, Body({}, (), [*e.begin, *body.before, loop], body.numbered))


def _bitmask(k: Kernel, relation: l2.Bitmask, names: Names, body: Body, thread: Code, threads: Code) -> list[Stmt]:
    """A thread for each word of 32 targets."""
    count, w, bits = (k.namer.fresh(x) for x in ("words", "w", "bits"))
    mask = k.pointers[relation.words][names.own * count + w]
    found = Let("nl_i64", names.other, form("{} * 32 + {} - 1", w, call("__ffs", bits)))
    each = For(bits, mask, None, [found, *body.inner], bits - 1, "nl_u32", test=bits, op="&=")
    return [
        *body.before,
        Let("nl_i64", count, (k.scope[relation.n_post].code + 31) / 32),
        For(w, thread, count, [each], threads, kind=Kind.ONCE),
    ]

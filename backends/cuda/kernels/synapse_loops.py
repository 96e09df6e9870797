"""The loop over the synapses of one neuron, spread over threads, for every relation.

Assumes: formals as compiler/ir/level2/program.py names them; nl_my_share (templates/module.cu.j2).
Guarantees: adjacent threads take adjacent synapses; each loads WIDE of them before it processes them, so that their
latencies overlap (not for bitmasks, which are decoded bit by bit).
Does not: print the statements at a synapse (propagate.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Line, PrintError, Scalar, indent
from backends.cuda.kernels.events import row_again
from compiler.connect import drawing_of
from compiler.connect.drawing import Passing

WIDE: Final = 6
"""Synapses that a thread reads before it works on them."""


@dataclass(frozen=True)
class Names:
    """Identifiers of the loops. `own` is the neuron of the event, `other` the other end, `syn` the synapse; `t` counts
    the elements of a neuron, `u` those that a thread has read; `event` counts events, `number` is their number."""

    own: str
    other: str
    syn: str
    t: str
    u: str
    event: str
    number: str
    which: str


@dataclass(frozen=True)
class Body:
    """The body at a synapse: `held` is prefetched (formal name -> local array and its type), `before` runs once per
    event, `inner` at every synapse. `numbered`: the synapse's number is used."""

    held: Mapping[str, tuple[str, Scalar]]
    before: Sequence[Line]
    inner: Sequence[Line]
    numbered: bool


@dataclass(frozen=True)
class Elements:
    """The elements of one neuron: `after` of them (with the lines that find the number), the n-th of which is `first`n
    in all, and the lines that find the other end and the synapse of it. `partial`: `other` is negative where there is
    none."""

    begin: tuple[Line, ...]
    first: str
    after: str
    finds: tuple[Line, ...]
    syn_type: str | None = None
    partial: bool = False


def texts_at(relation: l2.Relation, names: Names) -> tuple[str, str]:
    """How the statements name the other end and the synapse."""
    match relation:
        case l2.OneToOne():
            return names.own, names.own
        case l2.Bitmask():
            return names.other, names.syn
        case l2.Procedural(rule) if _passes(rule):
            return names.other, names.syn
        case l2.Csr(_, _, None):
            return f"{names.other}[{names.u}]", names.t
    return f"{names.other}[{names.u}]", f"{names.syn}[{names.u}]"


def _passes(rule: str) -> bool:
    """Whether a warp draws rows of this rule, in ascending order."""
    return isinstance(drawing_of(rule), Passing)


def reads_ahead(relation: l2.Relation) -> bool:
    """Whether a thread loads several synapses before it processes them."""
    if isinstance(relation, l2.Procedural):
        return not _passes(relation.rule)
    return not isinstance(relation, l2.OneToOne | l2.Bitmask)


def loops(k: Kernel, relation: l2.Relation, by: str, names: Names, body: Body, gather: bool = False) -> list[Line]:
    """All loops: events, synapses, statements. `gather`: a thread for each neuron."""
    if gather and not isinstance(relation, l2.OneToOne):
        return _one_by_one(_elements(k, relation, by, names, body), k.namer.fresh("n"), names, body)
    match relation:
        case l2.OneToOne():
            return _one_to_one(names, body)
        case l2.Bitmask():
            return _bitmask(k, relation, names, body)
        case l2.Procedural(rule) if _passes(rule):
            return _drawn_again(k, relation, names, body)
    return _batches(k, _elements(k, relation, by, names, body), names, body)


def _elements(k: Kernel, relation: l2.Relation, by: str, names: Names, body: Body) -> Elements:
    place, number = f"{names.other}[{names.u}]", f"{names.syn}[{names.u}]"
    own, t, ptr = names.own, names.t, k.pointers
    after = k.namer.fresh("end")
    match relation:
        case l2.Csr(row, col, index):
            finds = [Line(f"{place} = {ptr[col]}[{t}];")]
            if index is not None:
                finds.append(Line(f"{number} = {ptr[index]}[{t}];"))
            start = k.namer.fresh("begin")
            begin = (
                Line(f"const nl_i64 {start} = {ptr[row]}[{own}];"),
                Line(f"const nl_u32 {after} = (nl_u32)({ptr[row]}[{own} + 1] - {start});"),
            )
            kind = "nl_i32" if index is not None else None
            return Elements(begin, f"{start} + ", after, tuple(finds), kind)
        case l2.Dense(n_pre, n_post, hole):
            width = k.scope[n_post].text
            extent = width if by == "pre" else k.scope[n_pre].text
            count = (Line(f"const nl_u32 {after} = (nl_u32){extent}{' - 1' if hole else ''};"),)
            finds = [Line(f"{place} = {t} + ({t} >= {own});" if hole else f"{place} = {t};")]
            if body.numbered:
                i, j = (own, place) if by == "pre" else (f"(nl_i64){place}", own)
                passed = f" - ({j} > {place if by == 'post' else i})" if hole else ""
                wide = f"({width} - 1)" if hole else width
                finds.append(Line(f"{number} = {i} * {wide} + {j}{passed};"))
            return Elements(count, "", after, tuple(finds), "nl_i64" if body.numbered else None)
        case l2.Toeplitz():
            return _toeplitz(k, relation, names, body, after)
        case l2.Procedural():
            return _any_order(k, relation, names, body, after)
    raise PrintError(f"there is no {type(relation).__name__} relation for this target", k.template.span)


def _toeplitz(k: Kernel, relation: l2.Toeplitz, names: Names, body: Body, after: str) -> Elements:
    """Element t is an output channel and a kernel position that the stride permits; those outside of the plane are
    skipped."""
    s = {name: k.scope[name].text for name in ("in_c", "in_h", "in_w", "out_c", "out_h", "out_w", "pad_h", "pad_w")}
    (kh, kw), (sh, sw) = relation.kernel, relation.stride
    ny, nx = -(-kh // sh), -(-kw // sw)
    c, at, up, left = (k.namer.fresh(x) for x in ("c", "at", "up", "left"))
    o, ky, kx, y, x = (k.namer.fresh(v) for v in ("o", "ky", "kx", "y", "x"))
    alone = relation.depthwise or relation.shared
    own, place = names.own, f"{names.other}[{names.u}]"
    count = f"{ny * nx}" if alone else f"{s['out_c']} * {ny * nx}"
    begin = [
        Line(f"const nl_i32 {c} = (nl_u32){own} / (nl_u32)({s['in_h']} * {s['in_w']});"),
        Line(f"const nl_i32 {at} = {own} - {c} * {s['in_h']} * {s['in_w']};"),
        Line(f"const nl_i32 {up} = (nl_u32){at} / (nl_u32){s['in_w']} + {s['pad_h']};"),
        Line(f"const nl_i32 {left} = (nl_u32){at} % (nl_u32){s['in_w']} + {s['pad_w']};"),
        Line(f"const nl_u32 {after} = (nl_u32)({count});"),
    ]
    t32 = f"(nl_u32){names.t}"
    rows = f"{t32} / {nx}u % {ny}u" if ny > 1 else "0"
    columns = f"{t32} % {nx}u" if nx > 1 else "0"

    def position(axis: str, index: str, stride: int) -> str:
        return index if stride == 1 else f"{axis} % {stride} + {stride} * ({index})"

    def reached(axis: str, index: str, stride: int) -> str:
        return f"{axis} - {index}" if stride == 1 else f"({axis} - {index}) / {stride}"

    tests = [f"{up} >= {ky}", f"{left} >= {kx}", f"{y} < {s['out_h']}", f"{x} < {s['out_w']}"]
    tests += [f"{i} < {size}" for i, size, stride in ((ky, kh, sh), (kx, kw, sw)) if size % stride]
    channel = c if alone else o
    finds = [
        *([] if alone else [Line(f"const nl_i32 {o} = {t32} / {ny * nx}u;")]),
        Line(f"const nl_i32 {ky} = {position(up, rows, sh)}, {kx} = {position(left, columns, sw)};"),
        Line(f"const nl_i32 {y} = {reached(up, ky, sh)}, {x} = {reached(left, kx, sw)};"),
        Line(f"{place} = {' & '.join(f'({test})' for test in tests)}"),
        Line(f"? ({channel} * (nl_i32){s['out_h']} + {y}) * (nl_i32){s['out_w']} + {x} : -1;", 1),
    ]
    if body.numbered:
        kind = "" if relation.shared else c if relation.depthwise else f"({o} * (nl_i32){s['in_c']} + {c})"
        line = f"({kind} * {kh} + {ky})" if kind else ky
        finds.append(Line(f"{names.syn}[{names.u}] = {line} * {kw} + {kx};"))
    return Elements(tuple(begin), "", after, tuple(finds), "nl_i32" if body.numbered else None, True)


def _any_order(k: Kernel, relation: l2.Procedural, names: Names, body: Body, after: str) -> Elements:
    """Target t of a source, each drawn independently."""
    if body.numbered:
        raise PrintError("synapses that are drawn out of order have no number", k.template.span)
    lines = row_again(k, relation)
    s = {name: k.scope[name].text for name in ("same", "autapses", "n_post", "number")}
    new = {"i": names.own, "c": names.t} | {w: k.namer.fresh(w) for w in ("skip", "pool_a", "a", "word", "target")}
    begin = (
        Line(f"const int {new['skip']} = {s['same']} && !{s['autapses']};"),
        Line(f"const nl_u64 {new['pool_a']} = (nl_u64)({s['n_post']} - {new['skip']});"),
        Line(f"const nl_u32 {after} = (nl_u32){s['number']};"),
    )
    finds = (*_renamed(lines, new), Line(f"{names.other}[{names.u}] = (nl_i32){new['target']};"))
    return Elements(begin, "", after, finds)


def _renamed(lines: Iterable[Line], names: Mapping[str, str]) -> list[Line]:
    return [Line(re.sub(r"\w+", lambda m: names.get(m[0], m[0]), x.text), x.depth) for x in lines]


_OWN_TEXT: Final = """
    rest_below blocks_below skip lane pool found first n word a b sum d before c hit hits target k i j holds
    probability x_i y_i c_i x_j y_j c_j"""
_OWN: Final = frozenset(_OWN_TEXT.split())
"""What the skeletons of rules call their own variables."""


def _drawn_again(k: Kernel, relation: l2.Procedural, names: Names, body: Body) -> list[Line]:
    """A warp for each event: its threads draw consecutive elements, and count them by a warp scan."""
    lines = row_again(k, relation)
    new = {"i": names.own, "target": names.other, "k": names.syn}
    found = {w for x in lines for w in re.findall(r"\w+", x.text)} & _OWN
    renamed = _renamed(lines, new | {w: k.namer.fresh(w) for w in sorted(found - new.keys())})
    (place,) = [n for n, x in enumerate(renamed) if x.text == "@@"]
    e, of_block = names.event, "(nl_i64)(blockDim.x / 32)"
    return [
        Line("#pragma unroll 1"),
        Line(f"for (nl_i64 {e} = nl_me.part * {of_block} + threadIdx.x / 32; {e} < {names.number};"),
        Line(f"{e} += nl_me.parts * {of_block}) {{", 2),
        Line(f"const nl_i64 {names.own} = {names.which};", 1),
        *indent(body.before),
        *indent(renamed[:place]),
        *indent(body.inner, 1 + renamed[place].depth),
        *indent(renamed[place + 1 :]),
        Line("}"),
    ]


def _events(names: Names, share: str, inside: Sequence[Line]) -> list[Line]:
    return [
        Line(f"const nl_share {share} = nl_my_share(nl_me, {names.number});"),
        Line("#pragma unroll 1"),
        Line(
            f"for (nl_u32 {names.event} = {share}.first; {names.event} < {names.number}; "
            f"{names.event} += {share}.groups) {{"
        ),
        Line(f"const nl_i64 {names.own} = {names.which};", 1),
        *indent(inside),
        Line("}"),
    ]


def _batches(k: Kernel, e: Elements, names: Names, body: Body) -> list[Line]:
    """WIDE elements at a time: load, then process."""
    share, first, n, u, t = k.namer.fresh("share"), k.namer.fresh("first"), k.namer.fresh("n"), names.u, names.t
    live = f" && {names.other}[{u}] >= 0" if e.partial else ""
    each = [
        Line("#pragma unroll"),
        Line(f"for (int {u} = 0; {u} < {WIDE}; {u}++) {{"),
        Line(f"const nl_u32 {n} = {first} + {u} * {share}.threads;", 1),
        Line(f"const nl_i64 {t} = {e.first}{n};", 1),
    ]
    number = f"{names.syn}[{u}]" if e.syn_type else t
    ahead = [Line(f"{name}[{u}] = {k.pointers[n]}[{number}];", 2) for n, (name, _) in body.held.items()]
    if e.partial and ahead:
        ahead = [Line(f"if ({names.other}[{u}] >= 0) {{", 2), *indent(ahead), Line("}", 2)]
    batch = [
        Line(f"nl_i32 {names.other}[{WIDE}];"),
        *([] if e.syn_type is None else [Line(f"{e.syn_type} {names.syn}[{WIDE}];")]),
        *(Line(f"{k.dialect.type_name(x)} {name}[{WIDE}];") for name, x in body.held.values()),
        *each,
        Line(f"if ({n} < {e.after}) {{", 1),
        *indent(e.finds, 2),
        *ahead,
        Line("}", 1),
        Line("}"),
        *each,
        Line(f"if ({n} < {e.after}{live}) {{", 1),
        *indent(body.inner, 2),
        Line("}", 1),
        Line("}"),
    ]
    inside = [
        *e.begin,
        *body.before,
        Line("#pragma unroll 1"),
        Line(f"for (nl_u32 {first} = {share}.thread; {first} < {e.after};"),
        Line(f"{first} += {WIDE} * {share}.threads) {{", 2),
        *indent(batch),
        Line("}"),
    ]
    return _events(names, share, inside)


def _one_to_one(names: Names, body: Body) -> list[Line]:
    """A thread for each event."""
    e = names.event
    start = "nl_me.part * blockDim.x + threadIdx.x"
    return [
        Line("#pragma unroll 1"),
        Line(f"for (nl_i64 {e} = {start}; {e} < {names.number}; {e} += nl_me.parts * blockDim.x) {{"),
        Line(f"const nl_i64 {names.own} = {names.which};", 1),
        *indent(body.before),
        *indent(body.inner),
        Line("}"),
    ]


def _one_by_one(e: Elements, n: str, names: Names, body: Body) -> list[Line]:
    """A thread for each neuron, which visits its synapses in order."""
    inside = [
        *e.begin,
        *body.before,
        Line("#pragma unroll 1"),
        Line(f"for (nl_u32 {n} = 0; {n} < {e.after}; {n}++) {{"),
        Line(f"const nl_i64 {names.t} = {e.first}{n};", 1),
        Line(f"const int {names.u} = 0;", 1),
        Line(f"nl_i32 {names.other}[1];", 1),
        *([] if e.syn_type is None else [Line(f"{e.syn_type} {names.syn}[1];", 1)]),
        *indent(e.finds),
        *indent(body.inner),
        Line("}"),
    ]
    return _one_to_one(names, Body({}, (), inside, body.numbered))


def _bitmask(k: Kernel, relation: l2.Bitmask, names: Names, body: Body) -> list[Line]:
    """A thread for each word of 32 targets."""
    share, count, w, bits = (k.namer.fresh(x) for x in ("share", "words", "w", "bits"))
    mask = f"{k.pointers[relation.words]}[{names.own} * {count} + {w}]"
    inside = [
        *body.before,
        Line(f"const nl_i64 {count} = ({k.scope[relation.n_post].text} + 31) / 32;"),
        Line("#pragma unroll 1"),
        Line(f"for (nl_i64 {w} = {share}.thread; {w} < {count}; {w} += {share}.threads) {{"),
        Line(f"for (nl_u32 {bits} = {mask}; {bits}; {bits} &= {bits} - 1) {{", 1),
        Line(f"const nl_i64 {names.other} = {w} * 32 + __ffs({bits}) - 1;", 2),
        *indent(body.inner, 2),
        Line("}", 1),
        Line("}"),
    ]
    return _events(names, share, inside)

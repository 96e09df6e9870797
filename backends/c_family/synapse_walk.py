"""The loop over the synapses of one neuron, for every relation, in one thread.

Assumes: formals as compiler/ir/level2/program.py names them; populations have fewer than 2^31 neurons.
Guarantees: synapses run in the order of the relation's numbers (a Toeplitz relation's targets are all distinct, so that
the order inside one event changes no sum). Inner loops of dense and Toeplitz relations have no gathers.
Does not: print the statements at a synapse (the backends do).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Line, PrintError, indent
from backends.c_family.rule_rows import Render, row_again
from compiler.connect import RULE


@dataclass(frozen=True)
class Ends:
    """C names of the integers that identify a synapse; `event` is that of the end to which the events belong. Of a
    redrawn row, `many` synapses are drawn at once, and `nth` counts them."""

    event: str
    other: str
    syn: str
    many: str = ""
    nth: str = ""


@dataclass(frozen=True)
class Walk:
    """The synapses of one event as C: `before` the loops (depth of the event loop), the loops' `head` (each line with
    its depth), the lines `inside` them (at `depth`) that set the other end and the synapse, and the `tail` that closes
    them."""

    before: tuple[Line, ...]
    head: tuple[Line, ...]
    inside: tuple[Line, ...]
    depth: int
    tail: tuple[Line, ...]


def braces(before: Sequence[Line], head: Sequence[Line], inside: Sequence[Line], depth: int = 1) -> Walk:
    """A walk of `depth` nested loops."""
    return Walk(tuple(before), tuple(head), tuple(inside), depth, tuple(Line("}", d) for d in range(depth - 1, -1, -1)))


def walk(
    k: Kernel,
    relation: l2.Relation,
    ends: Ends,
    by: str,
    bounds: tuple[str, str] | None,
    words: AbstractSet[str],
    render: Render,
    fills: Sequence[Line] = (),
) -> Walk:
    """The loop over the synapses of event `ends.event`. `bounds`: their range in a stored relation, if known already.
    `words`: identifiers in the statements' text; others are not set. `fills`: work per chunk of `many` synapses of a
    redrawn row."""
    match relation:
        case l2.Csr():
            return _csr(k, relation, ends, bounds)
        case l2.Dense():
            return _dense(k, relation, ends, by, words)
        case l2.OneToOne():
            names = [x for x in (ends.other, ends.syn) if x in words]
            return braces((), (), [Line(f"const nl_i64 {x} = {ends.event};") for x in names], 0)
        case l2.Bitmask():
            return _bitmask(k, relation, ends, words)
        case l2.Procedural():
            return _procedural(k, relation, ends, words, render, fills)
        case l2.Toeplitz():
            return _toeplitz(k, relation, ends, words)


def _csr(k: Kernel, relation: l2.Csr, ends: Ends, bounds: tuple[str, str] | None) -> Walk:
    ptr, row, col, index = k.pointers, relation.row, relation.col, relation.index
    t = ends.syn if index is None else k.namer.fresh("t")
    inside = [Line(f"const nl_i64 {ends.other} = {ptr[col]}[{t}];")]
    if index is not None:
        inside.append(Line(f"const nl_i64 {ends.syn} = {ptr[index]}[{t}];"))
    before: list[Line] = []
    if bounds is None:
        end = k.namer.fresh("end")
        bounds = f"{ptr[row]}[{ends.event}]", end
        before = [Line(f"const nl_i64 {end} = {ptr[row]}[{ends.event} + 1];")]
    head = Line(f"for (nl_i64 {t} = {bounds[0]}; {t} < {bounds[1]}; {t}++) {{")
    return braces(before, (head,), inside)


def _dense(k: Kernel, relation: l2.Dense, ends: Ends, by: str, words: AbstractSet[str]) -> Walk:
    """Without a hole one loop, with one a loop on each side of it: synapse numbers step evenly in each."""
    n_pre, n_post = k.scope[relation.n_pre].text, k.scope[relation.n_post].text
    event, other, syn = ends.event, ends.other, ends.syn
    width = n_post if not relation.hole else f"({n_post} - 1)"
    number = f"{event} * {width} + {other}" if by == "pre" else f"{other} * {width} + {event}"
    extent = n_post if by == "pre" else n_pre
    if not relation.hole:
        inside = (Line(f"const nl_i64 {syn} = {number};"),) if syn in words else ()
        return braces((), (Line(f"for (nl_i64 {other} = 0; {other} < {extent}; {other}++) {{"),), inside)
    side = k.namer.fresh("side")
    first, last = f"{side} ? {event} + 1 : 0", f"{side} ? {extent} : {event}"
    # (i, j) has number i (n - 1) + j - (j > i): beyond the hole by source, before it by target
    passed = side if by == "pre" else f"!{side}"
    start, end = k.namer.fresh("begin"), k.namer.fresh("end")
    head = (
        Line(f"for (int {side} = 0; {side} < 2; {side}++) {{ /* all but itself */"),
        Line(f"const nl_i64 {start} = {first}, {end} = {last};", 1),
        Line(f"for (nl_i64 {other} = {start}; {other} < {end}; {other}++) {{", 1),
    )
    return braces((), head, (Line(f"const nl_i64 {syn} = {number} - {passed};"),) if syn in words else (), 2)


def _bitmask(k: Kernel, relation: l2.Bitmask, ends: Ends, words: AbstractSet[str]) -> Walk:
    if ends.syn in words:
        raise PrintError("synapses of a bitmask have no number", k.template.span)
    n_post, ptr = k.scope[relation.n_post].text, k.pointers[relation.words]
    count, mask, w, bits = (k.namer.fresh(x) for x in ("words", "mask", "w", "bits"))
    before = (
        Line(f"const nl_i64 {count} = ({n_post} + 31) / 32;"),
        Line(f"{k.dialect.space}const nl_u32 *const {mask} = {ptr} + {ends.event} * {count};"),
    )
    head = (
        Line(f"for (nl_i64 {w} = 0; {w} < {count}; {w}++) {{"),
        Line(f"for (nl_u32 {bits} = {mask}[{w}]; {bits}; {bits} &= {bits} - 1) {{", 1),
    )
    inside = (Line(f"const nl_i64 {ends.other} = {w} * 32 + __builtin_ctz({bits});"),)
    return braces(before, head, inside, 2)


_OWN_TEXT: Final = """
    rest_below blocks_below skip pool k turn first second word i j n a b c target targets x_i y_i c_i x_j y_j c_j places
    many hit holds xs ys cs x y z t probability rounds each pool_a drawn_a"""
_OWN: Final = frozenset(_OWN_TEXT.split())
"""What the skeletons of rules call their own variables."""


def _procedural(
    k: Kernel, relation: l2.Procedural, ends: Ends, words: AbstractSet[str], render: Render, fills: Sequence[Line]
) -> Walk:
    """The skeleton of the rule for one row; the line `@@` stands for the statements at a synapse, `##` for `fills`."""
    if not RULE[relation.rule].ordered and ends.syn in words:
        raise PrintError("synapses that are drawn out of order have no number", k.template.span)
    lines = row_again(k, relation, render)
    names = {"i": ends.event, "target": ends.other, "k": ends.syn, "many": ends.many, "t": ends.nth}
    found = {w for x in lines for w in re.findall(r"\w+", x.text)} & _OWN
    names |= {w: k.namer.fresh(w) for w in sorted(found - names.keys())}
    renamed = [Line(re.sub(r"\w+", lambda m: names.get(m[0], m[0]), x.text), x.depth) for x in lines]
    for n, line in enumerate(renamed):
        if line.text == "##":
            renamed[n : n + 1] = indent(fills, line.depth)
    (place,) = [n for n, x in enumerate(renamed) if x.text == "@@"]
    return Walk((), tuple(renamed[:place]), (), renamed[place].depth, tuple(renamed[place + 1 :]))


# ------------------------------------------------------------------------------------------- Toeplitz


@dataclass(frozen=True)
class Place:
    """C names of the position of a source of a convolution: its channel, and for each axis the position that kernel
    element 0 reaches times the stride (`up`, `left`), and the kernel positions `ky0 <= ky < ky1` that are inside."""

    c: str
    up: str
    left: str
    ky0: str
    ky1: str
    kx0: str
    kx1: str


def place(k: Kernel, relation: l2.Toeplitz, event: str) -> tuple[Place, list[Line]]:
    """The position of source `event`, and the lines that compute it."""
    names = ("c", "up", "left", "first_y", "end_y", "first_x", "end_x")
    p = Place(*(k.namer.fresh(x) for x in names))
    at = k.namer.fresh("at")
    s = {name: k.scope[name].text for name in ("in_h", "in_w", "out_h", "out_w", "pad_h", "pad_w")}
    lines = [
        Line(f"const nl_i64 {p.c} = (nl_u32){event} / (nl_u32)({s['in_h']} * {s['in_w']});"),
        Line(f"const nl_i64 {at} = {event} - {p.c} * {s['in_h']} * {s['in_w']};"),
        Line(f"const nl_i64 {p.up} = (nl_u32){at} / (nl_u32){s['in_w']} + {s['pad_h']};"),
        Line(f"const nl_i64 {p.left} = (nl_u32){at} % (nl_u32){s['in_w']} + {s['pad_w']};"),
    ]
    for position, begin, end, extent, size, stride in (
        (p.up, p.ky0, p.ky1, s["out_h"], relation.kernel[0], relation.stride[0]),
        (p.left, p.kx0, p.kx1, s["out_w"], relation.kernel[1], relation.stride[1]),
    ):
        last = f"({extent} - 1)" if stride == 1 else f"({extent} - 1) * {stride}"
        least = "0" if stride == 1 else f"{position} % {stride}"
        lines += [
            Line(f"const nl_i64 {begin} = {position} > {last} ? {position} - {last} : {least};"),
            Line(f"const nl_i64 {end} = {position} < {size - 1} ? {position} + 1 : {size};"),
        ]
    return p, lines


def over(index: str, begin: str, end: str, stride: int) -> str:
    """The head of a loop over kernel positions."""
    step = f"{index}++" if stride == 1 else f"{index} += {stride}"
    return f"for (nl_i64 {index} = {begin}; {index} < {end}; {step}) {{"


def reached(position: str, index: str, stride: int) -> str:
    """The target's coordinate."""
    return f"({position} - {index})" if stride == 1 else f"({position} - {index}) / {stride}"


def _toeplitz(k: Kernel, relation: l2.Toeplitz, ends: Ends, words: AbstractSet[str]) -> Walk:
    (kh, kw), (sh, sw) = relation.kernel, relation.stride
    p, before = place(k, relation, ends.event)
    o, ky, kx = (k.namer.fresh(x) for x in ("o", "ky", "kx"))
    s = {name: k.scope[name].text for name in ("in_c", "out_c", "out_h", "out_w")}
    head = [Line(f"for (nl_i64 {o} = 0; {o} < {s['out_c']}; {o}++) {{")]
    channel, kind = o, f"({o} * {s['in_c']} + {p.c})"
    if relation.depthwise or relation.shared:
        head, channel, kind = [], p.c, "" if relation.shared else p.c
    depth = len(head)
    head += [Line(over(ky, p.ky0, p.ky1, sh), depth), Line(over(kx, p.kx0, p.kx1, sw), depth + 1)]
    row = f"({channel} * {s['out_h']} + {reached(p.up, ky, sh)})"
    inside = [Line(f"const nl_i64 {ends.other} = {row} * {s['out_w']} + {reached(p.left, kx, sw)};")]
    if ends.syn in words:
        line = f"({kind} * {kh} + {ky})" if kind else ky
        inside.append(Line(f"const nl_i64 {ends.syn} = {line} * {kw} + {kx};"))
    return braces(before, head, inside, depth + 2)

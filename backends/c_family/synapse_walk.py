"""The loop over the synapses of one neuron, for every relation, in one thread.

Assumes: formals as compiler/ir/level2/program.py names them; populations have fewer than 2^31 neurons.
Guarantees: synapses run in the order of the relation's numbers (a Toeplitz relation's targets are all distinct, so that
the order inside one event changes no sum). Inner loops of dense and Toeplitz relations have no gathers.
Does not: print the statements at a synapse (the backends do).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import PrintError
from backends.c_family.rule_rows import row_again
from backends.kernel_ir.expr import call, code, cond, form
from backends.kernel_ir.stmt import For, Let, Stmt, names_of
from backends.kernel_ir.tree import Code
from compiler.connect import RULE


@dataclass(frozen=True)
class Ends:
    """The integers that identify a synapse; `event` is that of the end to which the events belong. Of a redrawn row,
    `many` synapses are drawn at once, and `nth` counts them."""

    event: Code
    other: Code
    syn: Code
    many: Code | None = None
    nth: Code | None = None


@dataclass(frozen=True)
class Visit:
    """What happens at the synapses of an event: `before` all, and `inside` at each; `fills`: for each chunk of `many`
    synapses of a redrawn row."""

    before: Sequence[Stmt]
    inside: Sequence[Stmt]
    fills: Sequence[Stmt] = ()

    def uses(self, x: Code) -> bool:
        """Whether a statement names a variable; others are not declared."""
        return x.text in names_of((*self.before, *self.inside))


def walk(
    k: Kernel,
    relation: l2.Relation,
    ends: Ends,
    by: str,
    bounds: tuple[Code, Code] | None,
    visit: Visit,
    skeletons: Environment,
) -> list[Stmt]:
    """The loop over the synapses of event `ends.event`. `bounds`: their range in a stored relation, if known."""
    match relation:
        case l2.Csr():
            return _csr(k, relation, ends, bounds, visit)
        case l2.Dense():
            return _dense(k, relation, ends, by, visit)
        case l2.OneToOne():
            return [*visit.before, *(Let("nl_i64", x, ends.event) for x in (ends.other, ends.syn)), *visit.inside]
        case l2.Bitmask():
            return _bitmask(k, relation, ends, visit)
        case l2.Procedural():
            return _procedural(k, relation, ends, visit, skeletons)
        case l2.Toeplitz():
            return _toeplitz(k, relation, ends, visit)


def _csr(k: Kernel, relation: l2.Csr, ends: Ends, bounds: tuple[Code, Code] | None, visit: Visit) -> list[Stmt]:
    row, col, index = k.pointers[relation.row], k.pointers[relation.col], relation.index
    t = ends.syn if index is None else k.namer.fresh("t")
    found: list[Stmt] = [Let("nl_i64", ends.other, col[t])]
    if index is not None:
        found.append(Let("nl_i64", ends.syn, k.pointers[index][t]))
    before: list[Stmt] = []
    if bounds is None:
        end = k.namer.fresh("end")
        bounds = row[ends.event], end
        before = [Let("nl_i64", end, row[ends.event + 1])]
    return [*before, *visit.before, For(t, *bounds, [*found, *visit.inside])]


def _dense(k: Kernel, relation: l2.Dense, ends: Ends, by: str, visit: Visit) -> list[Stmt]:
    """Without a hole one loop, with one a loop on each side of it: synapse numbers step evenly in each."""
    n_pre, n_post = k.scope[relation.n_pre].code, k.scope[relation.n_post].code
    event, other = ends.event, ends.other
    width = n_post - 1 if relation.hole else n_post
    number = event * width + other if by == "pre" else other * width + event
    extent = n_post if by == "pre" else n_pre
    if not relation.hole:
        return [*visit.before, For(other, 0, extent, [Let("nl_i64", ends.syn, number), *visit.inside])]
    side, start, end = (k.namer.fresh(x) for x in ("side", "begin", "end"))
    # (i, j) has number i (n - 1) + j - (j > i): beyond the hole by source, before it by target
    passed = side if by == "pre" else form("!{}", side)
    first, last = cond(side, event + 1, 0), cond(side, extent, event)
    inside: list[Stmt] = [
        Let("nl_i64", start, first, beside=[Let("nl_i64", end, last)]),
        For(other, start, end, [Let("nl_i64", ends.syn, number - passed), *visit.inside]),
    ]
    return [*visit.before, For(side, 0, 2, inside, type="int", note="all but itself")]


def _bitmask(k: Kernel, relation: l2.Bitmask, ends: Ends, visit: Visit) -> list[Stmt]:
    if visit.uses(ends.syn):
        raise PrintError("synapses of a bitmask have no number", k.template.span)
    count, mask, w, bits = (k.namer.fresh(x) for x in ("words", "mask", "w", "bits"))
    found = Let("nl_i64", ends.other, w * 32 + call("__builtin_ctz", bits))
    return [
        Let("nl_i64", count, (k.scope[relation.n_post].code + 31) / 32),
        Let(f"{k.dialect.space}const nl_u32 *const", mask, k.pointers[relation.words] + ends.event * count, False),
        *visit.before,
        For(w, 0, count, [
            For(bits, mask[w], None, [found, *visit.inside], bits - 1, "nl_u32", test=bits, op="&="),
        ]),
    ]  # fmt: skip


def _procedural(k: Kernel, relation: l2.Procedural, ends: Ends, visit: Visit, skeletons: Environment) -> list[Stmt]:
    """The skeleton of the rule for one row."""
    if not RULE[relation.rule].ordered and visit.uses(ends.syn):
        raise PrintError("synapses that are drawn out of order have no number", k.template.span)
    names = {"i": ends.event, "target": ends.other, "k": ends.syn, "many": ends.many, "t": ends.nth}
    given = {n: x for n, x in names.items() if x is not None}
    return [*visit.before, row_again(k, relation, skeletons, given, {"@@": visit.inside, "##": visit.fills})]


# ------------------------------------------------------------------------------------------- Toeplitz


@dataclass(frozen=True)
class Place:
    """The position of a source of a convolution: its channel, and for each axis the position that kernel element 0
    reaches times the stride (`up`, `left`), and the kernel positions `ky0 <= ky < ky1` that are inside."""

    c: Code
    up: Code
    left: Code
    ky0: Code
    ky1: Code
    kx0: Code
    kx1: Code


def centre(k: Kernel, event: Code, c: Code, up: Code, left: Code, kind: str) -> tuple[Stmt, ...]:
    """The channel of source `event` and its position with the padding."""
    at = k.namer.fresh("at")
    s = {name: k.scope[name].code for name in ("in_h", "in_w", "pad_h", "pad_w")}
    return (
        Let(kind, c, form("(nl_u32){} / (nl_u32)({} * {})", event, s["in_h"], s["in_w"])),
        Let(kind, at, event - c * s["in_h"] * s["in_w"]),
        Let(kind, up, form("(nl_u32){} / (nl_u32){} + {}", at, s["in_w"], s["pad_h"])),
        Let(kind, left, form("(nl_u32){} % (nl_u32){} + {}", at, s["in_w"], s["pad_w"])),
    )


def place(k: Kernel, relation: l2.Toeplitz, event: Code) -> tuple[Place, list[Stmt]]:
    """The position of source `event`, and the statements that compute it."""
    p = Place(*(k.namer.fresh(x) for x in ("c", "up", "left", "first_y", "end_y", "first_x", "end_x")))
    lines = list(centre(k, event, p.c, p.up, p.left, "nl_i64"))
    s = {name: k.scope[name].code for name in ("out_h", "out_w")}
    for position, begin, end, extent, size, stride in (
        (p.up, p.ky0, p.ky1, s["out_h"], relation.kernel[0], relation.stride[0]),
        (p.left, p.kx0, p.kx1, s["out_w"], relation.kernel[1], relation.stride[1]),
    ):
        last = extent - 1 if stride == 1 else (extent - 1) * stride
        least = code(0) if stride == 1 else position % stride
        lines += [
            Let("nl_i64", begin, cond(position > last, position - last, least)),
            Let("nl_i64", end, cond(position < size - 1, position + 1, size)),
        ]
    return p, lines


def reached(position: Code, index: Code, stride: int) -> Code:
    """The target's coordinate."""
    return position - index if stride == 1 else (position - index) / stride


def _toeplitz(k: Kernel, relation: l2.Toeplitz, ends: Ends, visit: Visit) -> list[Stmt]:
    (kh, kw), (sh, sw) = relation.kernel, relation.stride
    p, before = place(k, relation, ends.event)
    o, ky, kx = (k.namer.fresh(x) for x in ("o", "ky", "kx"))
    s = {name: k.scope[name].code for name in ("in_c", "out_c", "out_h", "out_w")}
    alone = relation.depthwise or relation.shared
    channel, kind = (p.c, None if relation.shared else p.c) if alone else (o, o * s["in_c"] + p.c)
    row = channel * s["out_h"] + reached(p.up, ky, sh)
    line = kind * kh + ky if kind else ky
    found = [
        Let("nl_i64", ends.other, row * s["out_w"] + reached(p.left, kx, sw)),
        Let("nl_i64", ends.syn, line * kw + kx),
    ]
    loop: Stmt = For(ky, p.ky0, p.ky1, [For(kx, p.kx0, p.kx1, [*found, *visit.inside], sw)], sh)
    return [*before, *visit.before, loop if alone else For(o, 0, s["out_c"], [loop])]

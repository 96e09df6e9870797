"""Delivery of events through a relation, interpreted event by event.

Assumes: a legal Propagate.
Guarantees: the effect of visiting events in list order, the synapses of each in row order, and running the statements
at every synapse. The synapses of one event are vectorised where that is equivalent, and run one by one where a synapse
may read what an earlier one wrote.
Does not: choose an order: sums have the declared one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import compiler.ir.level2.program as l2
from backends.reference.connect import Pairs, drawn_again
from backends.reference.evaluate import Evaluator, Value, cast, loaded
from backends.reference.row import InterpretError, Row
from compiler.expr.ast import refs
from compiler.expr.functions import CONSTANTS


class Synapses:
    """Some synapses of one event: sources `pre`, targets `post` and positions `syn`, one each per synapse."""

    def __init__(self, row: Row, pre: Any, post: Any, syn: Any, step: int) -> None:
        self.row = row
        self.at = {"pre": pre, "post": post, "syn": syn}
        self.locals: dict[str, Value] = {"step": step, "pre": pre, "post": post, "syn": syn}
        self.evaluate = Evaluator(self.read, row.real, step)

    def place(self, formal: l2.ArrayFormal) -> Any:
        if formal.access == l2.SCALAR:
            return self.row.checked(formal.name, np.zeros_like(self.at["syn"]))
        if not isinstance(formal.access, l2.At):
            raise InterpretError(f"{self.row.label}: `{formal.name}` has no element at a synapse")
        place = self.at[formal.access.end]
        if formal.access.ring is not None:
            delay, slots, size = formal.access.ring
            late = self.row.arrays[delay][self.at["syn"]].astype(np.int64) if delay in self.row.arrays else None
            steps = self.row.size(delay) if late is None else late
            slot = self.locals["step"] + (-steps if formal.access.past else steps)
            place = slot % self.row.size(slots) * self.row.size(size) + place
        return self.row.checked(formal.name, place)

    def read(self, name: str) -> Value:
        if name in self.locals:
            return self.locals[name]
        formal = self.row.array_formals.get(name)
        if formal is not None and isinstance(formal.access, l2.ByName):
            return self.row.arrays[name]
        if formal is not None:
            return loaded(self.row.arrays[name][self.place(formal)])
        return self.row.scalars[name] if name in self.row.scalars else CONSTANTS[name]

    def run(self, body: l2.Propagate) -> None:
        for s in body.statements:
            if not isinstance(s, l2.Assign | l2.Add):
                raise InterpretError(f"{self.row.label}: a propagation cannot emit")
            value = self.evaluate.typed(s.value)
            formal = self.row.array_formals.get(s.target)
            if formal is None:
                self.locals[s.target] = value
                continue
            buffer, place = self.row.arrays[s.target], self.place(formal)
            stored = cast(value, buffer.dtype)
            if isinstance(s, l2.Add):
                np.add.at(buffer, place, stored)
            else:
                buffer[place] = stored


def _conflicts(row: Row, body: l2.Propagate) -> tuple[bool, bool]:
    """Whether synapses of one event interfere (always, where two of them share their other end)."""
    read: set[str] = set()
    for s in body.statements:
        if isinstance(s, l2.Assign | l2.Add):
            read |= {row.names[n] for n in refs(s.value) & row.names.keys()}
    always = shared = False
    for s in body.statements:
        if not isinstance(s, l2.Assign | l2.Add) or s.target not in row.names:
            continue
        access = row.array_formals[s.target].access
        end = access.end if isinstance(access, l2.At) else ""
        others = sum(bound == row.names[s.target] for bound in row.names.values()) > 1
        if isinstance(s, l2.Assign) or row.names[s.target] in read:
            always = always or end == body.by or others
            shared = shared or end in ("pre", "post")
        elif others:
            always = True
    return always, shared


def _elements(row: Row, relation: l2.Relation, event: int, by: str, drawn: Pairs | None) -> tuple[Any, Any]:
    """(other ends, synapses) of one neuron's elements, in order. `drawn`: the pairs of a Procedural relation."""
    match relation:
        case l2.Csr(pointers, col, index):
            places = np.arange(row.arrays[pointers][event], row.arrays[pointers][event + 1], dtype=np.int64)
            syn = places if index is None else row.arrays[index][places].astype(np.int64)
            return row.arrays[col][places].astype(np.int64), syn
        case l2.Dense(n_pre, n_post, hole):
            other = np.arange(row.size(n_post if by == "pre" else n_pre), dtype=np.int64)
            other = other[other != event] if hole else other
            i, j = (event, other) if by == "pre" else (other, event)
            return other, i * (row.size(n_post) - hole) + j - (hole & (j > i))
        case l2.OneToOne():
            return np.array([event]), np.array([event])
        case l2.Bitmask(words, n_post):
            width = -(-row.size(n_post) // 32)
            bits = row.arrays[words][event * width : (event + 1) * width].astype("<u4").view(np.uint8)
            other = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            return other, np.full(len(other), -1)
        case l2.Procedural(_, pointers):
            assert drawn is not None
            first, last = np.searchsorted(drawn[0], [event, event + 1])
            return drawn[1][first:last], row.arrays[pointers][event] + np.arange(last - first)
        case l2.Toeplitz():
            return _convolved(row, relation, event)
    raise InterpretError(f"{row.label}: no {type(relation).__name__} relation")


def _convolved(row: Row, relation: l2.Toeplitz, event: int) -> tuple[Any, Any]:
    """(targets, kernel elements) of one source of a convolution, by output channel and kernel position."""
    in_c, in_h, in_w, out_c, out_h, out_w, pad_h, pad_w = (row.size(name) for name in l2.PLANES)
    c, y, x = event // (in_h * in_w), event // in_w % in_h, event % in_w
    (kh, kw), (sh, sw) = relation.kernel, relation.stride
    alone = relation.depthwise or relation.shared
    o, ky, kx = (a.reshape(-1) for a in np.indices((1 if alone else out_c, kh, kw)))
    up, left = y + pad_h - ky, x + pad_w - kx
    inside = (up % sh == 0) & (left % sw == 0) & (up >= 0) & (left >= 0)
    inside &= (up // sh < out_h) & (left // sw < out_w)
    kind = ky * kw + kx
    if not relation.shared:
        kind = kind + (c if alone else o * in_c + c) * kh * kw
    target = ((c if alone else o) * out_h + up // sh) * out_w + left // sw
    return target[inside], kind[inside]


def _events(row: Row, events: l2.Events | l2.Every, step: int) -> list[int]:
    match events:
        case l2.Events(ids, count, slots, delay, stride):
            slot = (step - row.size(delay)) % row.size(slots)
            first = slot * row.size(stride)
            found: list[int] = row.arrays[ids][first : first + int(row.arrays[count][slot])].tolist()
            return found
        case l2.Every(n):
            return list(range(row.size(n)))


def run_propagate(row: Row, body: l2.Propagate, step: int) -> None:
    """Deliver the events of step (step - delay)."""
    events = _events(row, body.events, step)
    if not events:
        return
    if not row.kept:
        relation = body.relation
        again = drawn_again(row, relation.rule, relation.probability) if isinstance(relation, l2.Procedural) else None
        row.kept.update(conflicts=_conflicts(row, body), drawn=again)
    (always, shared), drawn = row.kept["conflicts"], row.kept["drawn"]
    for event in events:
        other, syn = _elements(row, body.relation, event, body.by, drawn)
        own = np.full(len(syn), event, np.int64)
        pre, post = (own, other) if body.by == "pre" else (other, own)
        if always or (shared and len(np.unique(other)) < len(other)):
            for k in range(len(syn)):
                Synapses(row, pre[k : k + 1], post[k : k + 1], syn[k : k + 1], step).run(body)
        elif len(syn):
            Synapses(row, pre, post, syn, step).run(body)

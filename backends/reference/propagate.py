"""Delivery of events through a CSR relation, interpreted event by event.

Assumes: a legal Propagate.
Guarantees: the effect of visiting events in list order, the synapses of each in row order, and
running the statements at every synapse. The synapses of one event are worked off together where
that is the same thing, one by one where a synapse may read what the one before it wrote.
Does not: choose an order of its own: sums have the declared one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from backends.reference.evaluate import Evaluator, Value, cast, loaded
from backends.reference.row import InterpretError, Row
from compiler.expr.ast import refs
from compiler.expr.functions import CONSTANTS
from compiler.ir.program import Add, ArrayFormal, Assign, At, Csr, Events, Every, Propagate, Relation


class Synapses:
    """Some synapses of one event: sources `pre`, targets `post` and positions `syn`, one each per synapse."""

    def __init__(self, row: Row, pre: Any, post: Any, syn: Any, step: int) -> None:
        self.row = row
        self.at = {"pre": pre, "post": post, "syn": syn}
        self.locals: dict[str, Value] = {"step": step, "pre": pre, "post": post, "syn": syn}
        self.evaluate = Evaluator(self.read, row.real, step)

    def place(self, formal: ArrayFormal) -> Any:
        if not isinstance(formal.access, At):
            raise InterpretError(f"{self.row.label}: `{formal.name}` has no element at a synapse")
        place = self.at[formal.access.end]
        if formal.access.ring is not None:
            delay, mask, size = formal.access.ring
            late = self.row.arrays[delay][self.at["syn"]].astype(np.int64) if delay in self.row.arrays else None
            steps = self.row.size(delay) if late is None else late
            place = ((self.locals["step"] + steps) & self.row.size(mask)) * self.row.size(size) + place
        return self.row.checked(formal.name, place)

    def read(self, name: str) -> Value:
        if name in self.locals:
            return self.locals[name]
        formal = self.row.array_formals.get(name)
        if formal is not None:
            return loaded(self.row.arrays[name][self.place(formal)])
        return self.row.scalars[name] if name in self.row.scalars else CONSTANTS[name]

    def run(self, body: Propagate) -> None:
        for s in body.statements:
            if not isinstance(s, Assign | Add):
                raise InterpretError(f"{self.row.label}: a propagation cannot emit")
            value = self.evaluate.typed(s.value)
            formal = self.row.array_formals.get(s.target)
            if formal is None:
                self.locals[s.target] = value
                continue
            buffer, place = self.row.arrays[s.target], self.place(formal)
            stored = np.broadcast_to(cast(value, buffer.dtype), place.shape)
            if isinstance(s, Add):
                np.add.at(buffer, place, stored)
            else:
                buffer[place] = stored


def _conflicts(row: Row, body: Propagate) -> tuple[bool, bool]:
    """Whether synapses of one event interfere (always, where two of them share their other end)."""
    read: set[str] = set()
    for s in body.statements:
        if isinstance(s, Assign | Add):
            read |= {row.names[n] for n in refs(s.value) & row.names.keys()}
    always = shared = False
    for s in body.statements:
        if not isinstance(s, Assign | Add) or s.target not in row.names:
            continue
        access = row.array_formals[s.target].access
        end = access.end if isinstance(access, At) else ""
        others = sum(bound == row.names[s.target] for bound in row.names.values()) > 1
        if isinstance(s, Assign) or row.names[s.target] in read:
            always = always or end == body.by or others
            shared = shared or end in ("pre", "post")
        elif others:
            always = True
    return always, shared


def _elements(row: Row, relation: Relation, event: int) -> tuple[Any, Any]:
    """(other ends, synapses) of one neuron's elements, in order."""
    match relation:
        case Csr(pointers, col, index):
            places = np.arange(row.arrays[pointers][event], row.arrays[pointers][event + 1], dtype=np.int64)
            syn = places if index is None else row.arrays[index][places].astype(np.int64)
            return row.arrays[col][places].astype(np.int64), syn
    raise InterpretError(f"{row.label}: no {type(relation).__name__} relation")


def _events(row: Row, events: Events | Every, step: int) -> list[int]:
    match events:
        case Events(ids, count, slots, delay, stride):
            slot = (step - row.size(delay)) % row.size(slots)
            first = slot * row.size(stride)
            found: list[int] = row.arrays[ids][first : first + int(row.arrays[count][slot])].tolist()
            return found
        case Every(n):
            return list(range(row.size(n)))


def run_propagate(row: Row, body: Propagate, step: int) -> None:
    """Deliver the events of step (step - delay)."""
    always, shared = _conflicts(row, body)
    for event in _events(row, body.events, step):
        other, syn = _elements(row, body.relation, event)
        own = np.full(len(syn), event, np.int64)
        pre, post = (own, other) if body.by == "pre" else (other, own)
        if always or (shared and len(np.unique(other)) < len(other)):
            for k in range(len(syn)):
                Synapses(row, pre[k : k + 1], post[k : k + 1], syn[k : k + 1], step).run(body)
        elif len(syn):
            Synapses(row, pre, post, syn, step).run(body)

"""Delivery of events through a CSR relation, interpreted event by event.

Assumes: a legal Propagate: `row` and `col` are a relation between the populations that own the
formals.
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
from compiler.ir.program import Add, ArrayFormal, Assign, At, Propagate


class Synapses:
    """Some synapses of one event: source `pre`, targets `post` and positions `syn`, one each per
    synapse."""

    def __init__(self, row: Row, pre: int, post: Any, syn: Any, step: int) -> None:
        self.row = row
        self.at = {"pre": np.full(len(syn), pre, np.int64), "post": post, "syn": syn}
        self.locals: dict[str, Value] = {"step": step}
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
    """Whether synapses of one event interfere (always, where two of them share their target)."""
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
            always = always or end == "pre" or others
            shared = shared or end == "post"
        elif others:
            always = True
    return always, shared


def run_propagate(row: Row, body: Propagate, step: int) -> None:
    """Deliver the events of step (step - delay)."""
    events, counts = row.arrays[body.list], row.arrays[body.count]
    pointers, targets = row.arrays[body.row], row.arrays[body.col]
    slots = row.size(body.slots)
    slot = (step - row.size(body.delay)) % slots
    room = row.size("n_pre")
    always, shared = _conflicts(row, body)
    for source in events[slot * room : slot * room + int(counts[slot])].tolist():
        syn = np.arange(pointers[source], pointers[source + 1], dtype=np.int64)
        post = targets[syn].astype(np.int64)
        if always or (shared and len(np.unique(post)) < len(post)):
            for k in range(len(syn)):
                Synapses(row, source, post[k : k + 1], syn[k : k + 1], step).run(body)
        elif len(syn):
            Synapses(row, source, post, syn, step).run(body)

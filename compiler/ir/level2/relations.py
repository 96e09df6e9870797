"""Level 2, what a Propagate walks: events, and the relations between two populations.

Assumes: formals and columns with these names (program.py).
Guarantees: frozen data with structural equality.
Does not: make the arrays (passes/relations), or print the walk (backends).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compiler.expr.ast import Expr
from compiler.ir.level2.nests import FindsFormals, Word
from compiler.ir.space import DType


@dataclass(frozen=True)
class Events:
    """The events of step (step - delay) of one population: its ring (`list` and `count`, ByName formals; `slots`, a
    column), and the columns `delay` (integer steps >= 0) and `stride` (distance between the lists of two slots: the
    population's size, or more where neurons may have several events in a step)."""

    list: str
    count: str
    slots: str
    delay: str
    stride: str


@dataclass(frozen=True)
class Every:
    """Every neuron 0 .. n - 1, in every step (`n`: a column): for the work of synapses without events."""

    n: str


@dataclass(frozen=True)
class Csr(FindsFormals):
    """Stored rows: the elements t of neuron e are row[e] <= t < row[e + 1], the other end is col[t] and the synapse
    is t, or index[t]: in a relation that is walked from the other end than the one by which synapses are numbered (made
    by Connect's stages "transpose_..."), or, `shared`, where many synapses have one number, the kernel's element of a
    convolution. `row` i64 [n + 1], `col` i32 [synapses], `index` i32 [synapses]."""

    row: str
    col: str
    index: str | None = None
    shared: bool = False


@dataclass(frozen=True)
class Dense(FindsFormals):
    """Every pair, never stored. Columns: the sizes of the two populations. `hole`: a neuron is not connected to itself
    (both sizes are then equal). Synapses are numbered as stored rows would be: source by source, targets ascending;
    so (i, j) is i * (n_post - hole) + j - (hole and j > i)."""

    n_pre: str
    n_post: str
    hole: bool = False


@dataclass(frozen=True)
class OneToOne(FindsFormals):
    """Neuron e to neuron e, synapse e."""


@dataclass(frozen=True)
class Bitmask(FindsFormals):
    """One bit per pair: u32 words[n_pre][ceil(n_post / 32)], bit j % 32 of word j / 32 of row i. Only by source, and
    synapses have no number (no formal At("syn")): they share what they have."""

    words: str
    n_post: str


@dataclass(frozen=True)
class Procedural(FindsFormals):
    """Rows that are redrawn at every event, by a rule of Connect ("fixed_probability", ...), from Connect's own stream.
    Formals are those that Connect's rule accesses by name (key as "connect_key"); `row`: the row pointers, counted and
    never filled: element t of source e is synapse row[e] + t. `probability`: as in Connect. Only by source; the rows of
    "fixed_outdegree" are not drawn in order, so that its synapses have no number (no formal At("syn"))."""

    by_name = dict.fromkeys(
        (
            *("n_pre", "n_post", "connect_key", "table", "autapses", "same", "number", "multapses"),
            *("w_from", "h_from", "w_to", "h_to"),
        )
    )
    rule: Word
    row: str
    probability: Expr | None = None


PLANES: Final = ("in_c", "in_h", "in_w", "out_c", "out_h", "out_w", "pad_h", "pad_w")
"""Columns of a Toeplitz relation."""


@dataclass(frozen=True)
class Toeplitz(FindsFormals):
    """A convolution between populations laid out as (channels, height, width), never stored: the doubly blocked
    Toeplitz matrix of `kernel` (height, width), `stride` and (columns) padding. Source (c, y, x) reaches, for every
    output channel o and kernel position (ky, kx), target (o, (y + pad_h - ky) / stride, (x + pad_w - kx) / stride)
    where that is whole and inside. The synapse is the kernel's element ((o * in_c + c) * kh + ky) * kw + kx, shared
    by all positions; `depthwise`: o is c alone, and the element is (c * kh + ky) * kw + kx; `shared`: as depthwise
    with one plane, the element is ky * kw + kx. Columns with fixed names: PLANES.
    Only by source."""

    by_name = dict.fromkeys(PLANES, DType.I64)
    kernel: tuple[int, int]
    stride: tuple[int, int]
    depthwise: bool = False
    shared: bool = False


Relation = Csr | Dense | OneToOne | Bitmask | Procedural | Toeplitz

"""Definition of a loss and of a metric: keys, what it is of, nodes, and how a number comes of sums, in one object each.

Assumes: nothing of any loss; compiler/losses/__init__.py lists them.
Guarantees: language, frontend, passes and runtime derive what they know of a loss or a metric from these objects.
Does not: differentiate (the graph is differentiated as a whole), or read files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.keys.kinds import Alternative, Block, Flag, Value
from compiler.ir.level1.builder import GraphBuilder

Rows = tuple[l1.Tensor, frozenset[str]]
"""The loss of each row, and the tensors whose gradient is zero by construction."""
Parts = Mapping[str, npt.NDArray[np.float64]]


class Answers(Enum):
    """What predictions and targets are."""

    CLASSES = "scores of classes, and the number of the right one"
    YES_NO = "scores of yes-or-no questions, and answers from 0 to 1"
    NUMBERS = "numbers of one shape"
    LABELS = "scores of classes step by step, and a list of labels that says nothing of steps"
    PLACES = "lists of coordinates, of what is near and far"
    OWN = "whatever an expression, or the terms of a sum, read"


@dataclass(frozen=True)
class Measured:
    """What a loss or a metric of that name is of, in a graph; `mask`: the weight of each row, or of each element of its
    first axes; `beside`: what else the loss reads, by key."""

    g: GraphBuilder
    name: str
    loss: l0.Loss
    prediction: l1.Tensor
    target: l1.Tensor
    mask: l1.Tensor
    beside: Mapping[str, l1.Tensor]

    @property
    def rank(self) -> int:
        """Axes with losses of their own."""
        return len(self.mask.shape)


@dataclass(frozen=True)
class LossKind:
    """`keys`: the name, the keys and the texts of the language, of which the first is that of the layer; `synonyms`:
    what users of other tools write.

    `rows`: the loss of each row, or of each element of its first axes (None: Answers.OWN, lower_loss). `along`: one
    loss for each list along the last axis, not for each number; `whole`: one for each sample. `zero`: its nodes read
    settings of 0, too. `beside`: keys of what else it reads. `infinite`: what helps where
    losses are."""

    keys: Alternative
    answers: Answers
    rows: Callable[[Measured], Rows] | None = None
    along: bool = False
    whole: bool = False
    zero: bool = True
    beside: tuple[str, ...] = ()
    infinite: str = ""
    synonyms: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.keys.name

    @property
    def scored(self) -> str:
        """The key of the layer."""
        assert isinstance(self.keys.kind, Block)
        return self.keys.kind.fields[0].name

    @property
    def aim(self) -> str:
        """The key of what it is compared with: `target`, or that of another layer."""
        assert isinstance(self.keys.kind, Block)
        return "target" if "target" in self.keys.kind.by_name else self.keys.kind.fields[1].name

    @property
    def settings(self) -> tuple[str, ...]:
        """The keys that are numbers, or true or false."""
        fields = self.keys.kind.fields if isinstance(self.keys.kind, Block) else ()
        return tuple(f.name for f in fields if isinstance(f.kind, Value | Flag) and f.name != "ignore")


def mean(parts: Parts, count: float) -> float:
    """Of a metric with one sum."""
    (total,) = parts.values()
    return float(np.sum(total)) / count


Sums = Mapping[str, l1.Tensor]


@dataclass(frozen=True)
class MetricKind:
    """`doc`: the text of the language; `of`: the losses beside which it is measured. `sums`: over a batch,
    by the part of their name behind the metric's ("" for one alone).
    `value(parts, count)`: the number of an epoch (None: it is none, but a matrix). `number`: it has one in the file,
    and its name: `top_5`. `smaller`: it is better so."""

    name: str
    doc: str
    of: frozenset[Answers]
    sums: Callable[[Measured], Sums]
    value: Callable[[Parts, float], float] | None = mean
    number: Alternative | None = None
    smaller: bool = False

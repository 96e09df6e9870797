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
from compiler.expr.keys.kinds import Alternative, Block
from compiler.ir.level1.builder import GraphBuilder

Rows = tuple[l1.Tensor, frozenset[str]]
"""The loss of each row, and the tensors whose gradient is zero by construction."""
Parts = Mapping[str, npt.NDArray[np.float64]]


class Answers(Enum):
    """What predictions and targets are."""

    CLASSES = "scores of classes, and the number of the right one"
    YES_NO = "scores of yes-or-no questions, and answers from 0 to 1"
    NUMBERS = "numbers of one shape"
    OWN = "whatever an expression, or the terms of a sum, read"


@dataclass(frozen=True)
class LossKind:
    """`keys`: the name, the keys and the texts of the language; `synonyms`: what users of other tools write. Of layers
    and inputs it has `logits` or `prediction`, and `target`.

    `rows(graph, loss, prediction, target, name, rank)`: the loss of each row, or of each element of the first `rank`
    axes (None: Answers.OWN, lower_loss). `along`: one loss for each list along the last axis, not for each number.
    `zero`: its nodes read settings of 0, too."""

    keys: Alternative
    answers: Answers
    rows: Callable[[GraphBuilder, l0.Loss, l1.Tensor, l1.Tensor, str, int], Rows] | None = None
    along: bool = False
    zero: bool = True
    synonyms: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.keys.name

    @property
    def scored(self) -> str:
        """The key of the layer."""
        assert isinstance(self.keys.kind, Block)
        return "logits" if "logits" in self.keys.kind.by_name else "prediction"

    @property
    def settings(self) -> tuple[str, ...]:
        """The keys that are numbers."""
        block = self.keys.kind
        others = {"logits", "prediction", "target", "mask", "ignore", "class_weights", "mean"}
        return tuple(f.name for f in block.fields if f.name not in others) if isinstance(block, Block) else ()


def mean(parts: Parts, count: float) -> float:
    """Of a metric with one sum."""
    (total,) = parts.values()
    return float(np.sum(total)) / count


@dataclass(frozen=True)
class Measured:
    """What a metric of that name is of, in a graph; `mask`: the weight of each row, or of each element of its first
    axes."""

    g: GraphBuilder
    name: str
    prediction: l1.Tensor
    target: l1.Tensor
    mask: l1.Tensor


Sums = Mapping[str, l1.Tensor]


@dataclass(frozen=True)
class MetricKind:
    """`doc`: the text of the language; `of`: the losses beside which it is measured. `sums`: over a batch,
    by the part of their name behind the metric's ("" for one alone).
    `value(parts, count)`: the number of an epoch (None: it is none, but a matrix). `number`: it has one in the file,
    and its name: `top_5`."""

    name: str
    doc: str
    of: frozenset[Answers]
    sums: Callable[[Measured], Sums]
    value: Callable[[Parts, float], float] | None = mean
    number: Alternative | None = None

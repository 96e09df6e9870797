"""The connectivity rules of the language, in the order of its reference; one file per family.

Language, frontend, verifier, passes and runtime derive their handling of rules from these objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
from compiler.connect.convolution import AVG_POOL2D, CONV2D
from compiler.connect.drawing import Drawing
from compiler.connect.number import FIXED_INDEGREE, FIXED_OUTDEGREE, FIXED_TOTAL
from compiler.connect.pairs import PAIRS
from compiler.connect.probability import EXPRESSION, FIXED_PROBABILITY
from compiler.connect.regular import ALL_TO_ALL, ONE_TO_ONE
from compiler.connect.rule import ConnectRule, Ends, Form, Neurons
from compiler.connect.tile import TILE
from compiler.expr.keys.kinds import OneKey

__all__ = ["CONNECT", "RULE", "RULES", "ConnectRule", "Ends", "Form", "Neurons", "drawing_of", "rule_of"]

RULES: Final[tuple[ConnectRule, ...]] = (
    ALL_TO_ALL, ONE_TO_ONE, FIXED_PROBABILITY, FIXED_INDEGREE, FIXED_OUTDEGREE, FIXED_TOTAL, EXPRESSION, PAIRS,
    CONV2D, AVG_POOL2D, TILE,
)  # fmt: skip

RULE: Final[Mapping[str, ConnectRule]] = MappingProxyType({r.name: r for r in RULES if r.expressed is None})
"""By their names in the IR."""

CONNECT: Final = OneKey(
    "connectivity",
    tuple(r.keys for r in RULES),
    title="connect",
    doc="Which source neurons are connected to which target neurons.",
    elsewhere={word: here for r in RULES for word, here in r.synonyms.items()},
)


def rule_of(family: l0.Projection) -> ConnectRule:
    return RULE[family.rule]


def drawing_of(rule: str) -> Drawing | None:
    """How kernels draw the connections of a rule of the IR, if they do."""
    return RULE[rule].drawing if rule in RULE else None

"""Rules that decide pair by pair: with one probability, or by an expression."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from compiler.connect.drawing import DRAWN, HOLDS, PLACE, SKIP, SOURCE, TURN, Passing, past
from compiler.connect.keys import AUTAPSES, FLAGS, rule
from compiler.connect.rule import ConnectRule, Ends, Form, Table
from compiler.expr.ast import Cond, Num, Ref
from compiler.expr.functions import CONSTANTS
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.keys.kinds import Expression, Field, instead, required, switch
from compiler.expr.keys.values import FRACTION, QUANTITY

BLOCK: Final = 256
"""Skips are drawn as whole blocks of 256 targets and a rest below 256, from one table of 256
entries each."""

_ONE: Final = 1 << 32

_SAMPLES: Final = 4096
"""Pairs at which the expression of a rule is taken: those of an even grid, so that the number is always the same."""


def _thresholds(cdf: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """A cumulative distribution as thresholds: a 32-bit word w is in the first k outcomes when w
    <= entry[k].

    P(w <= entry) = (entry + 1) / 2**32, so entry = floor(cdf * 2**32) - 1; an outcome whose
    cumulative probability is below 2**-32 is rounded up to 2**-32.
    """
    counts = np.floor(np.minimum(cdf, 1.0) * float(_ONE))
    return (np.maximum(counts, 1.0) - 1.0).astype(np.uint32)


def fixed_probability_table(p: float) -> npt.NDArray[np.uint32]:
    """The table of the rule `fixed_probability`: u32[512] for 0 < p <= 1.

    A source visits its possible targets 0 .. n_pool - 1 in order; the number of targets that it
    passes over before each synapse is geometric, P(skip) = p q**skip with q = 1 - p (Devroye 1986,
    ch. X.2). It is drawn as 256 * blocks + rest, which are independent:
      entries 256..511 ("hi"): P(blocks <= k) = 1 - q**(256 (k + 1)). A word above the last entry
        means 256 blocks or more; by the lack of memory of the geometric law, 256 blocks are passed
      and the draw repeats.
      entries 0..255 ("lo"): P(rest <= k | rest <= 255) = (1 - q**(k + 1)) / (1 - q**256); the last
        entry is 2**32 - 1, so every word finds an outcome.
    A word w has outcome min {k : w <= entry[k]}.
    """
    if not 0.0 < p <= 1.0:
        raise ValueError(f"a connection probability must be above 0 and at most 1, not {p}")
    log_q = math.log1p(-p) if p < 1.0 else -math.inf
    k = np.arange(1, BLOCK + 1, dtype=np.float64)
    rest = np.expm1(k * log_q) / math.expm1(BLOCK * log_q)
    rest[-1] = 1.0
    blocks = -np.expm1(BLOCK * k * log_q)
    return _thresholds(np.concatenate([rest, blocks]))


def _table(args: Mapping[str, float | int]) -> Table:
    p = float(args["p"])
    return f"fixed_probability({p!r})", partial(fixed_probability_table, p)


_BLOCKS, _REST = DRAWN
_N_POST: Final = Ref("n_post")

FIXED_PROBABILITY = ConnectRule(
    rule(
        "fixed_probability",
        "Each pair with one probability, independently (Bernoulli).",
        required("p", FRACTION, "The probability of each connection, drawn independently.", example="p: 0.02"),
        AUTAPSES,
        elsewhere={"probability": "`p`", "prob": "`p`", "rate": "`p`"} | FLAGS,
    ),
    Form.DRAWN,
    lambda e: float(e.args["p"]) * e.pairs,
    columns=("autapses", "same"),
    table=_table,
    drawing=Passing(
        pool=_N_POST - SKIP,
        index=SOURCE,
        at=TURN,
        step=Cond(_BLOCKS < BLOCK, _BLOCKS * BLOCK + _REST + 1, Num(BLOCK * BLOCK)),
        hit=_BLOCKS < BLOCK,
        target=past(PLACE, SOURCE),
    ),
    amount="p",
    random=True,
    each=Ref("p"),
    synonyms=dict.fromkeys(
        (
            *("fixed_prob", "bernoulli", "pairwise_bernoulli", "random", "probability", "p"),
            *("fixed_probability_connector", "erdos_renyi", "pairwise_bernoulli_on_source"),
        ),
        "`fixed_probability: {p: ...}`",
    ),
)


def _mean(e: Ends) -> float:
    """The mean probability of a rule's expression over its pairs; 1 where it has no value here."""
    if e.projection.probability is None:
        return 1.0
    known: dict[str, Any] = {**CONSTANTS, **e.args, "n_from": e.pre.size, "n_to": e.post.size}
    side = math.isqrt(_SAMPLES)
    sizes = {"i": ("from", e.pre.size), "j": ("to", e.post.size)}
    for k, (index, (end, size)) in enumerate(sizes.items()):
        places = np.unique(np.linspace(0, size - 1, min(side, size)).astype(np.int64))
        at = places[:, None] if k == 0 else places[None, :]
        w, h = int(e.args.get(f"w_{end}", size)), int(e.args.get(f"h_{end}", 1))
        known |= {index: at, f"x_{index}": at % w, f"y_{index}": at // w % h, f"c_{index}": at // (w * h)}
    try:
        found = np.asarray(evaluate(e.projection.probability, known), np.float64)
    except (ExprError, TypeError):
        return 1.0
    return float(np.mean(np.clip(np.nan_to_num(found), 0.0, 1.0)))


SPACING: Final = Field(
    "spacing",
    replace(QUANTITY, low=0, above=True),
    "The distance between neighbours of the grid, which `distance` is measured in.",
    default=1,
    example="spacing: 20 um",
)
PERIODIC: Final = switch(
    "periodic", "Whether `distance` is measured on a torus: opposite borders of the grid are neighbours."
)

EXPRESSION = ConnectRule(
    rule(
        "rule",
        "Pairs for which an expression over their indices, positions or distance says so.",
        Field(
            "probability",
            Expression("exp(-distance / 3)"),
            "The probability of the connection from neuron `i` of the source to neuron `j` of the target, drawn "
            "independently for each pair; above 1 counts as 1. It may use `i`, `j`, the sizes `n_from` and `n_to`, "
            "the columns, rows and channels `x_i`, `y_i`, `c_i`, `x_j`, `y_j`, `c_j` of both in the `shape` of their "
            "populations, widths and heights `w_from`, `h_from`, `w_to`, `h_to`, their `distance`, the parameters "
            "of the model, and the `values` of this entry.",
        ),
        Field(
            "when",
            Expression("abs(i - j) < 3"),
            "A condition over the same names: pairs for which it does not hold are not connected.",
        ),
        SPACING,
        PERIODIC,
        AUTAPSES,
        at_least_one=("probability", "when"),
        elsewhere=FLAGS
        | instead(
            "`probability`: p prob",
            "`when`: condition if",
            "`probability: exp(-distance / 3)`: kernel",
            "`periodic`: wrap edge_wrap",
        ),
        example="{probability: exp(-distance / 3)}",
    ),
    Form.DRAWN,
    lambda e: _mean(e) * e.pairs,
    columns=("autapses", "same", "w_from", "h_from", "w_to", "h_to"),
    drawing=Passing(
        pool=_N_POST, index=SOURCE * _N_POST + PLACE, at=Num(0), step=Num(1), hit=HOLDS, target=PLACE, hole=SOURCE
    ),
    random=True,
    own_name="expression",
    synonyms={
        "expression": "`rule: {when: ...}` or `rule: {probability: ...}`",
        "condition": "`rule: {when: ...}`",
        "distance": "`rule: {probability: exp(-distance / 3)}`",
    },
)

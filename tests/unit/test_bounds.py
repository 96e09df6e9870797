"""Bounds on synaptic deliveries, and the quanta of fixed-point accumulators derived from them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from compiler.core.diagnostics import Sink
from compiler.core.source import NOWHERE
from compiler.expr.ast import Call, Ref
from compiler.expr.functions import FUNCTIONS
from compiler.expr.interp import evaluate
from compiler.expr.intervals import ANY, interval
from compiler.expr.parse import parse_expr
from compiler.passes.model.fixed_point_scales import input_quanta
from tests.numeric.simulated import model_of
from tests.numeric.synapse_oracle import model_text

ENV = {"a": (-2.0, 3.0), "p": (0.5, 4.0), "z": (0.0, 0.0)}
INF = math.inf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + p", (-1.5, 7.0)),
        ("a - p", (-6.0, 2.5)),
        ("a * p", (-8.0, 12.0)),
        ("-a / p", (-6.0, 4.0)),
        ("p / a", (-INF, INF)),
        ("a ** 2", (0.0, 9.0)),
        ("clip(unknown, 0, p)", (0.0, 4.0)),
        ("min(a, unknown)", (-INF, 3.0)),
        ("max(a, 1)", (1.0, 3.0)),
        ("z * unknown", (0.0, 0.0)),
        ("a if unknown > 0 else 10", (-2.0, 10.0)),
        ("2 * sigmoid(unknown) + random()", (0.0, 3.0)),
        ("exp(-p)", (math.exp(-4.0), math.exp(-0.5))),
        ("abs(a) + heaviside(unknown)", (0.0, 4.0)),
        ("sqrt(p * p)", (0.5, 4.0)),
        ("unknown", ANY),
    ],
)
def test_intervals(text: str, expected: tuple[float, float]) -> None:
    tree = parse_expr(text, NOWHERE, Sink(), units=False, exact=False)
    assert tree is not None
    assert interval(tree, ENV) == expected


@pytest.mark.parametrize("name", [f.name for f in FUNCTIONS.values() if f.numbers is not None])
def test_every_value_of_a_function_is_within_its_bounds(name: str) -> None:
    known, rng = FUNCTIONS[name], np.random.default_rng(1)
    names = [f"x{k}" for k in range(known.least)]
    tree = Call(name, tuple(map(Ref, names)))
    for size in (0.1, 3.0, 50.0, 2000.0):
        for _ in range(50):
            ends = np.sort(rng.uniform(-size, size, (len(names), 2)), axis=1)
            low, high = interval(tree, {n: (float(a), float(b)) for n, (a, b) in zip(names, ends, strict=True)})
            points = rng.uniform(ends[:, 0], ends[:, 1], (20, len(names)))
            values = evaluate(tree, dict(zip(names, points.T, strict=True)))
            known_values = values[~np.isnan(values)]
            assert np.all((low <= known_values) & (known_values <= high)), (name, ends)


@pytest.mark.parametrize(
    ("state", "statements", "exponent"),
    [
        ("w: 0.5 mV", '["w = clip(w + (1 mV) * post.y, 0 mV, 3 mV)", deliver(2 * w)]', 3 - 40),  # at most 6 mV
        ("w: 0.5 mV", "[deliver(w), w = 2 * w]", -0.5 + 4 - 40),  # grows: from the square root of 0.5
        ("w: 4 mV", "[deliver(w), w = 2 * w]", 2 + 4 - 40),
        ("w: 0 mV", "[w = w + (1 mV) * post.y, deliver(w)]", 4 - 40),
        ("w: 0 mV", "[deliver((0.25 mV) * random())]", -2 - 40),
    ],
)
def test_quanta(tmp_path: Path, state: str, statements: str, exponent: float) -> None:
    synapse = f"""\
synapses:
  learning:
    state: {{{state}}}
    post: {{state: {{y: 0}}, on_spike: [y = y + 1]}}
    on_pre: {statements}
"""
    projections = "  plastic: {from: s, to: t, connect: {all_to_all: {}}, synapse: learning, deliver: {into: a}}\n"
    model = model_of(model_text([(5, 0)], [(6, 0)], (1, 1), projections, synapse), tmp_path)
    assert input_quanta(model)["t", "a"] == 2.0 ** math.ceil(exponent)

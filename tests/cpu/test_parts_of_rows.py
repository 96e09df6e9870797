"""Results that lie as parts of longer rows, and parts of longer rows that an epilogue reads, by the strategies of a
core beside the reference: joined and sliced along each axis, and with axes in another order."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.cpu.test_layers import HEAD, TAIL, write
from tests.grids import diagonal
from tests.numeric.trained import load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

SHAPE = (8, 6, 7)
MADE = {
    "window": "conv2d: {name: c, inputs: a, filters: 8, kernel: 3, padding: 1}",
    "wide window": "conv2d: {name: c, inputs: a, filters: 8, kernel: 5, padding: 2}",
    "pixels": "conv2d: {name: c, inputs: a, filters: 8, kernel: 1, activation: tanh}",
    "plain pixels": "conv2d: {name: c, inputs: a, filters: 8, kernel: 1, bias: false}",
    "plain lines": "conv2d: {name: c, inputs: a, filters: 8, kernel: [3, 1], padding: same, bias: false}",
    "groups": "conv2d: {name: c, inputs: a, filters: 8, kernel: 3, padding: 1, groups: 8}",
}
JOINED = """\
    - slice: {{name: s, inputs: c, axis: {axis}, from: 1, to: 3}}
    - concat: {{inputs: [s, c], axis: {axis}}}
"""
READ = """\
    - pad: {{name: longer, inputs: a, before: [1, 1, 1], after: [0, 0, 0]}}
    - slice: {{name: s0, inputs: longer, axis: 0, from: 1}}
    - slice: {{name: s1, inputs: s0, axis: 1, from: 1}}
    - slice: {{name: s, inputs: s1, axis: 2, from: 1}}
    - add: {{inputs: [c, s]}}
"""
TURNED = """\
    - reshape: {{name: other, inputs: a, shape: {before}}}
# made
    - permute: {{name: s, inputs: other, axes: {axes}}}
    - add: {{inputs: [c, s]}}
"""
AXES = {
    "rows last": TURNED.format(before="[8, 7, 6]", axes="[0, 2, 1]"),
    "channels between": TURNED.format(before="[6, 8, 7]", axes="[1, 0, 2]"),
    "channels last": TURNED.format(before="[6, 7, 8]", axes="[2, 0, 1]"),
}


WAYS = {**{str(n): JOINED.format(axis=n) for n in range(3)}, "read": READ.format(), **AXES}


@pytest.mark.parametrize(("made", "way", "batch"), diagonal(list(MADE), list(WAYS), [8, 6, 2], leading=2))
def test_results_and_gradients_are_those_of_the_reference(tmp_path: Path, made: str, way: str, batch: int) -> None:
    write(tmp_path, SHAPE)
    before, _, after = WAYS[way].rpartition("# made\n")
    layers = f"    - conv2d: {{name: a, filters: 8, kernel: 1}}\n{before}    - {MADE[made]}\n{after}"
    text = HEAD.replace("SHAPE", str(list(SHAPE))) + layers + TAIL
    text = text.replace("{adam: {}}", "{sgd: {learning_rate: 1}}") + "numerics: {precision: float64}\n"
    found = []
    for target in ("cpu", "reference"):
        trained, random = (
            load(re.sub(r"batch: \d+", f"batch: {batch}", text), tmp_path, target),
            np.random.default_rng(5),
        )
        for name in trained.names:
            trained.write(name, random.normal(0, 0.3, trained.read(name).shape))
        trained.step(1, range(batch))
        found.append({**trained.weights(), "loss": np.array(trained.metric("loss"))})
    for name, values in found[0].items():
        np.testing.assert_allclose(values, found[1][name], rtol=1e-9, atol=1e-11, err_msg=name)

"""Convolutions by cuDNN, without it: what the library is told, against PyTorch's definition in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.libraries import Library
from compiler.ir.level0.model import Numerics
from compiler.strategies.choice import Choice, product
from compiler.strategies.cuda.vendor import cudnn
from compiler.strategies.permissions import permitted
from compiler.strategies.variants import identity, ways
from tests.cpu.contractions import Conv, conv, gradient
from tests.cpu.test_strategies import Problem
from tests.cpu.test_tune import naive

CONVOLUTIONS = [
    Conv(2, 3, 4, 6, 7, pad=1),
    Conv(2, 4, 6, 9, 8, stride=(2, 1), pad=1, groups=2),
    Conv(1, 2, 3, 8, 9, (2, 3), dilate=2, pad=1),
    Conv(2, 3, 5, 5, 5, (1, 1)),
]
DIRECTIONS = {cudnn.FORWARD: None, cudnn.IMAGE: 0, cudnn.WEIGHTS: 1}


def problem(number: int, direction: str) -> Problem:
    operand = DIRECTIONS[direction]
    return conv(CONVOLUTIONS[number]) if operand is None else gradient(*conv(CONVOLUTIONS[number]), operand)


def chosen(found: Problem, name: str) -> Choice | None:
    node, tensors = found
    p = product(node, {n: tensors[n] for n in node.ins}, 0, 4)
    return next(s for s in cudnn.STRATEGIES if s.name == name).choice(p)


def told(columns: Mapping[str, int], direction: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """What the library computes of arrays as they lie in memory."""
    (n, g, k, c), along = (columns[f"s_{x}"] for x in ("batch", "groups", "outs", "ins")), "rc"
    image, out, taps, step, tap, pad = (
        tuple(columns[f"s_{x}_{a}"] for a in along) for x in ("image", "out", "taps", "step", "tap", "pad")
    )
    shapes = {"x": (n, g, c, *image), "w": (g, k, c, *taps), "y": (n, g, k, *out)}
    given = {"forward": "xw", "image": "yw", "weights": "xy"}[direction]
    a = {name: flat.reshape(shapes[name]) for name, flat in zip(given, (first, second), strict=True)}
    (wanted,) = set("xwy") - {*given}
    a[wanted] = np.zeros(shapes[wanted])
    for i, j, r, s in np.ndindex(*out, *taps):
        h, v = i * step[0] + r * tap[0] - pad[0], j * step[1] + s * tap[1] - pad[1]
        if not (0 <= h < image[0] and 0 <= v < image[1]):
            continue
        x, w, y = a["x"][..., h, v], a["w"][..., r, s], a["y"][..., i, j]
        if wanted == "y":
            y += np.einsum("ngc,gkc->ngk", x, w)
        elif wanted == "x":
            x += np.einsum("ngk,gkc->ngc", y, w)
        else:
            w += np.einsum("ngk,ngc->gkc", y, x)
    return a[wanted]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("number", range(len(CONVOLUTIONS)))
def test_what_it_is_told_gives_the_sums(number: int, direction: str) -> None:
    node, tensors = problem(number, direction)
    found = chosen((node, tensors), f"cudnn_{direction}_float32")
    assert isinstance(found, Choice), found
    rng = np.random.default_rng(1)
    values = {n: rng.standard_normal(tensors[n].shape) for n in node.ins}
    columns = dict(found.columns)
    first, second = (values[node.ins[x]].reshape(-1) for x in (columns["s_first"], 1 - columns["s_first"]))
    made = told(columns, direction, first, second).reshape(node.out.shape)
    np.testing.assert_allclose(made, naive(node, values), rtol=1e-12, atol=1e-12)


def test_directions_are_not_confused() -> None:
    for direction in DIRECTIONS:
        for other in DIRECTIONS:
            found = chosen(problem(1, direction), f"cudnn_{other}_float32")
            assert isinstance(found, Choice) is (direction == other)


def test_each_direction_is_computed_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanged and turned, as Theano's meta-optimizer did."""
    monkeypatch.setattr(Library, "found", lambda _: (Path("libcudnn.so.9"), "9.15"))
    backend = CudaBackend(arch="sm_90")
    seen = {}
    for direction in DIRECTIONS:
        node, tensors = problem(0, direction)
        used = {n: tensors[n] for n in node.ins}
        found = ways(node, used, 0, 4, backend.capabilities.strategies, backend.capabilities.device)
        seen[direction] = {identity(w).split()[0] for w in found if w is not None and "cudnn" in w.strategy}
    assert {"cudnn_forward_float32", "exchanged_cudnn_weights_float32"} <= seen["forward"]
    assert {"cudnn_image_float32", "turned_cudnn_forward_float32"} <= seen["image"]
    assert {"cudnn_weights_float32", "exchanged_cudnn_forward_float32"} <= seen["weights"]


def test_products_permit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Library, "found", lambda _: (Path("libcudnn.so.9"), "9.15"))
    capabilities = CudaBackend(arch="sm_90").capabilities
    for products, many in (("exact", 0), ("float32", 3), ("tf32", 6)):
        assert len(permitted(capabilities, Numerics(products=products)).strategies & cudnn.KINDS.keys()) == many
    monkeypatch.setattr(Library, "found", lambda _: None)
    assert not CudaBackend(arch="sm_90").capabilities.strategies & cudnn.KINDS.keys()

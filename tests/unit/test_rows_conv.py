"""The strategies for row-major tensors on the CPU: against numpy, over strides, paddings, dilations and groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import compiler.strategies as strategies
from backends.cpu.emit.emit import emit
from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower_predict
from compiler.strategies.cost import cpu as cost
from compiler.strategies.cpu import rows_conv
from netloom import predict
from tests.cpu.networks_for_use import samples, write_network

pytestmark = pytest.mark.usefixtures("cc")


def _conv(x: np.ndarray, w: np.ndarray, stride: int, pads: tuple[int, int], dilation: int, groups: int) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), pads, pads))
    k, (r, s) = len(w), w.shape[2:]
    high, wide = ((e - (t - 1) * dilation - 1) // stride + 1 for e, t in zip(x.shape[2:], (r, s), strict=True))
    out = np.zeros((len(x), k, high, wide))
    per_in, per_out = w.shape[1], k // groups
    for g in range(groups):
        part, weights = x[:, g * per_in : (g + 1) * per_in], w[g * per_out : (g + 1) * per_out]
        for i in range(high):
            for j in range(wide):
                window = part[:, :, i * stride :, j * stride :][:, :, : (r - 1) * dilation + 1 : dilation]
                window = window[:, :, :, : (s - 1) * dilation + 1 : dilation]
                out[:, g * per_out : (g + 1) * per_out, i, j] = np.einsum("ncij,kcij->nk", window, weights)
    return out


SHAPES = {"a": (4, 9, 8), "b": (4, 5, 21), "c": (4, 5, 32)}
"""Rows of the output are shorter than a vector, longer, or whole vectors."""
CASES = [
    (shape, kernel, stride, pads, dilation, groups, filters)
    for shape in SHAPES.values()
    for kernel, stride, pads, dilation in (
        (3, 1, (1, 1), 1), (3, 2, (1, 0), 1), (1, 1, (0, 0), 1), (1, 2, (0, 0), 1), (5, 3, (2, 3), 1),
        (2, 1, (0, 1), 2), (3, 2, (2, 2), 2), (4, 4, (1, 0), 1),
    )
    for groups, filters in ((1, 11), (2, 6), (4, 4), (1, 37), (2, 64))
]  # fmt: skip
"""From 32 filters a group on, windows are packed; images of 9 x 8 and 5 x 21 leave pixels behind the last vector."""


@pytest.mark.parametrize(
    "precision, near",
    [("float32", cost.ROWS_NEAR_BYTES), pytest.param("float32", 0, marks=pytest.mark.slow), ("float64", 0)],
)
def test_convolutions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, near: int) -> None:
    """In place, and packed wherever there are enough filters."""
    monkeypatch.setattr(cost, "ROWS_NEAR_BYTES", near)
    monkeypatch.setattr(strategies, "GROUPS", ((rows_conv.STRATEGY,),))
    layers, expected_of = [], []
    for number, (shape, kernel, stride, pads, dilation, groups, filters) in enumerate(CASES):
        padding = [pads[0], pads[1], pads[0], pads[1]]
        source = next(n for n, s in SHAPES.items() if s == shape)
        layers.append(
            f"conv2d: {{name: c{number}, inputs: {source}, filters: {filters}, kernel: {kernel}, stride: {stride}, "
            f"padding: {padding}, dilation: {dilation}, groups: {groups}, activation: relu}}"
        )
        expected_of.append(source)
    inputs = ", ".join(f"{n}: {{shape: {list(s)}}}" for n, s in SHAPES.items())
    path = write_network(tmp_path, f"{{{inputs}}}", "\n".join(layers))
    x = samples(path, 3)
    w = load_file(tmp_path / "net.safetensors")
    lowered = lower_predict(load_model(path), backend("cpu").capabilities, 2).lowered
    chosen = {d.verdict for d in lowered.decisions if d.pass_name == "choose_strategies"}
    assert chosen == {"rows_conv"}
    steps = {(stride, dilation, groups > 1) for _, _, stride, _, dilation, groups, _ in CASES}  # structure of indices
    assert len([t for t in lowered.merged.templates if "rows conv" in t.name]) == len(steps)
    found = predict(path, x, batch=2, precision=precision, build_dir=tmp_path / "build")
    close = 1e-5 if precision == "float32" else 1e-12
    for number, (_, _, stride, pads, dilation, groups, _) in enumerate(CASES):
        name = f"c{number}"
        weight, bias = (w[f"{name}.{p}"].astype(np.float64) for p in ("weight", "bias"))
        y = _conv(x[expected_of[number]].astype(np.float64), weight, stride, pads, dilation, groups)
        np.testing.assert_allclose(found[name], np.maximum(y + bias[:, None, None], 0), rtol=close, atol=close)


@pytest.mark.parametrize(
    "features, batch, strategy", [(1, 3, "panels"), (15, 1, "dense"), (16, 4, "panels"), (50, 5, "dense")]
)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_dense(tmp_path: Path, features: int, batch: int, strategy: str, precision: str) -> None:
    """Five samples are taken as three and two."""
    path = write_network(tmp_path, f"{{x: {{shape: [{features}]}}}}", "dense: {name: d, units: 7}")
    lowered = lower_predict(load_model(path), backend("cpu").capabilities, batch).lowered
    assert f"rows_{strategy}" in {d.verdict for d in lowered.decisions}
    x, w = samples(path, batch), load_file(tmp_path / "net.safetensors")
    found = predict(path, x, batch=batch, precision=precision, build_dir=tmp_path / "build")["d"]
    expected = x["x"].astype(np.float64) @ w["d.weight"].T.astype(np.float64) + w["d.bias"]
    close = 1e-5 if precision == "float32" else 1e-12
    np.testing.assert_allclose(found, expected, rtol=close, atol=close)


@pytest.mark.parametrize("batch, strategy", [(1, "rows_conv"), (16, "lanes_conv")])
def test_strips(tmp_path: Path, batch: int, strategy: str) -> None:
    """Windows of an image that no cache holds are read strip by strip of the output."""
    layer = "conv2d: {name: c, filters: 37, kernel: 3, stride: 2, padding: 1, bias: false}"
    path = write_network(tmp_path, "{x: {shape: [64, 45, 44]}}", layer)
    lowered = lower_predict(load_model(path), backend("cpu").capabilities, batch).lowered
    assert strategy in {d.verdict for d in lowered.decisions if d.pass_name == "choose_strategies"}
    strips = [int(v) for t in lowered.merged.tables for v in np.asarray(t.scalars.get("s_strip", ()))]
    assert strips and all(0 < strip < 23 * 22 for strip in strips)
    x, w = samples(path, batch), load_file(tmp_path / "net.safetensors")
    found = predict(path, x, batch=batch, build_dir=tmp_path / "build")["c"]
    expected = _conv(x["x"].astype(np.float64), w["c.weight"].astype(np.float64), 2, (1, 1), 1, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("batch, call, many", [(1, "nl_rows_prefetch(&", 3), (16, "__builtin_prefetch(&", 1)])
def test_prefetches(tmp_path: Path, batch: int, call: str, many: int) -> None:
    """Packed panels prefetch what their epilogues read and write along the pixels: the other summand, not the bias;
    with the batch in the lanes, what they read."""
    layers = "conv2d: {name: a, filters: 64, kernel: 1}\nconv2d: {name: b, inputs: x, filters: 64, kernel: 1}"
    path = write_network(tmp_path, "{x: {shape: [64, 45, 44]}}", f"{layers}\nadd: {{name: c, inputs: [a, b]}}")
    lowered = lower_predict(load_model(path), backend("cpu").capabilities, batch).lowered
    text = emit(lowered.merged).text
    found = [line.partition("[")[0].strip() for line in text.splitlines() if line.strip().startswith(call)]
    assert len(found) == len(set(found)) == many

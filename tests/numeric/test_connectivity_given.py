"""Convolutions, pooling and listed pairs, from the file to deliveries, against sums in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.grids import diagonal, together
from tests.numeric.simulated import simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")
Array = npt.NDArray[Any]
STEPS = 12

MODEL = """
language: 1
neurons:
  sum: {{state: {{v: 0}}, inputs: {{g: {{}}}}, update: [v = g]}}
populations:
  a: {{neuron: library/neurons/spike_times, {a}, params: {{file: spikes.npz, times: times, indices: indices}}}}
  b: {{neuron: sum, {b}}}
projections:
  p: {{from: a, to: b, connect: {connect}, deliver: {{into: g, weight: {weight}}}, delay: {delay}}}
simulate: {{dt: 1 ms, duration: 12 ms}}
numerics: {{precision: {precision}, order: {order}}}
record: [{{trace: {{from: b, variables: [v], members: all, every: 1 ms}}}}]
"""


def spikes(folder: Path, n: int, seed: int = 4) -> Array:
    """(steps, n): spikes in steps 1, 2, ...; written to the file of the model."""
    fired = np.random.default_rng(seed).random((STEPS, n)) < 0.2
    step, index = np.nonzero(fired)
    np.savez(folder / "spikes.npz", times=step + 1.0, indices=index)
    return fired


def arrived(folder: Path, target: str = "cpu", **values: str) -> Array:
    """(steps, targets): deliveries up to each step, effective from the next one on."""
    given = {"weight": "1", "delay": "0 ms", "precision": "float64", "order": "bitwise"} | values
    return simulate(MODEL.format(**given), folder, target).traces["b", "v"]


def correlated(x: Array, kernel: Array, stride: tuple[int, int], padding: tuple[int, int], depthwise: bool) -> Array:
    """(out channels, rows, columns) of one image (channels, rows, columns), element by element."""
    x = np.pad(x, ((0, 0), (padding[0],) * 2, (padding[1],) * 2))
    kh, kw = kernel.shape[-2:]
    rows, columns = (x.shape[1] - kh) // stride[0] + 1, (x.shape[2] - kw) // stride[1] + 1
    out = np.zeros((len(kernel), rows, columns))
    for o, r, c in np.ndindex(*out.shape):
        window = x[:, r * stride[0] : r * stride[0] + kh, c * stride[1] : c * stride[1] + kw]
        out[o, r, c] = (window[o] * kernel[o]).sum() if depthwise else (window * kernel[o]).sum()
    return out


CONVOLUTIONS = [
    ((2, 7, 9), (3, 2, 3, 2), (1, 1), (0, 0)),
    ((3, 6, 8), (2, 3, 2, 3), (2, 1), (1, 2)),
    ((1, 8, 5), (4, 1, 3, 3), (2, 2), (1, 1)),
    ((4, 5, 6), (4, 3, 3), (1, 2), (1, 0)),  # depthwise
]


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "storage"), diagonal(together(CONVOLUTIONS), ["toeplitz", "sparse"])
)
def test_convolutions(
    tmp_path: Path,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, int],
    padding: tuple[int, int],
    storage: str,
) -> None:
    depthwise = len(kernel) == 3
    elements = np.random.default_rng(8).integers(-8, 9, kernel).astype(np.float64) / 8
    np.savez(tmp_path / "k.npz", k=elements)
    fired = spikes(tmp_path, int(np.prod(shape)))
    expected = [correlated(x.reshape(shape), elements, stride, padding, depthwise) for x in fired]
    out = expected[0].shape
    connect = (
        f"{{conv2d: {{kernel: {list(kernel[-2:])}, stride: {list(stride)}, padding: {list(padding)}, "
        f"depthwise: {str(depthwise).lower()}, storage: {storage}}}}}"
    )
    for target in ("cpu", "reference"):
        for precision in ("float32", "float64"):
            got = arrived(
                tmp_path,
                target,
                a=f"shape: {list(shape)}",
                b=f"shape: {list(out)}",
                connect=connect,
                weight="{file: k.npz, array: k}",
                precision=precision,
            )
            # eighths are exact in both precisions, and in the fixed point of `bitwise`
            assert np.array_equal(got[1:].reshape(-1, *out), expected[:-1])


def test_average_pooling(tmp_path: Path) -> None:
    """Each connection has the weight over the size of the window: the mean of the window's spikes."""
    fired = spikes(tmp_path, 2 * 8 * 6)
    images = fired.reshape(STEPS, 2, 4, 2, 3, 2)
    for storage in ("toeplitz", "sparse", "auto"):
        connect = f"{{avg_pool2d: {{size: 2, storage: {storage}}}}}"
        got = arrived(tmp_path, a="shape: [2, 8, 6]", b="shape: [2, 4, 3]", connect=connect, weight="3")
        assert np.allclose(got[1:].reshape(-1, 2, 4, 3), 3 * images.mean(axis=(3, 5))[:-1], rtol=1e-9)


@pytest.mark.parametrize(
    ("target", "rounded", "listed"),
    [("cpu", False, False), ("cpu", True, False), ("reference", False, False), ("cpu", True, True)],
)
def test_pairs_with_weights_and_delays_of_a_table(tmp_path: Path, target: str, rounded: bool, listed: bool) -> None:
    """In the order of the file, which is not that of storage; a pair that stands twice counts twice. Delays between
    steps are rounded where that is asked for, of a file as of a list."""
    rng = np.random.default_rng(3)
    table = np.column_stack(
        [rng.integers(0, 10, 40), rng.integers(0, 7, 40), rng.integers(-9, 9, 40) / 4, rng.integers(0, 4, 40)]
    )
    table[7, :2] = table[8, :2]
    off = rng.uniform(-0.4, 0.4, 40) if rounded else np.zeros(40)
    written = np.column_stack([table[:, :3], np.maximum(table[:, 3] + off, 0)])
    lines = "\n".join(",".join(f"{x:g}" for x in row) for row in written)
    (tmp_path / "t.csv").write_text(f"pre,post,w,late\n{lines}\n")
    delays = "file: t.csv, array: late"
    if listed:
        delays = f"value: [{', '.join(f'{late:g} ms' for late in written[:, 3])}]"
    fired = spikes(tmp_path, 10)
    expected = np.zeros((STEPS + 8, 7))
    for i, j, weight, late in table:
        for step in np.flatnonzero(fired[:, int(i)]):
            expected[step + 1 + int(late), int(j)] += weight
    got = arrived(
        tmp_path,
        target,
        a="size: 10",
        b="size: 7",
        connect="{pairs: {file: t.csv, sources: pre, targets: post}}",
        weight="{file: t.csv, array: w}",
        delay=f"{{{delays}, round: nearest}}" if rounded else f"{{{delays}}}",
    )
    assert np.array_equal(got, expected[:STEPS])


STORED = """
language: 1
params: {{sigma: {{value: 3.0}}}}
neurons:
  cell:
    state: {{v: {{uniform: {{low: 0, high: 1}}}}}}
    inputs: {{g: {{}}}}
    update: [v = v + g + 0.05]
    spike: {{when: v > 1, reset: [v = 0]}}
populations:
  a: {{neuron: cell, shape: [12, 15]}}
projections:
  p: {{from: a, to: a, connect: {connect}, deliver: {{into: g, weight: 0.004}}, delay: 2 ms}}
simulate: {{dt: 1 ms, duration: 60 ms, seed: 5}}
numerics: {{order: bitwise}}
record: [{{spikes: {{from: a}}}}]
"""

STORAGES = {
    "all_to_all: {autapses: false, S}": ("sparse", "dense", "bitmask", "procedural"),
    "one_to_one: {S}": ("sparse", "procedural"),
    "fixed_probability: {p: 0.2, autapses: false, S}": ("sparse", "bitmask", "procedural"),
    "fixed_outdegree: {number: 30, multapses: false, S}": ("sparse", "procedural"),
    "fixed_outdegree: {number: 70, autapses: false, S}": ("sparse", "procedural"),
    "rule: {probability: exp(-distance / sigma), periodic: true, S}": ("sparse", "bitmask", "procedural"),
    "rule: {when: abs(x_i - x_j) < 3 and y_i != y_j, S}": ("sparse", "bitmask", "procedural"),
    "conv2d: {kernel: 3, padding: 1, S}": ("sparse", "toeplitz", "procedural"),
}


@pytest.mark.parametrize("rule", STORAGES)
def test_storage_changes_nothing(tmp_path: Path, rule: str) -> None:
    """The same spikes, bit for bit, as the model file asks for one storage or another."""
    expected: Array | None = None
    for storage in ("auto", *STORAGES[rule]):
        connect = "{" + rule.replace("S}", f"storage: {storage}}}") + "}"
        text = STORED.format(connect=connect)
        if expected is None:
            expected = simulate(text, tmp_path, "reference").spikes["a"]
            assert len(expected) > 100
        assert np.array_equal(simulate(text, tmp_path).spikes["a"], expected), storage

"""Gradients of maxima over windows that stay where the windows are: the same values, when, and what a kernel stages."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import compiler.ir.level1.graph as l1
from backends.cuda.run.backend import CudaBackend
from compiler.expr.ast import Ref
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.passes import passes_for
from compiler.passes.fusion import window_choices
from compiler.passes.fusion.fuse_epilogues import Epilogue
from compiler.passes.fusion.reuse_arrays import reused
from compiler.passes.pipeline.lower import Lowered, lower
from compiler.strategies.pins import Pin, problem_digest
from tests.evaluate_graph import Values, evaluate_graph
from tests.grids import diagonal, together

OTHERS = frozenset(p.name for p in passes_for() if p.optional and p.name != "window_choices")
MODEL = """
language: 1
name: pooled
network:
  inputs: {{image: {{shape: [{channels}, 12, 14]}}, label: {{shape: [], dtype: int32}}}}
  layers:
    - conv2d: {{inputs: image, filters: {filters}, kernel: 3, padding: 1{activation}}}
    - max_pool2d: {{size: [2, 2]}}
    - conv2d: {{filters: {filters}, kernel: 3, padding: 1{activation}}}
    - max_pool2d: {{size: [3, 7]}}
    - flatten: {{}}
    - dense: {{name: logits, units: 3}}
numerics: {{precision: float32}}
train:
  data: {{file: samples.npz, inputs: {{image: image, label: label}}}}
  loss: {{softmax_cross_entropy: {{logits: logits, target: label}}}}
  optimizer: {{sgd: {{learning_rate: 0.1}}}}
  batch: 4
  epochs: 1
"""


def model_of(folder: Path, channels: int = 2, filters: int = 3, activation: str = ", activation: relu") -> Model:
    images = np.random.default_rng(1).integers(-2, 3, (8, channels, 12, 14)).astype(np.float32)  # with equal maxima
    np.savez(folder / "samples.npz", image=images, label=np.arange(8, dtype=np.int32) % 3)
    (folder / "model.yaml").write_text(MODEL.format(channels=channels, filters=filters, activation=activation))
    return load_model(folder / "model.yaml", {})


def lowered(model: Model, only: frozenset[str] | None = None, pins: dict[str, Pin] | None = None) -> Lowered:
    return lower(model, CudaBackend().capabilities, verify=True, only=only, pins=pins)


def decisions(found: Lowered) -> dict[str, tuple[str, str]]:
    made = [d for d in found.decisions if d.pass_name == "window_choices"]
    return {d.subject.removeprefix("train: "): (d.verdict, d.reason) for d in made}


def windows(found: Lowered) -> list[tuple[int, ...]]:
    return [n.out.windows for n in found.tensors[0].nodes if isinstance(n, l1.Contract) and n.out.windows]


def values(found: Lowered) -> Values:
    random = np.random.default_rng(2)
    given = dict[str, np.ndarray]()
    for node in found.tensors[0].nodes:
        if isinstance(node, l1.BatchMask):
            given[node.out.name] = np.ones(node.out.shape)
        elif isinstance(node, l1.Feed) and node.out.dtype == "int":
            given[node.out.name] = np.arange(node.out.shape[0]) % 3
        elif isinstance(node, l1.Weight | l1.Variable | l1.Feed):
            given[node.out.name] = random.integers(-2, 3, node.out.shape) / 4
    return evaluate_graph(found.tensors[0].nodes, given)


@pytest.mark.parametrize("activation", [", activation: relu", ""], ids=["relu", "none"])
def test_gradients_are_the_same(tmp_path: Path, activation: str) -> None:
    model = model_of(tmp_path, activation=activation)
    after, before = lowered(model), lowered(model, OTHERS)
    assert sorted(windows(after)) == [(1, 1, 2, 2), (1, 1, 3, 7)] and windows(before) == []
    found, wanted = values(after), values(before)
    names = [n.out.name for n in after.tensors[0].nodes if isinstance(n, l1.Weight)]
    assert len(names) == 6
    for name in names:
        gradient = wanted[f"{name}.grad"]
        assert np.abs(gradient).max() > 0
        np.testing.assert_allclose(found[f"{name}.grad"], gradient, rtol=1e-12, atol=1e-14)


def test_no_kernel_writes_all_elements(tmp_path: Path) -> None:
    """The choice is in the kernel of the maximum, the slope in that of the gradient's contraction."""
    found = lowered(model_of(tmp_path))
    (train,) = (p for p in found.merged.phases if p.name == "train")
    names = [found.merged.templates[x.template].name for x in train.launches]
    assert sum("rows over r, s" in n for n in names) == 2 and not any("minimum" in n for n in names)
    reads = {a for t, table in zip(found.merged.templates, found.merged.tables, strict=True) for a in _read(t, table)}
    assert "train/conv2d_1.activated.grad.first" in reads and "train/conv2d_1.biased.grad" not in reads
    assert not any(n.startswith("conv2d") and "of_windows" in n and "elementwise" in n for n in names)


def _read(template: object, table: object) -> set[str]:
    return {name for names in table.arrays.values() for name in names}  # type: ignore[attr-defined]


def test_where_other_strategies_are_much_faster_it_is_written(tmp_path: Path) -> None:
    """Matrix units compute convolutions of many channels, and do not spread windows."""
    made = decisions(lowered(model_of(tmp_path, 512, 512)))
    assert made["conv2d_1.biased.grad"] == ("written whole", "strategies that spread windows take longer")


def test_large_windows_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_choices, "MOST", 20)
    made = decisions(lowered(model_of(tmp_path)))
    assert [verdict for verdict, _ in made.values()] == ["written whole", "spread where it is read"]


def test_a_pinned_strategy_reads_what_it_was_measured_with(tmp_path: Path) -> None:
    model = model_of(tmp_path)
    graph = lowered(model, OTHERS).tensors[0]
    tensors = l1.tensors_of(graph.nodes)
    (node,) = (n for n in graph.nodes if isinstance(n, l1.Contract) and n.out.name == "conv2d_1.weight.grad")
    digest = problem_digest(node, tensors, 0, 4, model.numerics.order)
    pin = Pin(digest, "implicit_gemm", "model.lock", 1.0)
    made = decisions(lowered(model, pins={"train/conv2d_1.weight.grad": pin}))
    assert [verdict for verdict, _ in made.values()] == ["spread where it is read", "written whole"]
    spread = {name: replace(t, windows=(1, 1, 2, 2)) for name, t in tensors.items()}
    assert problem_digest(node, spread, 0, 4, model.numerics.order) != digest


def test_bits_of_declared_orders_and_bf16_are_left(tmp_path: Path) -> None:
    model = model_of(tmp_path)
    for changed in ({"order": "bitwise"}, {"precision": "mixed"}):
        assert decisions(lowered(replace(model, numerics=replace(model.numerics, **changed)))) == {}


def test_what_spreads_a_gradient_later_still_needs_it() -> None:
    """An elementwise result does not overwrite the elements of windows, though their own reader is before it."""
    x, y, places = l1.Tensor("x", (4, 6)), l1.Tensor("y", (4, 6)), l1.Tensor("places", (4, 6))
    same = ((0, 1),)
    spread = l1.Contract(l1.Tensor("d", (4, 12), windows=(1, 2)), (), (), ("x", "places"), ((), ()), Ref("x0"))
    late = l1.Contract(l1.Tensor("sum", (4,)), (), (), ("d",), ((),), Ref("x0"))
    of = {n: l1.Map(t, ("feed",), same, Ref("x0")) for n, t in (("x", x), ("places", places))}
    last = l1.Map(y, ("x",), same, Ref("x0") + 1)
    groups = {m.out.name: Epilogue((m,), frozenset({m.out.name})) for m in (*of.values(), last)}
    first = l1.Feed(l1.Tensor("feed", (4, 6)), "feed", 1.0)
    assert reused((first, *of.values(), last, late), (), {}, {}, groups, {})[0] == {"y": "x"}
    assert reused((first, *of.values(), spread, last, late), (), {}, {}, groups, {})[0] == {}


# ------------------------------------------------------------------------------------- what is staged


PROGRAM = """
#include <algorithm>
#include <cstdio>
#include <vector>
using std::min;
typedef float real; typedef int nl_i32; typedef unsigned nl_u32; typedef long long nl_i64;
#define NL_FN inline
#define NL_UNROLL
struct place { unsigned x; } threadIdx;
template <class T> T __ldg(const T *x) { return *x; }
template <class T> T *nl_global(T *x) { return x; }
"""
MAIN = """
int main() {{
    int g[11];
    if (fread(g, 4, 11, stdin) != 11) return 1;
    const int n = g[0], c = g[1], valid = g[2], samples = g[3], row = g[4], rows = g[5], col = g[6], pitch = g[7];
    const int all_n = g[8], all_c = g[9], all = all_n * all_c * {high} * {wide}, few = all / {size};
    std::vector<real> x(few), places(few), tile(g[10] * samples * rows * pitch, -1);
    if (fread(x.data(), 4, few, stdin) + fread(places.data(), 4, few, stdin) != 2 * few) return 1;
    nl_image image{{x.data(), all_c * {high} * {wide}, {high} * {wide}, {wide}, 1, all_n, all_c, {high}, {wide}}};
    image.places = places.data();
    for (threadIdx.x = 0; threadIdx.x < 256; threadIdx.x++)
        nl_stage_windows<{down}, {along}>(tile.data(), image, n, c, valid, samples, row, rows, col, pitch, g[10],
                                        nl_lines_of(nl_windows_along<{along}>(col, pitch)));
    fwrite(tile.data(), 4, tile.size(), stdout);
}}
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that stages windows of 2 x 2 of images of 10 x 12 as a block does, thread after thread."""
    folder = tmp_path_factory.mktemp("stage")
    text = CudaBackend().emit(lowered(model_of(folder)).merged)
    begin, end = text.index("struct nl_image {"), text.index("/* Elements of a staged line under")
    functions = text[begin:end]
    cut = (
        functions.index("/* Of so many neighbours is a copy"),
        functions.index("/* nl_stage_image for an image of windows"),
    )
    functions = functions[: cut[0]] + functions[cut[1] :]
    (folder / "stage.cpp").write_text(
        PROGRAM + functions + MAIN.format(high=10, wide=12, size=4, down=2, along=2), encoding="utf-8"
    )
    compiler = shutil.which("g++")
    assert compiler is not None
    subprocess.run([compiler, "-std=c++17", "-w", "-o", folder / "stage", folder / "stage.cpp"], check=True)
    return folder / "stage"


@pytest.mark.parametrize(
    ("row", "rows", "col", "pitch", "n", "samples", "c", "valid", "channels"),
    diagonal(
        together([(0, 10, 0, 12), (-3, 9, -1, 20), (3, 4, 5, 4), (7, 8, -4, 28), (-4, 18, 0, 12)]),
        together([(0, 1, 0, 3, 3), (1, 2, 1, 2, 4)]),
    ),
)
def test_windows_are_spread_where_they_are_staged(
    stage: Path, row: int, rows: int, col: int, pitch: int, n: int, samples: int, c: int, valid: int, channels: int
) -> None:
    """Whatever windows the tile cuts; 0 outside the image, of channels that are not valid and samples that are none."""
    random = np.random.default_rng(rows)
    x = random.integers(1, 9, (2, 3, 5, 6)).astype(np.float32)
    places = random.integers(0, 4, x.shape).astype(np.float32)
    whole = np.zeros((2, 3, 10, 12), np.float32)
    for r in range(2):
        for s in range(2):
            whole[:, :, r::2, s::2] = np.where(places == 2 * r + s, x, 0)
    wanted = np.zeros((channels, samples, rows, pitch), np.float32)
    for q, b, i, j in np.ndindex(wanted.shape):
        if q < valid and n + b < 2 and 0 <= row + i < 10 and 0 <= col + j < 12:
            wanted[q, b, i, j] = whole[n + b, c + q, row + i, col + j]
    numbers = struct.pack("11i", n, c, valid, samples, row, rows, col, pitch, 2, 3, channels)
    given = numbers + x.tobytes() + places.tobytes()
    made = subprocess.run([stage], input=given, capture_output=True, check=True).stdout
    np.testing.assert_array_equal(np.frombuffer(made, np.float32).reshape(wanted.shape), wanted)

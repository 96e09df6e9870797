"""Large batches of activations on a GPU: variances from one pass, packed windows, sums over windows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.load import CudaInstance
from compiler.frontend.load import load_model
from compiler.passes import passes_for
from compiler.passes.pipeline.lower import lower

pytestmark = pytest.mark.gpu

BATCH = 64
MODEL = """
language: 1
name: large
network:
  inputs:
    x: {{shape: [{channels}, {size}, {size}]}}
    label: {{shape: [], dtype: int32}}
  layers:
{layers}
    - global_avg_pool: {{}}
    - dense: {{name: logits, units: 10}}
numerics: {{precision: {precision}}}
train:
  data: {{file: data.npz, inputs: {{x: x, label: label}}}}
  loss: {{softmax_cross_entropy: {{logits: logits, target: label}}}}
  optimizer: {{sgd: {{learning_rate: 0.1}}}}
  batch: 64
  epochs: 1
  seed: 1
"""
CONV = """
    - conv2d: {inputs: x, filters: 64, kernel: KERNEL, stride: STRIDE, padding: 3, bias: false}
    - batch_norm: {}
    - activation: {function: relu}
    - max_pool2d: {size: 3, stride: 2, padding: 1}
    - conv2d: {filters: 64, kernel: 3, padding: 1, bias: false}"""


def trained(
    folder: Path,
    text: str,
    x: np.ndarray,
    without: frozenset[str] = frozenset(),
    rows: int = BATCH,
    given: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> tuple[CudaInstance, set[str]]:
    """After one step of the first `rows` samples, with all optional passes but these, from `given` weights; and what
    the passes decided."""
    folder.mkdir()
    np.savez(folder / "data.npz", x=x, label=np.arange(len(x), dtype=np.int32) % 10)
    (folder / "large.yaml").write_text(text, encoding="utf-8")
    backend = CudaBackend()
    only = frozenset(p.name for p in passes_for()) - without
    lowered = lower(load_model(folder / "large.yaml", {}), backend.capabilities, True, only=only)
    instance = backend.load(backend.build(lowered.merged, folder / "build", {}), lowered.merged, 3)
    shape = next(a.shape for a in lowered.merged.arrays if a.name == "train.order")
    order = np.full(shape, -1, np.int32)
    order[:, :rows] = np.arange(rows)
    instance.write("train.order", order)
    for name, values in given.items():
        instance.write(name, values)
    assert instance.run("train", 1, 1) == 1
    decided = {f"{d.pass_name}: {d.verdict}" for d in lowered.decisions}
    decided |= {f"{d.pass_name}: {d.subject} {d.verdict}" for d in lowered.decisions}
    return instance, decided


@pytest.mark.parametrize(("offset", "rows"), [(0.0, 64), (3e3, 50), (-1e5, 64)])
@pytest.mark.parametrize(
    ("size", "way"), [(40, "shift_variances: shifted"), (5, "fuse_rows: train: batch_norm_1.square fused")]
)
def test_variance_far_from_zero(tmp_path: Path, offset: float, rows: int, size: int, way: str) -> None:
    """As accurate as by two passes, where the mean is many standard deviations: in one pass, and in one kernel."""
    random = np.random.default_rng(1)
    x = (random.standard_normal((BATCH, 16, size, size)) * 2 + offset).astype(np.float32)
    x[0] += 7  # the first sample is unlike the others
    text = MODEL.format(channels=16, size=size, layers="    - batch_norm: {inputs: x}", precision="float32")
    instance, decided = trained(tmp_path / "a", text, x, rows=rows)
    assert way in decided
    mean, var = (instance.read(f"batch_norm_1.running_{n}").astype(np.float64) for n in ("mean", "var"))
    instance.close()
    exact = x[:rows].astype(np.float64).transpose(1, 0, 2, 3).reshape(16, -1)
    np.testing.assert_allclose(mean, 0.1 * exact.mean(1), rtol=1e-6, atol=1e-6)
    rounded = 0.1 * (offset * 2.0**-22) ** 2 if size == 5 else 0.0  # the mean, from which two passes sum squares
    np.testing.assert_allclose(var, 0.9 + 0.1 * exact.var(1, ddof=1), rtol=2e-6, atol=rounded)


@pytest.mark.parametrize(
    ("kernel", "stride", "size", "channels"), [(7, 2, 64, 3), (5, 2, 47, 4), (7, 2, 63, 3), (3, 1, 48, 3)]
)
def test_packed_windows(tmp_path: Path, kernel: int, stride: int, size: int, channels: int) -> None:
    """Results and gradients of a convolution of few channels, packed and as it is."""
    x = np.random.default_rng(2).standard_normal((BATCH, channels, size, size)).astype(np.float32)
    layers = CONV.replace("KERNEL", str(kernel)).replace("STRIDE", str(stride))
    text = MODEL.format(channels=channels, size=size, layers=layers, precision="mixed")
    found = []
    for name, without in (("with", frozenset[str]()), ("without", frozenset({"pack_windows", "shift_variances"}))):
        instance, decided = trained(tmp_path / name, text, x, without)
        assert ("pack_windows: packed" in decided) == (not without), decided
        names = ("conv2d_1.weight", "conv2d_2.weight", "batch_norm_1.running_var", "train/loss")
        found.append([instance.read(n) for n in names])
        instance.close()
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


IDENTITY = """
    - conv2d: {{inputs: x, filters: {channels}, kernel: {kernel}, padding: {padding}, groups: {groups}, bias: false}}
    - batch_norm: {{}}
    - activation: {{function: relu}}
    - conv2d: {{filters: 128, kernel: 3, stride: {stride}, padding: 1, bias: false}}
    - batch_norm: {{}}
    - activation: {{function: relu}}"""
"""The first convolution has the identity as its weights."""


@pytest.mark.parametrize("offset", [0.0, -40.0])
@pytest.mark.parametrize(
    ("channels", "size", "kernel", "stride", "rows", "groups"),
    [
        (64, 20, 1, 2, 64, 1),
        (64, 13, 3, 1, 50, 1),
        (512, 4, 3, 2, 64, 1),
        (256, 6, 1, 1, 33, 1),
        (512, 7, 3, 1, 64, 1),
        (24, 20, 3, 1, 64, 1),  # these fill no tile
        (96, 20, 1, 2, 50, 1),
        (40, 13, 3, 1, 64, 1),
        (168, 9, 1, 1, 33, 1),
        (64, 12, 3, 1, 64, 64),
        (96, 10, 3, 2, 50, 96),
    ],
)
def test_sums_in_tiles(
    tmp_path: Path, channels: int, size: int, kernel: int, stride: int, rows: int, groups: int, offset: float
) -> None:
    """Statistics of a batch norm are those of what is stored, in float64; gradients are those of separate sums."""
    random = np.random.default_rng(5)
    x = (random.standard_normal((BATCH, channels, size, size)) + offset).astype(np.float32)
    layers = IDENTITY.format(channels=channels, kernel=kernel, padding=kernel // 2, stride=stride, groups=groups)
    text = MODEL.format(channels=channels, size=size, layers=layers, precision="mixed")
    weights = np.zeros((channels, channels // groups, kernel, kernel), np.float32)
    weights[:, :, kernel // 2, kernel // 2] = np.eye(channels) if groups == 1 else 1
    found = []
    names = [f"batch_norm_{n}.{of}" for n in (1, 2) for of in ("weight", "bias", "running_mean", "running_var")]
    for name, without in (("with", frozenset[str]()), ("without", frozenset({"sum_in_tiles"}))):
        given = {"conv2d_1.weight": weights}
        instance, decided = trained(tmp_path / name, text, x, without, rows, given)
        sums = [d for d in decided if d.startswith("sum_in_tiles: train: ")]
        assert len(sums) == (0 if without else 4) and not any("not" in d for d in sums), decided
        found.append({n: instance.read(n) for n in names})
        instance.close()
    stored = (x.view(np.uint32).astype(np.uint64) + 0x7FFF + (x.view(np.uint32) >> 16 & 1) >> 16 << 16).astype(
        np.uint32
    )
    exact = stored.view(np.float32)[:rows].astype(np.float64).transpose(1, 0, 2, 3).reshape(channels, -1)
    ours, others = found
    np.testing.assert_allclose(ours["batch_norm_1.running_mean"], 0.1 * exact.mean(1), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(ours["batch_norm_1.running_var"], 0.9 + 0.1 * exact.var(1, ddof=1), rtol=1e-6)
    for n in names:
        start = float(n.endswith("weight"))
        np.testing.assert_allclose(ours[n] - start, others[n] - start, rtol=2e-3, atol=2e-5, err_msg=n)

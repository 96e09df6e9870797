"""Models of models/ on opencl: the bits of the reference in simulations, trainings, trials, predictions and
evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from netloom import evaluate, load, predict, run
from tests.construct_runs import stored_results

pytestmark = pytest.mark.usefixtures("device")
QUICK = {"cuba": "20 ms", "stdp": "20 ms"}
SIMULATED = {
    "cuba": "100 ms",
    "stdp": "100 ms",
    "brunel": "20 ms",
    "izhikevich_patterns": "100 ms",
    "spiking_conv": "50 ms",
    "pooled_inhibition": "100 ms",
    "tied_stdp": "50 ms",
    "distal_reward": "20 ms",
    "polychronization": "50 ms",
    "synfire": "20 ms",
    "population_bursts": "20 ms",
    "ring_10k": "5 ms",
    "microcircuit": "5 ms",
}
TRAINED = [
    "mlp",
    "custom_optimizer",
    "lenet_digits",
    "mobile_digits",
    "lstm",
    "autoencoder",
    "transformer",
    "reservoir",
    "convnet_l5",
]
ON_THE_WAY = ("'spikes", "'spike_count")
"""Lists of events: their order, and what older slots hold, belong to a target."""


def stored(folder: Path) -> dict[str, Any]:
    """All that a run has written: records, checkpoints, weights."""
    found = stored_results(folder)
    for path in sorted(folder.rglob("*.safetensors")):
        found |= {f"{path.name}/{name}": values for name, values in load_file(path).items()}
    return {name: values for name, values in found.items() if not name.endswith(ON_THE_WAY)}


def assert_equal_runs(root: Path, folder: Path, name: str, **options: Any) -> None:
    runs = {}
    for target in ("opencl", "reference"):
        out = folder / target
        more = {"order": "bitwise", "plots": False, "build_dir": folder / f"b-{target}", **options}
        run(root / f"models/{name}.yaml", target, out=out, **more)
        runs[target] = stored(out)
    assert len(runs["opencl"]) > 2
    assert runs["opencl"].keys() == runs["reference"].keys()
    for key, values in runs["opencl"].items():
        np.testing.assert_array_equal(values, runs["reference"][key], err_msg=key)


@pytest.mark.parametrize("name", QUICK)
def test_a_simulation(root: Path, tmp_path: Path, name: str) -> None:
    assert_equal_runs(root, tmp_path, name, duration=QUICK[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_simulations(root: Path, tmp_path: Path, name: str) -> None:
    assert_equal_runs(root, tmp_path, name, duration=SIMULATED[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_trainings(root: Path, tmp_path: Path, name: str) -> None:
    """An epoch, of `reservoir` over trials of a spiking network."""
    assert_equal_runs(root, tmp_path, name, epochs=1)


NETWORK = """language: 1
name: small
network:
  inputs: {image: {shape: [1, 8, 8]}, label: {shape: [], dtype: int32}}
  layers:
    - conv2d: {inputs: image, filters: 4, kernel: 3, padding: same, activation: relu}
    - max_pool2d: {size: 2}
    - batch_norm: {}
    - dropout: {rate: 0.2}
    - flatten: {}
    - dense: {name: logits, units: 3}
train:
  data: {file: samples.npz, inputs: {image: images, label: labels}, split: {validation: 0.2}}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  metrics: [accuracy]
  optimizer: {adam: {learning_rate: 0.01}}
  batch: 8
  epochs: 4
  seed: 5
numerics: {order: bitwise}
"""


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A small model with data that can be learned: the class is the brightest third of the image."""
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(60, 1, 8, 8)).astype(np.float32), rng.integers(0, 3, 60).astype(np.int32)
    images[np.arange(60), 0, 2 * labels] += 3
    np.savez(tmp_path / "samples.npz", images=images, labels=labels)
    path = tmp_path / "small.yaml"
    path.write_text(NETWORK, encoding="utf-8")
    return path


def test_training_prediction_and_evaluation(network: Path) -> None:
    """A convolution with its gradients, pooling, normalisation, dropout, an optimizer: the weights after four epochs,
    and what the trained network predicts and how good it is."""
    runs, images = {}, np.load(network.parent / "samples.npz")["images"]
    for target in ("opencl", "reference"):
        out, build = network.parent / target, {"build_dir": network.parent / f"b-{target}"}
        run(network, target, out=out, **build)  # type: ignore[arg-type]
        outputs = predict(out, {"image": images}, target)
        runs[target] = stored(out) | outputs, evaluate(out, target=target)
    (ours, measured), (theirs, others) = runs["opencl"], runs["reference"]
    assert measured == others and measured["accuracy"] > 0.6
    assert ours.keys() == theirs.keys() and "logits" in ours
    for key, values in ours.items():
        np.testing.assert_array_equal(values, theirs[key], err_msg=key)


def test_a_run_goes_on_where_it_stopped(root: Path, tmp_path: Path) -> None:
    """Resumed from a checkpoint, a run has the state of one that was not interrupted."""
    path, options = root / "models/cuba.yaml", {"order": "bitwise", "build_dir": tmp_path / "build", "plots": False}
    run(path, "opencl", out=tmp_path / "half", duration="10 ms", **options)  # type: ignore[arg-type]
    run(path, "opencl", out=tmp_path / "rest", duration="20 ms", resume=tmp_path / "half", **options)  # type: ignore[arg-type]
    run(path, "opencl", out=tmp_path / "whole", duration="20 ms", **options)  # type: ignore[arg-type]
    name = "checkpoints/step-0000000200.safetensors"
    rest, whole = (load_file(tmp_path / folder / name) for folder in ("rest", "whole"))
    assert rest.keys() == whole.keys()
    for key in (k for k in whole if not k.endswith(ON_THE_WAY)):
        np.testing.assert_array_equal(rest[key], whole[key], err_msg=key)


def test_a_simulation_piece_by_piece(root: Path) -> None:
    """Values can be read and written between the pieces; the rest is as on the reference."""
    found = {}
    for target in ("opencl", "reference"):
        with load(root / "models/stdp.yaml").simulation(target=target, order="bitwise") as s:
            s.run("0.5 ms")
            s["output"].v = s["output"].v + 15
            s.projections["plastic"].w[:10] = 0.005
            s.run(steps=10)
            assert s.step == 15
            found[target] = (np.array(s["output"].v), np.array(s.projections["plastic"].w), s["output"].spikes)
    for ours, theirs in zip(found["opencl"], found["reference"], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_mixed_precision(root: Path, tmp_path: Path) -> None:
    """Values are rounded to bf16 as on the CPU; sums may have another order."""
    found = []
    for target in ("opencl", "cpu"):
        result = run(root / "models/mlp.yaml", target, out=tmp_path / target, epochs=1, plots=False, precision="mixed",
                     build_dir=tmp_path / f"b-{target}")  # fmt: skip
        found.append(result.weights())
    for name, values in found[0].items():
        assert np.linalg.norm(values - found[1][name]) < 1e-2 * np.linalg.norm(values), name

"""Trainings whose samples are trials of populations: known answers of what the network reads, each trial begins anew,
batches, noise, resuming, use of the results, and the readout's training against NumPy."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.core.diagnostics import ModelError, RunError
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower
from compiler.runtime.training.data import epoch_order, split
from netloom import check, evaluate, export, load, predict, run
from tests.cpu.test_run_training import rows, same_training
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")

WHOLE = """\
language: 1
name: whole
network:
  inputs: {frames: {shape: [4, 3]}, label: {shape: [], dtype: int32}, summed: {from: b, of: v, every: 4 ms}}
  layers:
    - slice: {name: f, inputs: frames, to: 4}
    - flatten: {inputs: summed}
    - dense: {name: logits, units: 2}
neurons:
  sum: {params: {x: 0}, state: {v: 0}, update: [v = v + x]}
populations: {b: {neuron: sum, size: 3, params: {x: "0.5 * pattern(t, i)"}}}
timed: {pattern: {layer: LAYER}}
simulate: {dt: 1 ms, duration: 16 ms, seed: 4}
train:
  data: {file: data.npz, inputs: {frames: frames, label: label}}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: {sgd: {learning_rate: 0.01}}
  batch: 3
  epochs: 2
"""

COUNTING = """\
language: 1
name: counting
network:
  inputs:
    image: {shape: [3]}
    frames: {shape: [4, 3]}
    label: {shape: [], dtype: int32}
    counted: {from: a, of: spikes, every: 4 ms}
    all_spikes: {from: a, of: spikes}
    hertz: {from: a, of: rate, every: 8 ms}
    left: {from: a, of: v, every: 8 ms}
    summed: {from: b, of: v, every: 4 ms}
    arrived: {from: c, of: g, every: 1 ms}
  layers:
    - map: {doubled: 2 * image}
    - flatten: {name: f_counted, inputs: counted}
    - flatten: {name: f_all, inputs: all_spikes}
    - flatten: {name: f_hertz, inputs: hertz}
    - flatten: {name: f_left, inputs: left}
    - flatten: {name: f_summed, inputs: summed}
    - flatten: {name: f_arrived, inputs: arrived}
    - concat: {inputs: [f_counted, f_all, f_hertz, f_left, f_summed, f_arrived]}
    - dense: {name: logits, units: 2}
neurons:
  counter:
    params: {I: 0}
    state: {v: 0}
    update: [v = v + I]
    spike: {when: v >= 1, reset: [v = v - 1]}
  sum: {params: {x: 0}, state: {v: 0}, update: [v = v + x]}
  relay: {inputs: {g: {}}, state: {seen: 0}, update: [seen = g]}
populations:
  a: {neuron: counter, size: 3}
  b: {neuron: sum, size: 3, params: {x: "0.5 * pattern(t, i)"}}
  c: {neuron: relay, size: 3}
projections:
  late: {from: a, to: c, connect: {one_to_one: {}}, deliver: {into: g, weight: 1}, delay: 3 ms}
timed: {pattern: {layer: frames}}
inputs:
  drive: {to: a, current: {into: I, source: {layer: doubled}}}
simulate: {dt: 1 ms, duration: 16 ms, seed: 4}
train:
  data: {file: data.npz, inputs: {image: image, frames: frames, label: label}, shuffle: false, SPLIT}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  metrics: [accuracy]
  optimizer: {sgd: {learning_rate: 0.01}}
  batch: BATCH
  epochs: 1
numerics: {precision: float32, order: bitwise}
"""
STEPS, SAMPLES = 16, 11


def data_of(folder: Path, samples: int = SAMPLES) -> dict[str, np.ndarray]:
    """Samples in eighths, with which sums are exact."""
    rng = np.random.default_rng(7)
    found = {
        "image": (rng.integers(0, 4, (samples, 3)) / 8).astype(np.float32),
        "frames": (rng.integers(-8, 9, (samples, 4, 3)) / 8).astype(np.float32),
        "label": rng.integers(0, 2, samples).astype(np.int32),
    }
    np.savez(folder / "data.npz", **found)  # type: ignore[arg-type]
    return found


def write(folder: Path, text: str, batch: int = 4, split: str = "memory: 1 GB") -> Path:
    path = folder / "model.yaml"
    path.write_text(text.replace("BATCH", str(batch)).replace("SPLIT", split), encoding="utf-8")
    return path


def counted(current: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Spikes of a neuron that adds up `current` and gives one off for each whole: (samples, ends, neurons)."""
    return np.floor(current[:, None, :] * ends[None, :, None])


LAYERS = ("f_counted", "f_all", "f_hertz", "f_left", "f_summed", "f_arrived")


def expected(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    current = 2 * data["image"]
    by_step = np.diff(counted(current, np.arange(STEPS + 1)), axis=1)
    late = np.zeros_like(by_step)
    late[:, 3:] = by_step[:, :-3]
    found = {
        "f_counted": by_step.reshape(-1, 4, 4, 3).sum(2),
        "f_all": by_step.sum(1),
        "f_hertz": by_step.reshape(-1, 2, 8, 3).sum(2) * 125.0,
        "f_left": (current[:, None] * np.array([8, 16])[:, None]) % 1.0,
        "f_summed": np.cumsum(0.5 * data["frames"] * 4, axis=1),
        "f_arrived": late,
    }
    return {n: v.reshape(len(current), -1).astype(np.float32) for n, v in found.items()}


@pytest.mark.parametrize(("target", "batch"), diagonal(["cpu", "reference"], [1, 4]))
def test_what_the_network_reads(here: Path, batch: int, target: str) -> None:
    """Spikes in frames and in all, a rate in Hz, a state at the ends of frames, and spikes that arrive 3 ms later:
    those that are under way when a trial ends are forgotten. The last batch is not full."""
    data = data_of(here)
    result = run(write(here, COUNTING, batch), target)
    samples = {n: data[n] for n in ("image", "frames")}
    found = predict(result.folder, samples, target, layers=LAYERS)
    for name, values in expected(data).items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert found["f_arrived"].any() and found["f_arrived"].reshape(SAMPLES, STEPS, 3)[:, -3:].any()


def test_targets_train_the_same_bits(here: Path) -> None:
    data_of(here)
    path = write(here, COUNTING, 4, "split: {validation: 0.3}")
    cpu, reference = run(path, "cpu", out="cpu", epochs=2), run(path, "reference", out="reference", epochs=2)
    assert rows(cpu) == rows(reference)
    assert all(np.array_equal(v, reference.weights()[n]) for n, v in cpu.weights().items())


NOISY = """\
language: 1
name: noisy
network:
  inputs:
    image: {shape: [64]}
    label: {shape: [], dtype: int32}
    activity: {from: res, of: spikes, every: 20 ms}
  layers:
    - flatten: {name: features, inputs: activity}
    - dense: {name: logits, units: 10}
neurons:
  cell:
    params: {tau: 20 ms, I: 0 mV}
    inputs: {g: {unit: mV, decay: 3 ms}}
    state: {v: 0 mV}
    dynamics: {dv/dt: (I + g - v) / tau}
    spike: {when: v > 15 mV, reset: [v = 0 mV], refractory: 2 ms}
synapses:
  depressing:
    params: {w: 0 mV, u: 0.5}
    state: {x: 1}
    dynamics: {dx/dt: (1 - x) / (50 ms)}
    on_pre: [deliver(w * u * x), x = x * (1 - u)]
populations:
  res:
    neuron: cell
    size: 64
    params: {tau: {uniform: {low: 10 ms, high: 30 ms}}}
    init: {v: {uniform: {low: 0 mV, high: 10 mV}}}
projections:
  fixed:
    {from: res, to: res, connect: {fixed_indegree: {number: 8}},
     delay: {uniform: {low: 1 ms, high: 6 ms, round: nearest}},
     deliver: {into: g, weight: {normal: {mean: 0 mV, std: 2 mV}}}}
  moving:
    {from: res, to: res, connect: {fixed_indegree: {number: 4}}, delay: 1 ms, deliver: {into: g},
     synapse: depressing, params: {w: {normal: {mean: 2 mV, std: 1 mV}}}}
inputs:
  pixels: {to: res, current: {into: I, source: {layer: image, unit: mV}}}
  NOISE
simulate: {dt: 1 ms, duration: 40 ms, seed: 4}
train:
  data: {file: digits.npz, inputs: {image: flat, label: labels}, scale: {image: 2.5}, split: {validation: 0.2}}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  metrics: [accuracy]
  optimizer: {adam: {learning_rate: 0.01}}
  batch: 24
  epochs: 3
  seed: 2
numerics: {precision: float32, order: bitwise}
"""
POISSON = "noise: {to: res, poisson: {rate: 300 Hz, into: g, weight: 2 mV}}"


@pytest.fixture
def digits(here: Path, root: Path) -> np.ndarray:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    return np.load(here / "digits.npz")["flat"].astype(np.float32) * np.float32(2.5)


def noisy(folder: Path, noise: str = "") -> Path:
    return write(folder, NOISY.replace("NOISE", noise))


def test_trials_do_not_depend_on_their_place(here: Path, digits: np.ndarray) -> None:
    """What is drawn at the start (time constants, initial values, synapses) is the same for all samples, so that a
    trial gives the same bits wherever it runs, and whatever ran before."""
    result = run(noisy(here), epochs=1)
    some = digits[:60] / 2.5
    found = predict(result.folder, some, layers="features")["features"]
    assert found.sum() > 1000 and len(np.unique(found, axis=0)) > 55
    order = np.random.default_rng(1).permutation(60)
    np.testing.assert_array_equal(predict(result.folder, some[order], layers="features")["features"], found[order])
    same = predict(result.folder, np.repeat(some[:1], 30, axis=0), layers="features")["features"]
    assert len(np.unique(same, axis=0)) == 1
    np.testing.assert_array_equal(same[0], found[0])


def test_noise_differs_between_trials_and_repeats_itself(here: Path, digits: np.ndarray) -> None:
    result = run(noisy(here, POISSON), epochs=1)
    same = np.repeat(digits[:1] / 2.5, 72, axis=0)
    found = predict(result.folder, same, layers="features")["features"]
    assert len(np.unique(found, axis=0)) > 30  # few neurons spike, so that some trials are equal
    assert (found[:24] != found[24:48]).any(1).sum() > 20
    np.testing.assert_array_equal(predict(result.folder, same, layers="features")["features"], found)


def test_evaluate_gives_the_numbers_of_the_validation(here: Path, digits: np.ndarray) -> None:
    result = run(noisy(here, POISSON))
    last = result.history()[-1]
    assert evaluate(result.folder) == {k: last[f"validation_{k}"] for k in ("loss", "accuracy")}
    assert last["validation_accuracy"] > 0.8
    assert evaluate(result.folder, here / "digits.npz")["accuracy"] > 0.8


def test_a_resumed_training_is_the_whole_one(here: Path, digits: np.ndarray) -> None:
    path = noisy(here, POISSON)
    whole = run(path, out="whole")
    part = run(path, out="part", epochs=1)
    same_training(run(path, out="rest", resume=part.folder), whole)


def adam(
    parameters: list[np.ndarray], gradients: list[np.ndarray], state: dict[str, list[np.ndarray]], step: int
) -> None:
    """Kingma and Ba 2015, algorithm 1, in place."""
    for k, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
        m, v = state["m"][k], state["v"][k]
        m += 0.1 * (g - m)
        v += 0.001 * (g * g - v)
        p -= 0.01 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)


def test_the_readout_is_trained_as_in_numpy(here: Path, digits: np.ndarray) -> None:
    """Softmax regression by Adam on the features that `predict` gives, with the same first weights and batches, in
    float64: weights agree to 1e-4 after three epochs (of weights up to 1), the accuracy to 0.5 points."""
    path = noisy(here)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("learning_rate: 0.01", "learning_rate: 0"), encoding="utf-8")
    start = run(path, epochs=1)
    first = start.weights()
    path.write_text(text, encoding="utf-8")
    result = run(path)
    labels = np.load(here / "digits.npz")["labels"]
    features = predict(result.folder, digits / 2.5, layers="features")["features"].astype(np.float64)
    w, b = first["logits.weight"].astype(np.float64), first["logits.bias"].astype(np.float64)
    state = {n: [np.zeros_like(w), np.zeros_like(b)] for n in ("m", "v")}
    trained, kept = split(len(labels), 0.2, 2)
    step = 0
    for epoch in range(1, 4):
        order = epoch_order(trained, 2, epoch, True)
        for at in range(0, len(order), 24):
            chosen = order[at : at + 24]
            x, step = features[chosen], step + 1
            scores = x @ w.T + b
            p = np.exp(scores - scores.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(chosen)), labels[chosen]] -= 1
            adam([w, b], [p.T @ x / len(chosen), p.mean(0)], state, step)
    found = result.weights()
    np.testing.assert_allclose(found["logits.weight"], w, atol=1e-4)
    np.testing.assert_allclose(found["logits.bias"], b, atol=1e-4)
    accuracy = ((features[kept] @ w.T + b).argmax(1) == labels[kept]).mean()
    assert abs(accuracy - result.metrics["validation_accuracy"]) <= 0.005
    assert accuracy > 0.85


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_layer_of_whole_numbers_drives(here: Path, target: str) -> None:
    """What a population is driven by may be whole numbers of the data, moved or not, as if they were real ones."""
    rng = np.random.default_rng(2)
    np.savez(here / "data.npz", frames=rng.integers(0, 3, (7, 4, 3)), label=rng.integers(0, 2, 7))
    for name, frames, layer in (("real", "[4, 3]}", "f"), ("whole", "[4, 3], dtype: int32}", "f"),
                                ("input", "[4, 3], dtype: int32}", "frames")):  # fmt: skip
        (here / f"{name}.yaml").write_text(WHOLE.replace("[4, 3]}", frames).replace("LAYER", layer))
    found = {n: run(f"{n}.yaml", target=target).weights() for n in ("real", "whole", "input")}
    assert np.abs(found["real"]["logits.weight"]).sum() > 0
    for name in ("whole", "input"):
        for key, value in found["real"].items():
            assert found[name][key].tobytes() == value.tobytes(), (name, key)


def test_a_layer_that_drives_keeps_its_weights(here: Path, digits: np.ndarray) -> None:
    """It is not trained, and a warning says so unless it is frozen; its weights are in the results."""
    text = NOISY.replace("NOISE", "").replace("BATCH", "24")
    text = text.replace("layers:\n", "layers:\n    - dense: {name: encoder, inputs: image, units: 64}\n")
    text = text.replace("layer: image", "layer: encoder")
    path = here / "model.yaml"
    path.write_text(text, encoding="utf-8")
    assert [d.code for d in check(path)] == ["W0006"]
    first, second = run(path, out="first", epochs=1).weights(), run(path, out="second", epochs=3).weights()
    assert first["encoder.weight"].shape == (64, 64) and first["encoder.weight"].std() > 0.05
    np.testing.assert_array_equal(first["encoder.weight"], second["encoder.weight"])
    assert not np.array_equal(first["logits.weight"], second["logits.weight"])
    path.write_text(text.replace("  batch:", "  groups: [{of: encoder, frozen: true}]\n  batch:"), encoding="utf-8")
    assert not check(path)


def test_a_driving_layer_that_is_trained_elsewhere_drives_with_its_new_weights(here: Path, digits: np.ndarray) -> None:
    """An encoder that a second head trains: what it drives in epoch 2 is of the weights after epoch 1."""
    text = NOISY.replace("NOISE", "")
    text = text.replace("layers:\n", "layers:\n    - dense: {name: encoder, inputs: image, units: 64}\n")
    text = text.replace("layer: image", "layer: encoder")
    text = text.replace("name: logits, units: 10", "name: scores, units: 10")
    text = text.replace(
        "    - dense: {name: scores, units: 10}\n",
        "    - dense: {name: scores, units: 10}\n    - dense: {name: other, inputs: encoder, units: 10}\n"
        "    - add: {name: logits, inputs: [scores, other]}\n",
    )
    path = here / "model.yaml"
    path.write_text(text, encoding="utf-8")
    assert not check(path)
    result = run(path)
    last = result.history()[-1]
    assert evaluate(result.folder) == {k: last[f"validation_{k}"] for k in ("loss", "accuracy")}
    some = digits[:24] / 2.5
    trained = predict(result.folder, some, layers=("encoder", "features"))
    begun = predict(run(path, out="one", epochs=1).folder, some, layers=("encoder", "features"))
    assert not np.array_equal(trained["encoder"], begun["encoder"])
    assert not np.array_equal(trained["features"], begun["features"])


def test_uses_that_are_refused(here: Path, digits: np.ndarray) -> None:
    path = noisy(here)
    result = run(path, epochs=1)
    with pytest.raises(RunError, match="24 of them run at a time"):
        predict(result.folder, digits[:3], batch=3)
    with pytest.raises(RunError, match="there is no one simulation to step"):
        load(path).simulation()
    with pytest.raises(RunError, match="--duration would change the length of a trial"):
        run(path, duration="20 ms")
    with pytest.raises(ModelError, match="which an ONNX file cannot compute"):
        export(result.folder)


def test_text_does_not_depend_on_batch_and_size(here: Path, digits: np.ndarray) -> None:
    """Instances are rows: the text is the same for 24 and 48 samples at a time, and for 64 and 128 neurons."""
    texts = []
    for batch, size in ((24, 64), (48, 64), (24, 128)):
        text = NOISY.replace("NOISE", POISSON).replace("size: 64", f"size: {size}")
        text = text.replace("layers:\n", f"layers:\n    - dense: {{name: encoder, inputs: image, units: {size}}}\n")
        model = load_model(write(here, text.replace("layer: image", "layer: encoder"), batch))
        texts += [[b.emit(lower(model, b.capabilities, True).merged) for b in map(backend, ("cpu", "cuda"))]]
    assert texts[0] == texts[1] == texts[2]


def test_fit_with_samples_of_the_caller(here: Path, digits: np.ndarray) -> None:
    labels = np.load(here / "digits.npz")["labels"]
    result = load(noisy(here)).fit({"image": digits[:200] / 2.5, "label": labels[:200]}, epochs=2)
    assert result.metrics["accuracy"] > 0.5

"""Inference with trained networks: predict, evaluate, weights from files, error cases."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from backends.registry import backend
from compiler.core.diagnostics import ModelError, RunError
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower, lower_predict
from compiler.runtime.artifacts.results import RunResult
from netloom import check, evaluate, predict, run
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.networks_for_use import samples, write_network
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")

IMAGES = "{image: {shape: [2, 9, 8]}}"
CONVOLUTIONS = """
conv2d: {name: a, filters: 5, kernel: 3, padding: same, bias: false}
batch_norm: {name: n1, epsilon: 1e-3}
activation: {name: r1, function: relu}
conv2d: {name: b, filters: 6, kernel: 3, stride: 2, groups: 1}
batch_norm: {name: n2}
flatten: {name: f}
dropout: {name: drop, rate: 0.5}
dense: {name: logits, units: 4}
"""


@pytest.fixture
def trained(here: Path, root: Path) -> RunResult:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    return run(write(here, DIGITS))


def test_evaluate_gives_the_numbers_of_the_last_epoch(trained: RunResult, here: Path) -> None:
    measured = evaluate(trained.folder)
    last = trained.history()[-1]
    assert measured == {k: last[f"validation_{k}"] for k in ("loss", "accuracy")}
    other = evaluate(trained.folder, here / "digits.npz")
    data = np.load(here / "digits.npz")
    logits = predict(trained.folder, here / "digits.npz")["logits"]
    assert logits.shape == (len(data["labels"]), 10)
    assert other["accuracy"] == pytest.approx((logits.argmax(1) == data["labels"]).mean())
    shifted = logits - logits.max(1, keepdims=True)
    loss = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(shifted)), data["labels"]]
    assert other["loss"] == pytest.approx(loss.mean(), rel=1e-5)


def test_a_run_is_used_from_any_folder(here: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model was given by a relative path. Then the run is moved, then all of its project, then the data go."""
    project, other = here / "project", here / "other"
    other.mkdir()
    (project / "data").mkdir(parents=True)
    shutil.copy(root / "models" / "data" / "digits.npz", project / "data")
    write(project, DIGITS.replace("digits.npz", "data/digits.npz"))
    result = run("project/model.yaml", out="project/runs/one", epochs=1)
    images = np.load(project / "data" / "digits.npz")["flat"][:3]
    measured, outputs = evaluate(result.folder), predict(result.folder, images)["logits"]

    def same(folder: Path | str) -> None:
        assert evaluate(folder) == measured
        np.testing.assert_array_equal(predict(folder, images)["logits"], outputs)

    monkeypatch.chdir(other)
    same("../project/runs/one")
    shutil.copytree(project / "runs" / "one", other / "moved")
    same("moved")
    (here / "deep" / "er").mkdir(parents=True)
    shutil.move(project, here / "deep" / "er" / "renamed")
    same("../deep/er/renamed/runs/one")
    with pytest.raises(ModelError) as caught:
        evaluate("moved")  # far from the data now
    (found,) = caught.value.diagnostics
    assert found.code == "E0701" and "the file `data/digits.npz` does not exist" in found.message
    assert found.help is not None
    assert f"the paths of this run count from `{project}`" in found.help and "`--data FILE`" in found.help
    np.testing.assert_array_equal(predict("moved", images)["logits"], outputs)
    assert evaluate("moved", "../deep/er/renamed/data/digits.npz")["accuracy"] > 0.2


def test_a_linked_model_finds_its_data(here: Path, root: Path) -> None:
    """Paths count from where the file lies, in a run and afterwards."""
    (here / "real").mkdir()
    shutil.copy(root / "models" / "data" / "digits.npz", here / "real")
    write(here / "real", DIGITS)
    (here / "linked.yaml").symlink_to(here / "real" / "model.yaml")
    result = run("linked.yaml", epochs=1)
    assert (result.folder / "model.yaml").read_text().splitlines()[0].endswith(f"paths count from {here / 'real'}")
    assert evaluate(result.folder)["loss"] == result.history()[-1]["validation_loss"]


def test_predict_is_the_network_in_numpy(trained: RunResult, here: Path) -> None:
    w = {n: v.astype(np.float64) for n, v in trained.weights().items()}
    data = np.load(here / "digits.npz")
    x = data["flat"][:21] / 16  # as `scale` says
    hidden = np.maximum(x @ w["hidden.weight"].T + w["hidden.bias"], 0)
    found = predict(trained.folder, data["flat"][:21], layers=["hidden", "logits"])
    assert list(found) == ["hidden", "logits"]
    np.testing.assert_allclose(found["hidden"], hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["logits"], hidden @ w["logits.weight"].T + w["logits.bias"], rtol=1e-4, atol=1e-5)


def test_a_training_has_nothing_of_it(trained: RunResult, here: Path) -> None:
    program = lower(load_model(here / "model.yaml"), backend("cpu").capabilities).merged
    assert {p.name for p in program.phases} == {"init", "train", "eval"}
    names = [a.name for a in lower_predict(load_model(here / "model.yaml"), backend("cpu").capabilities, 64)
             .lowered.merged.arrays]  # fmt: skip
    assert not [n for n in names if "loss" in n or "metric" in n or "label" in n]


def _convolutions(w: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """The network of CONVOLUTIONS, plainly."""

    def conv(x: np.ndarray, k: np.ndarray, stride: int, pad: int) -> np.ndarray:
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        h, v = (x.shape[2] - 3) // stride + 1, (x.shape[3] - 3) // stride + 1
        out = np.zeros((len(x), len(k), h, v))
        for i in range(h):
            for j in range(v):
                window = x[:, :, i * stride : i * stride + 3, j * stride : j * stride + 3]
                out[:, :, i, j] = np.einsum("ncij,kcij->nk", window, k)
        return out

    def norm(x: np.ndarray, name: str, epsilon: float) -> np.ndarray:
        g, b, m, v = (w[f"{name}.{p}"][:, None, None] for p in ("weight", "bias", "running_mean", "running_var"))
        return (x - m) / np.sqrt(v + epsilon) * g + b

    y = np.maximum(norm(conv(x, w["a.weight"], 1, 1), "n1", 1e-3), 0)
    y = norm(conv(y, w["b.weight"], 2, 0) + w["b.bias"][:, None, None], "n2", 1e-5)
    return y.reshape(len(y), -1) @ w["logits.weight"].T + w["logits.bias"]


@pytest.mark.parametrize(("batch", "target"), diagonal([1, 7, 64], ["cpu", "reference"]))
def test_norms_are_folded_and_batches_do_not_matter(here: Path, target: str, batch: int) -> None:
    path = write_network(here, IMAGES, CONVOLUTIONS)
    x = samples(path, 10)
    w = {n: v.astype(np.float64) for n, v in load_file(here / "net.safetensors").items()}
    expected = _convolutions(w, x["image"].astype(np.float64))
    found = predict(path, x, target=target, batch=batch)
    np.testing.assert_allclose(found["logits"], expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bitwise_on_cpu_and_reference(here: Path, precision: str) -> None:
    path = write_network(here, IMAGES, CONVOLUTIONS)
    x = samples(path, 9)
    a, b, c = (
        predict(path, x, target=t, batch=n, order="bitwise", precision=precision)["logits"]
        for t, n in (("cpu", 1), ("cpu", 16), ("reference", 4))
    )
    assert a.tobytes() == b.tobytes() == c.tobytes()
    w = {n: v.astype(np.float64) for n, v in load_file(here / "net.safetensors").items()}
    close = 2e-5 if precision == "float32" else 1e-12
    np.testing.assert_allclose(a, _convolutions(w, x["image"].astype(np.float64)), rtol=close, atol=close)


POOLS = """
max_pool2d: {name: a, inputs: image, size: 3, stride: 2, padding: 1}
max_pool2d: {name: b, inputs: image, size: [5, 2], stride: [1, 3], padding: [2, 1, 0, 1]}
max_pool2d: {name: c, inputs: image, size: 4, stride: 4, ceil: true}
avg_pool2d: {name: d, inputs: image, size: 3, stride: 1, padding: same}
max_pool2d: {name: e, inputs: image, size: 2}
max_pool1d: {name: f, inputs: line, size: 4, stride: 3, padding: 2}
"""


def test_windows_beyond_an_image_are_summed_in_rows(here: Path) -> None:
    """Rows are longer than is summed at once (512); NaN is the maximum of its windows, what is outside is none."""
    path = write_network(here, "{image: {shape: [2, 5, 29]}, line: {shape: [1, 2100]}}", POOLS)
    x = samples(path, 2)
    x["image"][0, 1, 2, 3] = np.nan
    x["image"][1, 0, :, 20:] = -np.inf
    found, expected = (predict(path, x, target=t, batch=1, order="bitwise") for t in ("cpu", "reference"))
    for name in "abcdef":
        np.testing.assert_array_equal(found[name], expected[name])
    assert np.isnan(found["a"][0, 1]).sum() > 0
    assert np.isneginf(found["a"][1, 0, :, 11:]).all()
    cpu = backend("cpu")
    assert "nl_column_from(" in cpu.emit(lower_predict(load_model(path), cpu.capabilities, 1).lowered.merged)


def test_the_text_does_not_depend_on_sizes(here: Path) -> None:
    def text(layers: str, batch: int) -> str:
        model = load_model(write_network(here, IMAGES, layers))
        cpu = backend("cpu")
        return cpu.emit(lower_predict(model, cpu.capabilities, batch).lowered.merged)

    few = text(CONVOLUTIONS, 64)
    assert few == text(CONVOLUTIONS.replace("filters: 5", "filters: 50").replace("units: 4", "units: 40"), 640)
    more = "".join(f"dense: {{name: d{k}, units: 4}}\n" for k in range(20))
    assert text(CONVOLUTIONS + more[: more.index("\n")], 64) == text(CONVOLUTIONS + more, 64)


def test_outputs_of_one_shape_and_of_equal_layers(here: Path) -> None:
    layers = """
dense: {name: a, units: 3}
flatten: {name: same, inputs: a}
activation: {name: r, inputs: a, function: relu}
activation: {name: again, inputs: a, function: relu}
map: {copy: x}
"""
    path = write_network(here, "{x: {shape: [4]}}", layers)
    x = samples(path, 5)
    found = predict(path, x)
    assert list(found) == ["same", "r", "again", "copy"]
    np.testing.assert_array_equal(found["copy"], x["x"])
    np.testing.assert_array_equal(found["r"], np.maximum(found["same"], 0))
    np.testing.assert_array_equal(found["again"], found["r"])


def test_training_begins_with_given_weights(trained: RunResult, here: Path) -> None:
    """A run that loads the weights of another one starts where that one ended."""
    still = run("model.yaml", weights=trained.folder, epochs=1, set={"rate": 0})
    for name, values in still.weights().items():
        np.testing.assert_array_equal(values, trained.weights()[name])
    checkpoint = next(iter((trained.folder / "checkpoints").iterdir()))
    assert evaluate("model.yaml", weights=checkpoint).keys() == {"loss", "accuracy"}


def test_weights_that_do_not_fit(here: Path) -> None:
    path = write_network(here, IMAGES, CONVOLUTIONS)
    x = samples(path, 2)
    file = here / "net.safetensors"
    good = load_file(file)
    bad = {n: v for n, v in good.items() if n != "b.bias"} | {"b.bais": good["b.bias"], "logits.bias": np.zeros(9)}
    save_file(bad, file)
    with pytest.raises(ModelError) as caught:
        predict(path, x)
    found = caught.value.diagnostics[0]
    assert found.code == "E0916"
    assert found.span is not None and "weights: net.safetensors" in path.read_text().splitlines()[found.span.line - 1]
    for part in (
        "no `b.bias`",
        "`b.bais`, which the network does not have",
        "`logits.bias` has the shape [9], not [4]",
    ):
        assert part in found.message
    file.write_bytes(b"nothing")
    with pytest.raises(RunError, match="not a safetensors file"):
        predict(path, x)
    file.unlink()
    assert [d.code for d in check(path)] == ["E0701"]


PART = """language: 1
network:
  weights: WEIGHTS
  inputs: {image: {shape: [64]}, label: {shape: [], dtype: int32}}
  layers:
    - dense: {name: hidden, inputs: image, units: 32, activation: relu}
    - batch_norm: {name: norm}
    - dense: {name: HEAD, units: 5}
train:
  data: {file: digits.npz, inputs: {image: flat, label: labels}, scale: {label: 0}}
  loss: {softmax_cross_entropy: {logits: HEAD, target: label}}
  optimizer: {sgd: {learning_rate: 0}}
  batch: 1797
  epochs: 1
  seed: 3
"""


def test_weights_of_a_part_of_the_layers(here: Path, root: Path) -> None:
    """Layers that the file gives have its values, also running statistics; the others are drawn as without it."""
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    rng = np.random.default_rng(1)
    shapes = {"hidden.weight": (32, 64), "hidden.bias": (32,), "norm.weight": (32,), "norm.bias": (32,)}
    shapes |= {"norm.running_mean": (32,), "norm.running_var": (32,), "logits.weight": (10, 32), "logits.bias": (10,)}
    file = {n: rng.uniform(0.5, 1.0, s).astype(np.float32) for n, s in shapes.items()}
    save_file(file, here / "a.safetensors")

    def begun(weights: str, head: str) -> dict[str, np.ndarray]:
        text = PART.replace("HEAD", head).replace("WEIGHTS", weights)
        text = text.replace("  weights: \n", "").replace(", scale: {label: 0}", "")
        return run(write(here, text.replace("units: 5", "units: 11"))).weights()

    drawn = begun("", "logits")
    for weights, head, given in (
        ("{file: a.safetensors, except: [logits]}", "logits", ("hidden", "norm")),
        ("{file: a.safetensors, except: head}", "head", ("hidden", "norm")),
        ("{file: a.safetensors, only: hidden}", "logits", ("hidden",)),
        ("{file: a.safetensors, only: [norm]}", "logits", ("norm",)),
    ):
        found = begun(weights, head)
        for name, values in found.items():
            layer = name.split(".")[0]
            if "running" in name:  # a step has changed them: by a tenth
                first = file[name] if layer in given else np.float32(name.endswith("var"))
                step = drawn[name] - np.float32(name.endswith("var")) * np.float32(0.9)
                if "hidden" not in given:  # what is averaged is the same
                    np.testing.assert_allclose(values, 0.9 * first + step, rtol=1e-5, atol=1e-6)
                else:
                    assert (np.abs(values - drawn[name]) > 1e-3).any()
            elif layer in given:
                np.testing.assert_array_equal(values, file[name], err_msg=name)
            elif layer != "head":  # its own draws
                np.testing.assert_array_equal(values, drawn[name], err_msg=name)


def test_a_head_of_another_shape(here: Path, root: Path) -> None:
    """The help names the form that takes the other layers, and can be followed; a prediction needs all weights."""
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    text = PART.replace(", scale: {label: 0}", "").replace("HEAD", "logits")
    first = run(write(here, text.replace("  weights: WEIGHTS\n", "").replace("units: 5", "units: 10")))
    (here / "kept").mkdir()
    shutil.copy(first.folder / "weights.safetensors", here / "kept")
    text = text.replace("units: 5", "units: 12")
    path = write(here, text.replace("WEIGHTS", "kept/weights.safetensors"))
    with pytest.raises(ModelError) as caught:
        run(path)
    help = caught.value.diagnostics[0].help
    assert help is not None
    form = help.split("`")[1]
    assert form == "weights: {file: kept/weights.safetensors, except: [logits]}"
    path = write(here, text.replace("weights: WEIGHTS", form))
    np.testing.assert_array_equal(run(path).weights()["hidden.weight"], first.weights()["hidden.weight"])
    with pytest.raises(ModelError, match=r"gives no `logits\.weight`, `logits\.bias`") as caught:
        predict(path, np.zeros((1, 64)))
    assert caught.value.diagnostics[0].span is not None
    with pytest.raises(RunError, match=r"`logits.weight` has the shape \[10, 32\], not \[12, 32\]") as failed:
        run(path, weights=first.folder)  # which replaces the key
    assert failed.value.help is not None and "except: [logits]" in failed.value.help


@pytest.mark.parametrize("kind", ["BF16", "F16", "F64", "I32"])
def test_types_of_weights(here: Path, kind: str) -> None:
    """Numbers with few bits are the same in all floating types."""
    path = write_network(here, "{x: {shape: [2]}}", "dense: {name: d, units: 1, bias: false}")
    w = np.array([[0.5, -1.25]], np.float32)
    data = {"BF16": (w.view(np.uint32) >> 16).astype(np.uint16), "F16": w.astype(np.float16), "F64": w.astype(float),
            "I32": w.astype(np.int32)}[kind].tobytes()  # fmt: skip
    head = json.dumps({"d.weight": {"dtype": kind, "shape": [1, 2], "data_offsets": [0, len(data)]}}).encode()
    (here / "net.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + data)
    if kind == "I32":
        with pytest.raises(RunError, match="is I32; weights are"):
            predict(path, np.zeros((1, 2)))
        return
    assert predict(path, np.array([[1.0, 2.0]]))["d"].item() == -2.0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((3, 5)), "samples of shape [2, 9, 8]"),
        (np.zeros((0, 2, 9, 8)), "holds no samples"),
        (np.array([["a"]]), "not numbers"),
        ({"other": np.zeros(3)}, "no array `image`"),
    ],
)
def test_data_that_do_not_fit(here: Path, data: object, message: str) -> None:
    path = write_network(here, IMAGES, CONVOLUTIONS)
    with pytest.raises(RunError) as caught:
        predict(path, data)  # type: ignore[arg-type]
    assert caught.value.code == "E0917" and caught.value.exit_code == 2
    assert message in caught.value.message


def test_files_of_data(here: Path) -> None:
    path = write_network(here, "{x: {shape: [4]}}", "dense: {name: d, units: 1}")
    x = samples(path, 3)["x"]
    np.save(here / "x.npy", x)
    np.savez(here / "x.npz", x=x)
    np.savetxt(here / "x.csv", x, delimiter=",")
    expected = predict(path, x)["d"]
    for file in ("x.npy", "x.npz"):
        np.testing.assert_array_equal(predict(path, here / file)["d"], expected)
    np.testing.assert_allclose(predict(path, here / "x.csv")["d"], expected, rtol=1e-6)
    np.savez(here / "y.npz", xx=x)
    with pytest.raises(RunError, match="no array `x`"):
        predict(path, here / "y.npz")
    with pytest.raises(RunError, match="no data file"):
        predict(path, here / "z.npz")


def test_what_cannot_be_used(here: Path, trained: RunResult) -> None:
    with pytest.raises(RunError, match="says nothing of its weights"):
        predict("model.yaml", np.zeros((1, 64)))
    with pytest.raises(RunError, match="not a run directory"):
        predict(here, np.zeros((1, 64)))
    with pytest.raises(RunError, match="no layer `logit`") as caught:
        predict(trained.folder, np.zeros((1, 64)), layers=["logit"])
    assert caught.value.help is not None and "logits" in caught.value.help
    path = write_network(here, IMAGES, CONVOLUTIONS)
    with pytest.raises(RunError, match="no `train`"):
        evaluate(path)
    with pytest.raises(ModelError) as error:
        run(path)
    assert error.value.diagnostics[0].code == "E0103"

"""The Python package: models from files, texts and dicts; fits with arrays; nothing left behind."""

from __future__ import annotations

import gc
import os
import re
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("not_optimized", "without_plots")

ROOT = Path(__file__).resolve().parents[2]

TEXT = """language: 1
name: small
params: {rate: {value: 20 Hz}}
populations: {a: {neuron: library/neurons/poisson, size: 50, params: {rate: rate}}}
simulate: {dt: 1 ms, duration: 200 ms, seed: 3}
record: [spikes: {from: a}]
"""

NETWORK: dict[str, Any] = {
    "language": 1,
    "name": "classes",
    "network": {
        "inputs": {"x": {"shape": [4]}, "label": {"shape": [], "dtype": "int32"}},
        "layers": [{"dense": {"units": 8, "activation": "relu", "inputs": "x"}}, {"dense": {"name": "y", "units": 3}}],
    },
    "train": {
        "loss": {"softmax_cross_entropy": {"logits": "y", "target": "label"}},
        "metrics": ["accuracy"],
        "optimizer": {"adam": {"learning_rate": 0.02}},
        "batch": 16,
        "epochs": 4,
        "seed": 1,
    },
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In an empty folder, which stays empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield
    assert not [*(tmp_path / "here").iterdir()]


def samples(count: int = 160) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 4)).astype(np.float32)
    return {"x": x, "label": np.argmax(x[:, :3], axis=1)}


def same(a: netloom.RunResult, b: netloom.RunResult) -> bool:
    first, second = a.weights(), b.weights()
    return first.keys() == second.keys() and all(np.array_equal(first[k], second[k]) for k in first)


def numbers(result: netloom.RunResult) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in result.history()]


def test_text_dict_and_file_are_one_model(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(TEXT, encoding="utf-8")
    spikes = [netloom.load(m, set={"rate": "40 Hz"}).run(seed=5).spikes("a") for m in (path, str(path), TEXT)]
    assert len(spikes[0][0]) > 200
    for times, ids in spikes[1:]:
        assert np.array_equal(times, spikes[0][0]) and np.array_equal(ids, spikes[0][1])
    assert netloom.load(TEXT).check() == []
    assert "small" in netloom.load(TEXT).show() and "50" in netloom.load(TEXT).show()


def test_every_method_takes_other_values_of_parameters(tmp_path: Path) -> None:
    """For one call, beside and before those of `load`."""
    m = netloom.load(TEXT, set={"rate": "40 Hz"})
    own, loaded = m.run(seed=5).spikes("a"), netloom.load(TEXT, set={"rate": "80 Hz"}).run(seed=5).spikes("a")
    for other in (m.run(seed=5, set={"rate": "80 Hz"}), m.simulation(seed=5, set={"rate": "80 Hz"})):
        if isinstance(other, netloom.Simulation):
            other.run("200 ms")
            times, ids = other["a"].spikes
        else:
            times, ids = other.spikes("a")
        assert np.array_equal(times, loaded[0]) and np.array_equal(ids, loaded[1])
    assert np.array_equal(m.run(seed=5).spikes("a")[0], own[0]) and len(own[0]) < len(loaded[0])
    assert m.build(set={"rate": "80 Hz"}).folder.is_dir()
    assert [d.code for d in m.check(set={"rat": 1})] == ["E0204"]
    table = m.sweep({"seeds": 2}, set={"rate": "0 Hz"}, out=tmp_path / "sweep")
    assert [row["rate.a"] for row in table.rows] == [0, 0]
    with pytest.raises(netloom.RunError, match="`set`"):
        m.run(set=["rate"])  # type: ignore[arg-type]


def test_a_network_takes_other_values_of_parameters() -> None:
    network = {**NETWORK, "params": {"width": {"value": 8, "type": "int"}}}
    network["network"] = {**NETWORK["network"], "layers": [
        {"dense": {"units": "width", "inputs": "x", "activation": "relu"}}, {"dense": {"name": "y", "units": 3}}
    ]}  # fmt: skip
    m = netloom.load(network)
    assert re.search(r"dense_1 .* 5 +25\n", m.show(set={"width": 5}))
    fitted = m.fit(samples(), set={"width": 5})
    assert fitted.weights()["dense_1.weight"].shape == (5, 4)
    assert m.predict({"x": samples(3)["x"]}, set={"width": 5})["y"].shape == (3, 3)
    assert 0 < m.evaluate(samples(), set={"width": 5})["accuracy"] <= 1


def test_a_dict_may_hold_numbers_and_arrays_of_numpy() -> None:
    def model(steps: object, size: object, most: object) -> dict[str, Any]:
        cell = {
            "params": {"k": 1},
            "state": {"x": 0},
            "update": ["x = x + k"],
            "spike": {"when": "x > most", "reset": ["x = 0"]},
        }
        return {
            "language": 1,
            "params": {"most": {"value": most}},
            "neurons": {"cell": cell},
            "populations": {"a": {"neuron": "cell", "size": size, "params": {"k": steps}}},
            "simulate": {"dt": "1 ms", "duration": "20 ms"},
            "record": [{"spikes": {"from": "all"}}],
        }

    plain = netloom.load(model([1, 2], 2, 3.5)).run().spikes("a")
    made = netloom.load(model(np.array([1, 2]), np.int64(2), np.float32(3.5))).run().spikes("a")
    assert np.array_equal(plain[0], made[0]) and np.array_equal(plain[1], made[1]) and len(plain[0]) == 15
    cyclic = model((1, 2), 2, 3.5)
    cyclic["params"]["most"] = cyclic
    for wrong, text in (
        (model({1, 2}, 2, 3.5), r"`model\.populations\.a\.params\.k` is .*, not \{1, 2\} \(set\)"),
        ({3: 1}, r"`model` is a dict whose keys are of type str, not 3"),
        (cyclic, r"`model\.params\.most` is a part of itself"),
    ):
        with pytest.raises(netloom.RunError, match=f"E0912.*{text}"):
            netloom.load(wrong)


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64])
def test_a_seed_that_no_file_may_have_is_refused(seed: int) -> None:
    """Modulo 2**64 it would be a second name of another one."""
    for given in ({"seed": seed}, {"seeds": [1, seed]}):
        m = netloom.load(TEXT)
        with pytest.raises(netloom.RunError, match=r"E0912.*from 0 to 9,223,372,036,854,775,807"):
            m.run(seed=seed) if "seed" in given else m.sweep(seeds=[1, seed])


def test_an_error_in_a_text_has_its_line() -> None:
    wrong = netloom.load(TEXT.replace("size: 50", "size: fifty"))
    (found,) = wrong.check()
    assert (found.code, found.line) == ("E0302", 4)
    with pytest.raises(netloom.ModelError, match=r"small\.yaml:4:") as caught:
        wrong.run()
    assert isinstance(caught.value, netloom.NetloomError)


def test_paths_of_a_text_count_from_the_folder(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **samples())
    model = {
        **NETWORK,
        "train": {**NETWORK["train"], "data": {"file": "data.npz", "inputs": {"x": "x", "label": "label"}}},
    }  # type: ignore[dict-item]
    assert netloom.load(model, folder=tmp_path).run().metrics["accuracy"] > 0.5
    with pytest.raises(netloom.ModelError, match="E0701"):
        netloom.load(model).run()


def test_results_are_kept_where_asked_for(tmp_path: Path) -> None:
    result = netloom.load(TEXT).run(out=tmp_path / "mine")
    assert result.folder == tmp_path / "mine" and (tmp_path / "mine" / "run.json").is_file()


def test_temporary_folders_go_with_their_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests make folders beside this one
    result = netloom.load(TEXT).run()
    folder = result.folder
    assert folder.is_dir() and folder.is_relative_to(tmp_path)
    del result
    gc.collect()
    assert not folder.exists() and not [*tmp_path.glob("netloom-*")]


def test_fit_with_arrays_is_the_run_of_the_file(tmp_path: Path) -> None:
    """Bit for bit: metrics of each epoch and weights, with the model's own split."""
    path = ROOT / "models" / "lenet_digits.yaml"
    with np.load(ROOT / "models" / "data" / "digits.npz") as file:
        arrays = {name: file[name] for name in file.files}
    names = {"image": "images", "label": "labels"}
    from_file = netloom.load(path).run(epochs=2)
    fitted = netloom.load(path).fit({k: arrays[v] for k, v in names.items()}, epochs=2)
    assert numbers(fitted) == numbers(from_file) and same(fitted, from_file)


def test_validation_by_part_and_by_arrays() -> None:
    data = samples()
    whole = netloom.load(NETWORK).fit(data, validation=0.25)
    assert "validation_accuracy" in whole.metrics
    first = {k: v[:120] for k, v in data.items()}
    last = {k: v[120:] for k, v in data.items()}
    model = netloom.load(NETWORK)
    parts = model.fit(first, validation=last)
    measured = model.evaluate(last)
    assert measured["accuracy"] == parts.metrics["validation_accuracy"]
    assert measured["loss"] == pytest.approx(parts.metrics["validation_loss"], rel=1e-6)
    alone = netloom.load(NETWORK).fit(first)
    assert same(parts, alone), "validation does not change the training"


def test_an_iterator_of_batches_is_the_array() -> None:
    data = samples()
    parts = ({k: v[i : i + 37] for k, v in data.items()} for i in range(0, 160, 37))
    assert same(netloom.load(NETWORK).fit(parts), netloom.load(NETWORK).fit(data))
    again = ({k: v[i : i + 37] for k, v in data.items()} for i in range(0, 120, 37))
    held = {k: v[120:] for k, v in data.items()}
    assert "validation_loss" in netloom.load(NETWORK).fit(again, validation=held).metrics


def test_lists_and_predictions() -> None:
    data = samples(40)
    model = netloom.load(NETWORK)
    fitted = model.fit({k: v.tolist() for k, v in data.items()})
    assert fitted.metrics["accuracy"] == model.evaluate(data)["accuracy"] or fitted.metrics["loss"] > 0
    scores = model.predict({"x": data["x"]}, weights=None, layers="y")["y"]
    assert scores.shape == (40, 3)
    assert np.mean(np.argmax(scores, axis=1) == data["label"]) == model.evaluate(data)["accuracy"]


def test_a_model_without_weights_says_what_to_call() -> None:
    model = netloom.load(NETWORK)
    for use in (lambda: model.predict({"x": samples(4)["x"]}), lambda: model.evaluate(samples(4))):
        with pytest.raises(netloom.RunError, match="has not been trained by `fit`") as error:
            use()
        assert error.value.code == "E0916"
        assert "call `fit` first, or give `weights=`" in str(error.value)
        assert "/" not in str(error.value), "no temporary file is named"


def test_a_function_sees_each_epoch_and_ends_the_training() -> None:
    rows: list[dict[str, float]] = []

    def look(row: dict[str, float]) -> bool:
        rows.append(row)
        return row["epoch"] == 3

    result = netloom.load(NETWORK).fit(samples(), on_epoch=look, epochs=50)
    assert [row["epoch"] for row in rows] == [1, 2, 3] and len(result.history()) == 3
    assert rows == result.history() and result.status == "ok"
    assert same(result, netloom.load(NETWORK).fit(samples(), epochs=3))


def test_an_error_in_the_function_ends_the_fit() -> None:
    def fail(row: dict[str, float]) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        netloom.load(NETWORK).fit(samples(), on_epoch=fail)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"x": np.zeros((8, 4))}, "label"),
        ({"x": np.zeros((8, 5)), "label": np.zeros(8, int)}, "shape"),
        ({"x": np.zeros((8, 4)), "label": np.zeros(7, int)}, "different numbers"),
        ({"x": np.zeros((8, 4)), "label": np.zeros(8)}, "whole numbers"),
        ({"x": [[1, 2], [3]], "label": [1, 2]}, "`x`"),
        ({"x": np.full((8, 4), np.nan), "label": np.zeros(8, int)}, "nan"),
        ({"x": np.zeros((8, 4)), "label": np.full(8, 3)}, "label"),
        ([], "no batch"),
        ([{"x": np.zeros((2, 4))}, {"y": np.zeros((2, 4))}], "same arrays"),
        (3, "iterable"),
    ],
    ids=["missing", "shape", "length", "kind", "ragged", "nan", "class", "no batch", "other batch", "number"],
)
def test_what_does_not_fit_is_refused(data: object, text: str) -> None:
    with pytest.raises(netloom.NetloomError, match=text):
        netloom.load(NETWORK).fit(data)  # type: ignore[arg-type]


def test_a_training_without_data_says_where_they_come_from(tmp_path: Path) -> None:
    model = netloom.load(NETWORK)
    assert not model.check() and not model.check(target="opencl")
    with pytest.raises(netloom.ModelError, match=r"`train` has no `data`(.|\n)*--data"):
        model.run()
    result = netloom.load(NETWORK).fit(samples(), out=tmp_path / "run")
    with pytest.raises(netloom.RunError, match="E0912"):
        netloom.evaluate(result.folder)
    np.savez(tmp_path / "new.npz", **samples())
    found_again = netloom.evaluate(result.folder, data=tmp_path / "new.npz", build_dir=tmp_path / "build")
    assert found_again["accuracy"] > 0.4


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _repeated(count: int) -> None:
    model, fitted = netloom.load(TEXT), netloom.load(NETWORK)
    data = samples()
    model.run(duration="10 ms")
    fitted.fit(data, epochs=1)
    gc.collect()
    files, memory = _open_files(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for k in range(count):
        assert model.run(seed=k, duration="10 ms").record["compiled"] is False
        assert fitted.fit(data, epochs=1, seed=k).record["compiled"] is False
    gc.collect()
    assert _open_files() <= files
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 30_000 + 10 * count, "kB"


def test_ten_runs_in_one_process_leave_nothing() -> None:
    _repeated(10)


@pytest.mark.slow
def test_a_thousand_runs_in_one_process_leave_nothing() -> None:
    _repeated(1000)

"""Parts of the runner in isolation: layouts, hashes, expansion, expectations, build folders, plots."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from backends.registry import TARGETS, backend
from compiler.core.diagnostics import RunError
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Expectation, Model
from compiler.ir.level2.program import Array, Lanes
from compiler.ir.space import DType, Role
from compiler.passes.pipeline.lower import lower
from compiler.runtime.artifacts.build_folder import build_into
from compiler.runtime.artifacts.expanded import expanded_yaml
from compiler.runtime.artifacts.run_folder import open_run_folder
from compiler.runtime.common.arrays import to_logical, to_physical
from compiler.runtime.common.hashes import model_hash
from compiler.runtime.expectations import check_expectations
from compiler.runtime.inference.predict import run_batches
from compiler.runtime.plots import plots
from compiler.runtime.plots.plots import draw_plots
from compiler.runtime.record.growing import growing, open_file, publish
from compiler.runtime.record.record import sorted_events

CUBA = Path(__file__).resolve().parents[2] / "models" / "cuba.yaml"


@pytest.fixture(scope="module")
def cuba() -> Model:
    return load_model(CUBA, {"n_exc": "40", "n_inh": "10"})


# --------------------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize(("shape", "lanes"), [((5,), 4), ((8, 3), 4), ((7, 2, 3), 16), ((1, 4), 2), ((6, 2), None)])
def test_layouts(shape: tuple[int, ...], lanes: int | None) -> None:
    """Element (n, rest) of a Lanes array stands at [n // lanes][rest][n % lanes]."""
    array = Array("x", DType.F32, shape, Role.STATE, None if lanes is None else Lanes(lanes))
    values = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    stored = to_physical(array, values)
    assert stored.shape == (array.physical_size,)
    assert np.array_equal(to_logical(array, stored), values)
    if lanes is not None:
        blocks = stored.reshape(-1, *shape[1:], lanes)
        for index in np.ndindex(*shape):
            assert blocks[(index[0] // lanes, *index[1:], index[0] % lanes)] == values[index]
        assert stored.sum() == values.sum()


def test_events_are_sorted_by_step_then_neuron() -> None:
    pairs = np.array([[2, 5], [1, 9], [2, 1], [1, 0]], np.int32)
    assert sorted_events(pairs).tolist() == [[1, 0], [1, 9], [2, 1], [2, 5]]
    ready = np.array([[1, 0], [1, 9], [2, 1]], np.int32)
    assert sorted_events(ready) is ready


def test_datasets_grow(tmp_path: Path) -> None:
    for part in (range(5), range(5, 7), range(0)):
        with open_file(tmp_path / "x.h5") as file:
            group = file.require_group("g")
            data = growing(group, "d", "float32", (2,), 3, {"unit": "mV"})
            publish(file)
            data.append(np.array([[i, -i] for i in part], np.float32).reshape(-1, 2))
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["g/d"].attrs["unit"] == "mV"
        assert file["g/d"][:].tolist() == [[i, -i] for i in range(7)]


# --------------------------------------------------------------------------------------------- hashes


def test_the_hash_is_of_what_defines_the_model(cuba: Model, tmp_path: Path) -> None:
    text = CUBA.read_text(encoding="utf-8")
    settings = {"n_exc": "40", "n_inh": "10"}

    def changed(old: str, new: str) -> str:
        assert old in text
        path = tmp_path / "cuba.yaml"
        path.write_text("# moved\n" + text.replace(old, new), encoding="utf-8")
        return model_hash(load_model(path, settings))

    same = model_hash(cuba)
    assert changed("duration: 1 s", "duration: 2 s") == same
    assert changed("seed: 1", "seed: 2") == same
    assert changed("every: 1 ms", "every: 2 ms") == same
    assert changed("Excitatory neurons", "Cells") == same
    assert changed("1.62 mV", "1.63 mV") != same
    assert changed("v > v_thresh", "v >= v_thresh") != same
    assert changed("delay: 0.1 ms", "delay: 0.2 ms") != same
    assert model_hash(load_model(CUBA, {**settings, "p": "0.03"})) != same
    assert model_hash(load_model(CUBA)) != same


@pytest.mark.parametrize("name", ["cuba", "lenet_digits", "custom_optimizer", "microcircuit"])
def test_the_expanded_model_is_the_same_model(name: str, tmp_path: Path, root: Path) -> None:
    path = root / "models" / f"{name}.yaml"
    settings = {"n_exc": "77"} if name == "cuba" else {"scale_n": "0.02"} if name == "microcircuit" else {}
    shutil.copytree(root / "models" / "data", tmp_path / "data")
    (tmp_path / "model.yaml").write_text(expanded_yaml(path, settings), encoding="utf-8")
    again = load_model(tmp_path / "model.yaml")
    assert again.params == load_model(path, settings).params
    assert model_hash(again) == model_hash(load_model(path, settings))


def test_expanding_writes_out_copies_and_quantities(tmp_path: Path) -> None:
    path = tmp_path / "ring.yaml"
    path.write_text(
        """\
language: 1
name: ring
description: "two: lines\\nand a # sign"
params: {n: {value: 3, type: int}, tau: {value: 10 ms}}
neurons:
  lif:
    params: {tau_m: tau}
    state: {v: 0 mV}
    dynamics: {dv/dt: -v / tau_m}
populations:
  p{i}: {for: {i: 0..n - 1}, neuron: lif, size: 1 + i}
simulate: {dt: 0.1 ms, duration: 1 ms}
"""
    )
    text = expanded_yaml(path, {"tau": "20 ms", "n": "2"})
    assert "for:" not in text
    (tmp_path / "again.yaml").write_text(text)
    again = load_model(tmp_path / "again.yaml")
    assert [(p.name, p.size) for p in again.populations] == [("p0", 1), ("p1", 2)]
    assert {p.name: p.value for p in again.params} == {"n": 2, "tau": 20.0}
    assert again.description == load_model(path).description


# --------------------------------------------------------------------------------------- expectations


def test_expectations() -> None:
    model = replace(
        load_model(CUBA),
        expect=(
            Expectation("metric", (("name", "accuracy"), ("at_least", 0.5))),
            Expectation("metric", (("name", "loss"), ("at_most", 0.5))),
            Expectation("metric", (("name", "validation_loss"), ("at_most", 0.5))),
            Expectation("spikes", (("of", "exc"), ("count", 7))),
            Expectation("spikes", (("of", "inh"), ("at_least", 1), ("at_most", 3))),
        ),
    )
    checks = check_expectations(model, {}, {"exc": 7, "inh": 4}, {"accuracy": 0.5, "loss": float("nan")})
    assert [(c.subject, c.met) for c in checks] == [
        ("accuracy", True),
        ("loss", False),
        ("validation_loss", False),
        ("spikes of exc", True),
        ("spikes of inh", False),
    ]
    assert [c.bounds for c in checks] == ["at least 0.5", "at most 0.5", "at most 0.5", "7", "1 to 3"]
    assert checks[2].shown == "-"


def test_rates_are_compared_in_hertz(tmp_path: Path) -> None:
    path = tmp_path / "cuba.yaml"
    text = CUBA.read_text(encoding="utf-8") + "\nexpect:\n  - rate: {of: exc, between: [3 Hz, 7 Hz]}\n"
    path.write_text(text, encoding="utf-8")
    model = load_model(path)
    for rate, met in ((2.99, False), (3.0, True), (7.0, True), (7.01, False)):
        (check,) = check_expectations(model, {"exc": rate}, {}, {})
        assert (check.met, check.low, check.high, check.unit) == (met, 3.0, 7.0, "Hz")


# ------------------------------------------------------------------------------------------- folders


def test_targets_are_found_by_name() -> None:
    assert backend("reference").capabilities.name == "reference"
    assert TARGETS["cpu"].missing() is None


def test_a_build_folder_is_made_once(cuba: Model, tmp_path: Path) -> None:
    target = backend("reference")
    program = lower(cuba, target.capabilities).merged
    first = build_into(tmp_path, program, target, {})
    second = build_into(tmp_path, program, target, {})
    assert (first.made, second.made) == (True, False)
    assert second.artifact.key == first.artifact.key
    assert first.artifact.binary.is_file()
    assert build_into(tmp_path, program, target, {"portable": "1"}).made
    first.artifact.binary.unlink()
    assert build_into(tmp_path, program, target, {"portable": "1"}).made
    other = lower(load_model(CUBA, {"n_exc": "41", "n_inh": "10"}), target.capabilities).merged
    assert build_into(tmp_path, other, target, {"portable": "1"}).made
    assert [p.name for p in tmp_path.iterdir()] == ["cuba"]


def test_a_run_folder_appears_when_it_is_finished(tmp_path: Path) -> None:
    folder = open_run_folder("m", tmp_path, None)
    (folder.path / "a.txt").write_text("x")
    assert {p.name[0] for p in tmp_path.iterdir()} == {"."}
    final = folder.finish("failed", "because")
    assert [p for p in tmp_path.iterdir()] == [final]
    record = json.loads((final / "run.json").read_text())
    assert (record["status"], record["message"]) == ("failed", "because")
    assert (final / "a.txt").exists()
    with pytest.raises(RunError, match="not empty"):
        open_run_folder("m", tmp_path, final)
    with pytest.raises(RunError, match="not a folder"):
        open_run_folder("m", tmp_path, final / "a.txt")


# --------------------------------------------------------------------------------------------- plots


def test_a_run_whose_folder_is_removed_does_not_end_well(tmp_path: Path) -> None:
    folder = open_run_folder("m", tmp_path, None)
    shutil.rmtree(folder.path)
    (folder.path / "checkpoints").mkdir(parents=True)  # as the next checkpoint does
    with pytest.raises(RunError, match="was removed before the run ended") as error:
        folder.finish("ok")
    assert error.value.code == "E0930" and os.listdir(tmp_path) == []


def _records(folder: Path) -> None:
    with h5py.File(folder / "spikes.h5", "w") as file:
        for name, size in (("exc", 40), ("inh", 10)):
            file[f"spikes/{name}/timestamps"] = np.linspace(1, 999, 200)
            file[f"spikes/{name}/node_ids"] = np.arange(200, dtype=np.uint64) % size
    with h5py.File(folder / "traces.h5", "w") as file:
        file["exc/time"] = np.arange(1.0, 1001.0)
        file["exc/members"] = np.arange(10)
        file["exc/v"] = np.random.default_rng(1).normal(-55, 2, (1000, 10))
        file["exc/v"].attrs["unit"] = "mV"


def test_plots_are_drawn_twice_alike(cuba: Model, tmp_path: Path) -> None:
    _records(tmp_path)
    done = draw_plots(tmp_path, cuba)
    assert done.warning is None
    assert done.files == ("plots/raster.png", "plots/raster.svg", "plots/trace.png", "plots/trace.svg")
    before = (tmp_path / "plots/trace.svg").read_bytes()
    assert (tmp_path / "plots/raster.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    draw_plots(tmp_path, cuba)
    assert (tmp_path / "plots/trace.svg").read_bytes() == before
    assert b"exc 3" in before


def test_training_curves(tmp_path: Path, root: Path) -> None:
    model = load_model(root / "models" / "lenet_digits.yaml")
    assert draw_plots(tmp_path, model).files == ()  # before the first epoch there is nothing to draw
    row = {"epoch": 1, "loss": 1.0, "accuracy": 0.5, "validation_loss": 1.1, "validation_accuracy": 0.4}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert draw_plots(tmp_path, model).files == ("plots/training.png", "plots/training.svg")
    assert b"validation" in (tmp_path / "plots/training.svg").read_bytes()


def test_without_matplotlib_there_is_a_warning(cuba: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots.importlib.util, "find_spec", lambda name: None)
    done = draw_plots(tmp_path, cuba)
    assert done.files == ()
    assert done.warning is not None
    assert "matplotlib" in done.warning


class Standing:
    """A program that computes two batches at once, then none, and the feed of its batches."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def ready(self, done: int) -> int:
        return done + 4

    def run(self, phase: str, first: int, count: int) -> int:
        self.asked.append((first, count))
        return 2 if first == 1 else 0


def test_an_evaluation_that_stands_still_ends() -> None:
    standing = Standing()
    with pytest.raises(RunError, match="does not advance"):
        run_batches(standing, standing, None, 6)  # type: ignore[arg-type]
    assert standing.asked == [(1, 4), (3, 4)]

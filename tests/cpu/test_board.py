"""TensorBoard event files, as the package's own messages read them."""

from __future__ import annotations

import copy
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netloom
from tests.cpu.test_model import NETWORK, samples


def events(folder: Path) -> list[Any]:
    """The events of a run. A record is its length, a sum of that, the data and a sum of them."""
    from tensorboardX.proto.event_pb2 import Event

    (path,) = (folder / "tensorboard").glob("events.out.tfevents.*")
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        found.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return found


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Values by name and step."""
    found: dict[str, dict[int, float]] = {}
    for event in events(folder):
        for value in event.summary.value:
            if value.WhichOneof("value") == "simple_value":
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def hyper_parameters(folder: Path) -> str:
    return " ".join(
        str(v.metadata.plugin_data.content)
        for e in events(folder)
        for v in e.summary.value
        if v.metadata.plugin_data.plugin_name == "hparams"
    )


def test_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of metrics.jsonl, the learning rate and the hyper-parameters; of a run that is resumed, too."""
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "data.npz", **samples())
    model = copy.deepcopy(NETWORK)
    model["params"] = {"lr": {"value": 0.02}}
    model["train"]["optimizer"] = {"adam": {"learning_rate": "lr"}}
    m = netloom.load(model)
    run = m.run(data="data.npz", validation=0.2, epochs=3, tensorboard=True, out="r")
    found = scalars(run.folder)
    for row in run.history():
        step = int(row["epoch"])
        assert found["loss/training"][step] == pytest.approx(row["loss"])
        assert found["accuracy/validation"][step] == pytest.approx(row["validation_accuracy"])
        assert found["learning_rate/training"][step] == pytest.approx(0.02)
    assert "lr" in hyper_parameters(run.folder) and "batch" in hyper_parameters(run.folder)
    more = m.run(data="data.npz", validation=0.2, epochs=5, tensorboard=True, out="q", resume="r")
    again = scalars(more.folder)["loss/training"]
    assert list(again) == [1, 2, 3, 4, 5] and again[2] == found["loss/training"][2]
    plain = m.run(data="data.npz", validation=0.2, epochs=3, out="p")
    assert not (plain.folder / "tensorboard").exists() and plain.history()[-1]["loss"] == run.history()[-1]["loss"]


def test_a_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = """language: 1
params: {rate: {value: 50 Hz}}
populations: {a: {neuron: library/neurons/poisson, size: 40, params: {rate: rate}}}
simulate: {dt: 1 ms, duration: 400 ms, seed: 7}
record: [spikes: {from: a}]
"""
    run = netloom.load(model).run(tensorboard=True, out="r")
    rates = scalars(run.folder)["rate/a"]
    last = max(rates)
    assert last == 400 and 100 <= len(rates) <= 201
    over = [v for k, v in rates.items() if k % 2 == 0]
    assert np.mean(over) == pytest.approx(run.rates["a"], rel=0.02)
    assert "rate" in hyper_parameters(run.folder)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(netloom.RunError) as caught:
        netloom.load("language: 1\n").run(tensorboard=True, out="r")
    assert caught.value.code == "E0943" and caught.value.exit_code == 3 and not Path("r").exists()

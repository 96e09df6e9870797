"""Run directories of which a file has been damaged: what reads them ends with a specific error, or does not notice."""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import netloom
from compiler.cli import app as cli_app
from compiler.runtime.artifacts.checkpoint import write_tensors
from tests.property.mutations import places
from tests.property.test_damaged_files import damaged

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

SPIKING = """\
language: 1
name: spiking
params: {n: {value: 3, type: int, min: 1}}
neurons:
  clock: {state: {x: 0}, inputs: {g: {}}, update: [x = x + 1 + 0.01 * g], spike: {when: x > 3.5, reset: [x = 0]}}
synapses: {s: {state: {w: 0.5}, on_pre: [deliver(w), w = 0.99 * w]}}
populations: {p: {neuron: clock, size: n}}
projections: {c: {from: p, to: p, connect: {all_to_all: {}}, synapse: s, deliver: {into: g}}}
simulate: {dt: 1 ms, duration: 20 ms, seed: 0, checkpoint: {every: 5 ms}}
record:
  - spikes: {from: all}
  - trace: {from: p, variables: [x], members: all, every: 1 ms}
  - rate: {from: p, every: 2 ms}
  - synapses: {from: c, variables: [w], every: 5 ms}
plots: [{raster: {from: p}}, {trace: {from: p, variable: x}}, {rate: {from: p}}, {histogram: {from: c, variable: w}}]
expect: [{spikes: {of: p, count: 15}}]
"""
TRAINED = """\
language: 1
name: trained
network:
  inputs: {x: {shape: [4]}, y: {shape: [2]}}
  layers: [{dense: {name: z, inputs: x, units: 2}}]
train:
  data: {file: data.npz, inputs: {x: x, y: y}}
  loss: {mean_squared_error: {prediction: z, target: y}}
  optimizer: {sgd: {learning_rate: 0.1}}
  batch: 4
  epochs: 2
"""
COMMANDS = {
    "spiking": (
        ("report", "RUN"), ("plot", "RUN", "--image", "svg"), ("diff", "RUN", "whole/spiking"), ("runs", "."),
        ("run", "spiking.yaml", "--resume", "RUN", "--no-plots", "-q", "--out", "resumed", "-t", "reference"),
    ),
    "trained": (
        ("report", "RUN"), ("plot", "RUN", "--image", "svg"), ("diff", "RUN", "whole/trained"), ("runs", "."),
        ("predict", "RUN", "--data", "data.npz", "--out", "out.npz", "-t", "reference"), ("export", "RUN"),
        ("evaluate", "RUN", "-t", "reference"),
        ("run", "trained.yaml", "--resume", "RUN", "--no-plots", "-q", "--out", "resumed", "-t", "reference"),
    ),
}  # fmt: skip
CASES = range(24)
"""That every run of the tests tries; the slow ones try those of MANY, so many each."""
MANY, EACH = range(24, 1000), 61
ODD = (None, True, 0, -1, 1e308, "", [], {}, "x", [1], {"a": 1}, 10**30, 0.5)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both models, and a run of each in `whole`."""
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    np.savez(folder / "data.npz", x=rng.normal(size=(12, 4)), y=rng.normal(size=(12, 2)))
    for name, text in (("spiking", SPIKING), ("trained", TRAINED)):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        netloom.run(folder / f"{name}.yaml", "reference", out=folder / "whole" / name, build_dir=folder / "build")
    return folder


def _other_json(text: str, rng: random.Random) -> bytes:
    """The same with one entry of another kind, or without it."""
    value: Any = json.loads(text)
    container, key, _ = rng.choice(places(value))
    if rng.random() < 0.3:
        del container[key]  # type: ignore[arg-type]
    else:
        container[key] = rng.choice(ODD)  # type: ignore[index]
    return json.dumps(value).encode()


def faults(folder: Path, cases: range, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What ends otherwise, of these cases."""
    monkeypatch.chdir(folder)
    found: list[str] = []
    for number in cases:
        rng = random.Random(number)
        name = rng.choice(list(COMMANDS))
        shutil.rmtree(name, ignore_errors=True)
        shutil.copytree(Path("whole") / name, name)
        file = rng.choice(
            [p for p in sorted(Path(name).rglob("*")) if p.is_file() and p.suffix not in (".svg", ".png")]
        )
        data = file.read_bytes()
        file.unlink()
        if rng.random() < 0.9:
            other = file.suffix == ".json" and rng.random() < 0.7
            file.write_bytes(_other_json(data.decode(), rng) if other else damaged(data, rng))
        elif rng.random() < 0.3:
            file.mkdir()
        for words in COMMANDS[name]:
            shutil.rmtree("resumed", ignore_errors=True)
            monkeypatch.setattr(sys, "argv", ["netloom", *(name if w == "RUN" else w for w in words)])
            code, shown = cli_app.run_app(), capsys.readouterr()
            if code not in (0, 1, 2, 5, 6) or (code and not shown.err):
                found.append(f"case {number}: {file}: {words}: {code}: {shown.err[:300]}")
    return found


def test_damaged_runs(whole: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults(whole, CASES, capsys, monkeypatch) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", MANY[::EACH])
def test_many_damaged_runs(first: int, whole: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults(whole, range(first, first + EACH), capsys, monkeypatch) == []


def test_readers_of_results(whole: Path, tmp_path: Path) -> None:
    """From Python: what is not there is a KeyError, what is damaged an E0927 with the file's name."""
    run = tmp_path / "spiking"
    shutil.copytree(whole / "whole" / "spiking", run)
    result = netloom.open(run)
    with pytest.raises(KeyError):
        result.spikes("q")
    readers = {
        "spikes.h5": lambda: result.spikes("p"),
        "traces.h5": lambda: result.traces("p", "x"),
        "rates.h5": lambda: result.rate("p"),
        "synapses.h5": lambda: result.synapses("c"),
    }
    for name, read in readers.items():
        assert read()
        (run / name).write_bytes((run / name).read_bytes()[:500])
        with pytest.raises(netloom.RunError, match=rf"E0927.*{name}"):
            read()
    shutil.copytree(whole / "whole" / "trained", tmp_path / "trained")
    trained = netloom.open(tmp_path / "trained")
    (trained.folder / "metrics.jsonl").write_text('{"epoch": 1, "loss": "high"}\n', encoding="utf-8")
    with pytest.raises(netloom.RunError, match=r"E0927.*metrics\.jsonl"):
        trained.history()


def test_a_checkpoint_of_another_version(whole: Path, tmp_path: Path) -> None:
    """For which the same text is another model: the run does not go on, but its weights can be read."""
    shutil.copytree(whole / "whole" / "trained", tmp_path / "trained")
    path = tmp_path / "trained" / "checkpoints" / "epoch-000002.safetensors"
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    written = {k: v for k, v in metadata.items() if k not in ("digest", "netloom")}
    write_tensors(path, load_file(path), {**written, "model": "0" * 64})
    model = whole / "trained.yaml"
    with pytest.raises(netloom.RunError, match=r"E0909.*written by another model") as caught:
        netloom.run(model, "reference", resume=path, out=tmp_path / "resumed")
    assert caught.value.help is not None and f"`--weights {path}` begins anew" in caught.value.help
    begun = netloom.run(model, "reference", weights=path, out=tmp_path / "begun", epochs=1)
    assert begun.metrics["loss"] <= netloom.open(whole / "whole" / "trained").metrics["loss"] * 1.5

"""The commands for trained networks, as invoked by a user."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from compiler.cli import app as cli_app
from compiler.core.diagnostics import RunError
from compiler.runtime.artifacts.trained import model_of_run
from netloom import build
from tests.cpu.networks_for_use import samples, write_network

LAYERS = """
conv2d: {name: a, filters: 3, kernel: 3}
batch_norm: {name: n}
flatten: {}
dense: {name: y, units: 2}
"""
LEARNED = """
train:
  data: {file: x.npz, inputs: {x: x}}
  loss: {expression: {value: y ** 2}}
  optimizer: {sgd: {}}
  batch: 1
  epochs: 1
"""


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = write_network(tmp_path, "{x: {shape: [1, 5, 5]}}", LAYERS)
    np.savez(tmp_path / "x.npz", **samples(path, 3))
    return path


def call(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli_app.app, list(words))
    return done.exit_code, done.stdout, done.stderr


def test_predict(net: Path) -> None:
    words = ("predict", "net.yaml", "--data", "x.npz", "--out", "y.npz", "--target", "reference")
    code, out, _ = call(*words, "--explain")
    assert code == 0
    assert "fold_norms: n: folded (into the weights of a)" in out
    assert out.endswith("y.npz: y 3x2\n")
    assert np.load("y.npz")["y"].shape == (3, 2)
    assert json.loads(call(*words, "--format", "json")[1]) == {
        "samples": 3, "file": "y.npz", "outputs": {"y": [3, 2]},
    }  # fmt: skip
    code, out, err = call(*words, "--layers", "z")
    assert (code, out) == (2, "") and "error[E0912]: the network has no layer `z`" in err
    assert call("predict", "net.yaml", "--data", "no.npz", "--out", "y.npz")[0] == 2
    assert call("predict", "net.yaml", "--data", "x.npz", "--out", "y.csv")[0] == 2


def test_without_an_input_there_is_nothing_to_predict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_network(tmp_path, "{x: {shape: [2]}}", "learned: {name: y, shape: [2]}", name="alone")
    np.savez("x.npz", x=np.ones((3, 2)))
    for words in (
        ("predict", "--data", "x.npz", "--out", "y.npz"),
        ("build", "--standalone"),
        ("export", "--out", "y.onnx"),
    ):
        code, _, err = call(words[0], "alone.yaml", *words[1:])
        assert code == 2 and "no input of the network reaches `y`" in err


def test_networks_are_exported_as_onnx_files(net: Path) -> None:
    code, _, err = call("export", "net.yaml", "--out", "net.pt")
    assert code == 2 and "error[E0912]: `net.pt` is not an .onnx file" in err and not Path("net.pt").exists()


@pytest.mark.parametrize("kept", ["-1", "-0.2", "1.5", "nan", "inf"])
def test_a_part_or_a_number_of_samples_is_kept(net: Path, kept: str) -> None:
    learned = LEARNED + net.read_text(encoding="utf-8")
    Path("learned.yaml").write_text(learned, encoding="utf-8")
    code, _, err = call("run", "learned.yaml", "--validation", kept, "--no-plots")
    assert code == 2 and "--validation is a part from 0 to 1, or a whole number of samples" in err
    assert not Path("runs").exists()


def test_evaluate_needs_a_training(net: Path) -> None:
    code, _, err = call("evaluate", "net.yaml")
    assert code == 2 and "has no `train`" in err


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        ((), "`run` holds no weights.safetensors"),
        (("run.json",), "is a run without a training"),
        (("run.json", "metrics.jsonl"), "name a checkpoint"),
    ],
)
def test_a_folder_without_weights(net: Path, holds: tuple[str, ...], said: str) -> None:
    """A training that stopped early has checkpoints; the run of neurons alone has no weights to name."""
    Path("run").mkdir()
    for name in holds:
        Path("run", name).write_text("{}")
    code, _, told = call("evaluate", str(net), "--weights", "run")
    assert code == 2 and "E0916" in told and said in told


def test_standalone(net: Path) -> None:
    code, out, _ = call("build", "net.yaml", "--standalone", "--embed")
    assert code == 0
    assert out.split() == ["build/net_standalone/net.c", "build/net_standalone/net.h"]
    assert call("build", "net.yaml", "--embed")[0] == 2 and call("build", "net.yaml", "--layers", "y")[0] == 2
    code, _, err = call("build", "net.yaml", "--standalone", "--layers", "z")
    assert code == 2 and "error[E0912]: the network has no layer `z`" in err


def test_standalone_from_python(net: Path) -> None:
    """The C file that the command writes; what goes with `standalone` alone is refused without it, as there."""
    result = build("net.yaml", standalone=True, embed=True, batch=2)
    text = result.artifact.read_bytes()
    assert result.artifact.suffix == ".c" and result.artifact.parent == result.folder
    assert call("build", "net.yaml", "--standalone", "--embed", "--batch", "2")[0] == 0
    assert result.artifact.read_bytes() == text
    with pytest.raises(RunError, match="go with `standalone`"):
        build("net.yaml", embed=True)
    assert call("build", "net.yaml", "--embed")[0] == 2
    assert call("build", "net.yaml", "--standalone", "--timings")[0] == 2


def test_export_and_import(net: Path) -> None:
    code, out, _ = call("export", "net.yaml", "--format", "onnx")
    assert code == 0 and out.startswith("net.onnx: ") and out.endswith(", float32\n")
    code, out, _ = call("export", "net.yaml", "--precision", "float64", "--out", "double.onnx")
    assert code == 0 and out.endswith(", float64\n")
    assert call("export", "net.yaml", "--precision", "float16")[0] == 2
    code, out, _ = call("import", "net.onnx", "--out", "other.yaml")
    assert code == 0 and out.startswith("other.yaml and other.safetensors: ")
    assert call("import", "net.onnx", "--out", "other.yaml")[0] == 2
    assert call("export", "net.yaml", "--format", "nnef")[0] == 2
    assert call("import", "no.onnx", "--out", "third.yaml")[0] == 2
    assert "is a folder" in call("import", "")[2]


def test_import_tells_where_the_batch_was(net: Path, root: Path) -> None:
    pytest.importorskip("onnx")
    file = root / "tests" / "numeric" / "exported" / "decoder.onnx"
    code, out, _ = call("import", str(file), "--out", "decoder.yaml")
    assert code == 0
    assert "has the batch as an axis of its own here; decoder.onnx has batch x 5 as one axis" in out
    code, out, _ = call("import", str(file.with_stem("across_batch")), "--out", "across.yaml")
    assert code == 0 and "axis" not in out


def test_a_run_keeps_the_name_of_its_file(net: Path) -> None:
    """net.yaml names nothing, and lies in the folder as model.yaml."""
    run = net.parent / "run"
    run.mkdir()
    (run / "model.yaml").write_text(net.read_text().replace("name: net\n", ""))
    model = {"file": "net.yaml", "folder": str(net.parent)}
    (run / "run.json").write_text(json.dumps({"name": "net", "model": model, "numerics": {"order": "fast"}}))
    assert model_of_run(run).name == "net"

"""A full disk at every writer: one error, files that are complete or absent, a run with status `failed`."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from compiler.core.diagnostics import RunError
from compiler.core.disk import unwritable
from compiler.runtime.inference.predict import write_npz
from compiler.runtime.plots import style
from netloom import build, predict, run
from tests.cpu.models_for_runs import DIGITS, NOISY, write
from tests.file_limits import limited

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized")
SPIKES = """\
language: 1
name: big
neurons:
  clock: {params: {step: 1}, state: {x: 0}, update: [x = x + step], spike: {when: x > 3.5, reset: [x = 0]}}
populations: {p: {neuron: clock, size: 1000}}
simulate: {dt: 1 ms, duration: 3 s, seed: 0}
record:
  - spikes: {from: p}
  - trace: {from: p, variables: [x], members: 0..9, every: 1 ms}
  - rate: {from: p, every: 1 ms}
plots: [{raster: {from: p}}]
"""


def only_run(here: Path) -> tuple[Path, dict[str, object]]:
    (folder,) = (here / "runs").iterdir()
    assert not any(p.name.startswith(".") for p in folder.rglob("*"))
    return folder, json.loads((folder / "run.json").read_text())


def failed(here: Path, what: str) -> Path:
    folder, record = only_run(here)
    assert record["status"] == "failed"
    message = str(record["message"])
    assert message.startswith(f"E0930: {what} cannot be written to `")
    assert ".part" not in message
    return folder


@pytest.mark.parametrize("size", [1 << 16, 1_200_000, 3_000_000])
def test_recording(here: Path, size: int) -> None:
    path = write(here, SPIKES)
    build(path)
    with limited(size), pytest.raises(RunError) as caught:
        run(path)
    assert (caught.value.code, caught.value.exit_code) == ("E0930", 5)
    folder = failed(here, "the recording")
    assert not (folder / "plots").exists()
    for file in folder.glob("*.h5"):
        with h5py.File(file) as data:  # existing files are valid
            data.visititems(lambda _, x: x[()] if isinstance(x, h5py.Dataset) else None)
    if (folder / "spikes.h5").exists():
        with h5py.File(folder / "spikes.h5") as data:
            group = data["spikes/p"]
            assert len(group["timestamps"]) == len(group["node_ids"])


UNFORESEEN = """
import resource, sys
from netloom import run
from compiler.runtime.record import growing
from compiler.core.diagnostics import RunError
growing.require_room = lambda *_: None  # another process fills the disk
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    run(sys.argv[1])
except RunError as error:
    print(error.code)
"""


@pytest.mark.parametrize("size", [70_000, 1_200_000])
def test_a_disk_that_hdf5_finds_full_ends_no_interpreter(here: Path, root: Path, size: int) -> None:
    path = write(here, SPIKES)
    build(path)
    done = subprocess.run(
        [sys.executable, "-c", UNFORESEEN, str(path), str(size)],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "E0930\n", "")
    failed(here, "the recording")


def test_building(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path / "cache"))
    path = write(here, NOISY)
    for size in (2000, 20_000):  # the text, and what the compiler makes of it
        with limited(size), pytest.raises(RunError, match="cannot be written") as caught:
            build(path)
        assert caught.value.code == "E0930"
        assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file()] == []
        assert not (here / "build").exists() or list((here / "build").iterdir()) == []
    assert build(path).compiled


def test_training(here: Path, root: Path) -> None:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    path, wide = write(here, DIGITS), {"width": 500}
    build(path, set=wide)
    with limited(200), pytest.raises(RunError, match="the run directory"):
        run(path, set=wide, epochs=1)
    assert list((here / "runs").iterdir()) == []
    with limited(70_000), pytest.raises(RunError, match="a checkpoint"):
        run(path, set=wide, epochs=1)
    folder = failed(here, "a checkpoint")
    assert list((folder / "checkpoints").iterdir()) == []
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 1


def test_plots_decide_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(here, SPIKES)

    def full(file: Path, what: str) -> object:
        raise unwritable(OSError(28, "No space left on device"), file, what)

    monkeypatch.setattr(style, "new_file", full)
    result = run(path, duration="20 ms")
    folder, record = only_run(here)
    assert (result.status, record["status"], record["plots"]) == ("ok", "ok", [])
    (warning,) = result.warnings
    assert warning.startswith("E0930: a plot cannot be written to `") and record["warnings"] == [warning]
    assert (folder / "spikes.h5").exists()


def test_outputs(here: Path, root: Path) -> None:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    result = run(write(here, DIGITS), epochs=1)
    outputs = predict(result.folder, np.zeros((2000, 64), np.float32))
    with limited(4096), pytest.raises(RunError, match="the outputs cannot be written"):
        write_npz(here / "out" / "large.npz", outputs)
    assert list((here / "out").iterdir()) == []


def command(here: Path, root: Path, *words: str, size: int | None = None, out: str | None = None) -> tuple[int, str]:
    """(exit code, standard error) of a command under a limit on the size of files, or with a full standard output."""
    limit = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))) if size is not None else None
    with open(out or os.devnull, "w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "compiler.cli", *words],
            cwd=here,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=limit,
        )
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    return done.returncode, done.stderr


def test_commands(here: Path, root: Path) -> None:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    write(here, SPIKES)
    write(here, DIGITS, "digits.yaml")
    for name in ("model.yaml", "digits.yaml"):
        build(here / name)
    trained = str(run(here / "digits.yaml", epochs=1, out="trained").folder)
    before = sorted(p.name for p in here.iterdir())
    for words, size in (
        (("run", "model.yaml"), 1_200_000),
        (("tune", "digits.yaml", "--quiet"), 300),
        (("init", "new.yaml"), 100),
        (("export", trained, "--out", "net.onnx"), 500),
        (("build", "digits.yaml", "--standalone", "--weights", trained, "--build-dir", "alone"), 500),
        (("build", "digits.yaml", "--build-dir", "other"), 500),
    ):
        code, said = command(here, root, *words, size=size)
        assert code == 5, (words, said)
        assert said.startswith("error[E0930]: "), (words, said)
        assert "File too large" in said
    left = {p.name for p in here.iterdir()} - set(before) - {"runs", "alone", "other"}
    assert left == set()
    for folder in ("alone", "other"):
        assert not (here / folder).exists() or [p for p in (here / folder).rglob("*") if p.is_file()] == []
    failed(here, "the recording")
    code, said = command(here, root, "show", "model.yaml", "--expanded", out="/dev/full")
    assert code == 5
    assert said.startswith("error[E0930]: standard output cannot be written: No space left on device\n")

"""Ctrl-C and SIGTERM while a GPU connects, steps and trains: the run ends soon, its folder is whole, it can go on."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from netloom import build, run
from tests.cpu.models_for_runs import DIGITS, NOISY, write
from tests.cpu.test_signals import CONNECTING, nothing_hidden, start

pytestmark = pytest.mark.gpu

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wait_for(process: subprocess.Popen[str], what: Callable[[], object]) -> None:
    """Until `what` is true; starting a GPU may take long."""
    for _ in range(2400):
        if what():
            return
        if process.poll() is not None:
            raise AssertionError(f"it ended before the signal: {process.communicate()[1]}")
        time.sleep(0.05)
    process.kill()
    raise AssertionError("it did not begin")


def interrupted(here: Path, process: subprocess.Popen[str], number: int, during: str) -> Path:
    """Send the signal; returns the run's folder, after checking that it is whole."""
    begin = time.monotonic()
    process.send_signal(number)
    try:
        _, said = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    took = time.monotonic() - begin
    print(f"{signal.Signals(number).name} while {during}: {took:.2f} s")
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    nothing_hidden(here)
    (folder,) = (here / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text(encoding="utf-8"))["status"] == "interrupted"
    return folder


def record_of(here: Path) -> Path | None:
    """The folder of a run that is going on."""
    return next(iter(here.glob("runs/.*.part")), None)


@pytest.mark.parametrize("number", BOTH)
def test_while_it_steps(here: Path, root: Path, number: int) -> None:
    """What was recorded until then, and what comes after --resume, are an unbroken run."""
    path = write(here, NOISY.partition("expect:")[0].replace("duration: 60 ms", "duration: 4000 s"))
    build(path, "cuda")
    process = start(here, root, "run", str(path), "--target", "cuda")
    wait_for(process, lambda: record_of(here) and list(here.glob("runs/.*.part/spikes.h5")))
    time.sleep(2)
    folder = interrupted(here, process, number, "stepping")
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    _, done = record["recorded_steps"]
    assert 0 < done < 40_000_000
    longer = f"{(done + 500) * 0.1:.1f} ms"
    resumed = run(path, "cuda", resume=folder, duration=longer)
    assert resumed.status == "ok"
    whole = run(path, "cuda", duration=longer)
    for population in ("a", "b"):
        for one, other in zip(resumed.spikes(population), whole.spikes(population), strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("number", BOTH)
def test_while_it_trains(here: Path, root: Path, number: int) -> None:
    (here / "digits.npz").write_bytes((root / "models" / "data" / "digits.npz").read_bytes())
    path = write(here, DIGITS)
    build(path, "cuda")
    process = start(here, root, "run", str(path), "--target", "cuda", "--epochs", "1000000")
    wait_for(process, lambda: [p for p in here.glob("runs/.*.part/metrics.jsonl") if p.stat().st_size])
    time.sleep(0.5)
    folder = interrupted(here, process, number, "training")
    done = len((folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    assert done >= 1
    resumed = run(path, "cuda", resume=folder, epochs=done + 2)
    assert resumed.status == "ok"
    lines = (resumed.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(1, done + 3))
    whole = run(path, "cuda", epochs=done + 2)
    for name, values in resumed.weights().items():
        assert values.tobytes() == whole.weights()[name].tobytes(), name


@pytest.mark.parametrize("number", BOTH)
def test_while_it_connects(here: Path, root: Path, number: int) -> None:
    """Nothing to go on from; another model runs afterwards. A fast GPU may be stepping when the signal comes."""
    large = write(here, CONNECTING.replace("300000", "2000000").replace("duration: 10 ms", "duration: 4000 s"))
    build(large, "cuda")
    process = start(here, root, "run", str(large), "--target", "cuda")
    wait_for(process, lambda: list(here.glob("runs/.connecting*/model.yaml")))
    time.sleep(1)
    folder = interrupted(here, process, number, "connecting")
    print(json.loads((folder / "run.json").read_text(encoding="utf-8"))["message"])
    small = write(here, CONNECTING.replace("300000", "3000"), "small.yaml")
    assert run(small, "cuda").status == "ok"

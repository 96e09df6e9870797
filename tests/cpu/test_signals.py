"""Ctrl-C, SIGTERM and SIGHUP at any time during a command: handled promptly, without losing data or leaving temporary
files."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.cpu.backend import CpuBackend
from compiler.core.diagnostics import Interrupted
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.plots import plots, style
from compiler.runtime.prepare import prepare
from netloom import build, run
from tests.cpu.models_for_runs import NOISY, write
from tests.grids import diagonal, slow

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SOON = 1.5  # seconds: within one, on a machine that does nothing else
CONNECTING = """\
language: 1
name: connecting
neurons:
  clock: {params: {step: 1}, state: {x: 0}, inputs: {s: {decay: 5 ms}}, update: [x = x + step + s],
          spike: {when: x > 3.5, reset: [x = 0]}}
populations: {p: {neuron: clock, size: 300000}}
projections:
  pp:
    from: p
    to: p
    connect: {rule: {when: "(i * 7 + j * 11) % 100003 == 5"}}
    deliver: {into: s, weight: 0.1}
    delay: 1 ms
simulate: {dt: 1 ms, duration: 10 ms, seed: 0}
record: [{spikes: {from: p}}]
"""


def start(here: Path, root: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "compiler.cli", *words],
        cwd=here,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]), **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(what: Callable[[], object]) -> None:
    for _ in range(600):
        if what():
            return
        time.sleep(0.05)
    raise AssertionError("it did not begin")


def end(process: subprocess.Popen[str], number: int) -> str:
    """Send a signal; returns the output, after checking a prompt end with the signal's exit code."""
    begin = time.monotonic()
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert time.monotonic() - begin < SOON
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    return said


def nothing_hidden(folder: Path) -> None:
    assert [p for p in folder.rglob(".*.*") if p.suffix in (".part", ".lock")] == []


@pytest.mark.parametrize("number", [signal.SIGINT, *slow(signal.SIGTERM, signal.SIGHUP)])
def test_while_connections_are_counted(here: Path, root: Path, number: int) -> None:
    path = write(here, CONNECTING)
    build(path)
    process = start(here, root, "run", str(path))
    wait_for(lambda: list(here.glob("runs/.connecting*/model.yaml")))
    time.sleep(0.4)
    assert end(process, number) == "interrupted\n"
    nothing_hidden(here)
    (folder,) = (here / "runs").iterdir()
    record = json.loads((folder / "run.json").read_text())
    assert record["status"] == "interrupted"
    assert record["message"] == f"{signal.Signals(number).name} before the first step"


def test_while_modules_are_loaded(here: Path, root: Path) -> None:
    """Ctrl-C before the command begins, and after its end: no traceback."""
    for place in ("set_threshold", "freeze"):
        script = f"import gc, os, signal, sys; gc.{place} = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        script += "sys.argv[1:] = ['--help']\nfrom compiler.cli.__main__ import main\nmain()"
        environment = {**os.environ, "PYTHONPATH": str(root)}
        ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
        assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


def test_while_the_compiler_works(here: Path, root: Path, tmp_path: Path) -> None:
    compiler, note = tmp_path / "slow-cc", tmp_path / "pid"
    compiler.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo slow 1 && exit\nsleep 60 & echo $! > {note}; wait\n")
    compiler.chmod(0o755)
    path = write(here, NOISY)
    process = start(here, root, "run", str(path), CC=str(compiler), NETLOOM_CACHE=str(tmp_path / "cache"))
    wait_for(lambda: note.exists() and note.read_text())
    end(process, signal.SIGTERM)
    nothing_hidden(tmp_path)
    child = Path(f"/proc/{note.read_text().strip()}/stat")
    wait_for(lambda: not child.exists() or child.read_text().split()[2] == "Z")


@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.slow)])
def test_at_any_moment(here: Path, root: Path, seed: int) -> None:
    """A long run: at any time of the signal, it ends promptly with valid files, and reports the signal."""
    path = write(here, NOISY.replace("duration: 60 ms", "duration: 4000 s"))
    build(path)
    rng = random.Random(seed)
    for number in SIGNALS:
        process = start(here, root, "run", str(path))
        time.sleep(rng.uniform(0.15, 1.6))
        end(process, number)
        nothing_hidden(here)
        for folder in (here / "runs").glob("*"):
            assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
        shutil.rmtree(here / "runs", ignore_errors=True)


@pytest.mark.parametrize(("when", "number"), diagonal(["before", "within", "after"], SIGNALS))
def test_in_the_plots(here: Path, monkeypatch: pytest.MonkeyPatch, number: int, when: str) -> None:
    text = NOISY.replace("duration: 60 ms", "duration: 10 ms").partition("expect:")[0]
    path = write(here, text + "plots: [{raster: {from: a}}, {trace: {from: a, variable: v}}]\n")
    really, written = plots.draw_plots, style.new_file

    def draw(folder: Path, model: object, window: object = None) -> plots.Plotted:
        assert json.loads((folder / "run.json").read_text())["status"] == "ok"
        assert folder.parent.name == "runs" and not folder.name.startswith(".")
        if when == "before":
            os.kill(os.getpid(), number)
        drawn = really(folder, model, window)  # type: ignore[arg-type]
        if when == "after":
            os.kill(os.getpid(), number)
        return drawn

    def second(file: Path, what: str) -> object:
        if when == "within" and "trace" in file.name:
            os.kill(os.getpid(), number)
        return written(file, what)

    monkeypatch.setattr(plots, "draw_plots", draw)
    monkeypatch.setattr(style, "new_file", second)
    before = [signal.getsignal(s) for s in SIGNALS]
    result = run(path)
    assert before == [signal.getsignal(s) for s in SIGNALS]
    assert (result.status, result.signal) == ("ok", number)
    assert f"{signal.Signals(number).name} ended the drawing of the plots" in result.warnings
    record = json.loads((result.folder / "run.json").read_text())
    assert record["status"] == "ok"
    count = {"before": 0, "within": 2, "after": 4}[when]
    assert len(record["plots"]) == len(list(here.glob("runs/*/plots/*"))) == count
    nothing_hidden(here)


def test_a_plot_that_fails_is_a_warning(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path, model: object, window: object = None) -> None:
        raise ZeroDivisionError("of the plots")

    monkeypatch.setattr(plots, "draw_plots", broken)
    result = run(write(here, NOISY), duration="1 ms")
    assert (result.status, result.record["status"]) == ("ok", "ok")
    assert "plots could not be drawn: ZeroDivisionError: of the plots" in result.warnings


def test_what_is_ignored_stays_ignored(here: Path) -> None:
    """As under nohup."""
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGHUP))
        timer.start()
        assert run(write(here, NOISY)).status == "ok"
        timer.join()
    finally:
        signal.signal(signal.SIGHUP, old)


def test_memory_outlives_a_call_that_goes_on(here: Path) -> None:
    """Interrupted while it connects, from Python: the caller goes on at once; memory stays until the call is done."""
    prepared = prepare(write(here, CONNECTING.replace("300000", "15000")), Options(), Times())
    backend = CpuBackend()
    artifact = backend.build(prepared.lowered.merged, here / "out", {})
    threads = threading.active_count()

    def stop(number: int, frame: object) -> None:
        raise Interrupted(number)

    old = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        begin = time.monotonic()
        with pytest.raises(Interrupted):
            backend.load(artifact, prepared.lowered.merged, 1)
        assert time.monotonic() - begin < SOON
    finally:
        signal.signal(signal.SIGALRM, old)
    wait_for(lambda: threading.active_count() == threads)

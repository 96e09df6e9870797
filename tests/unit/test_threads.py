"""The Python API from threads other than the main one, and from several at once."""

from __future__ import annotations

import gc
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compiler.core.diagnostics import ModelError
from compiler.runtime.artifacts import build_folder
from netloom import build, check, run
from tests.unit.test_cli import TINY


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY + "plots: [{raster: {from: p}}]\n", encoding="utf-8")
    return path


def test_a_build_folder_that_another_one_replaces(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at its stamp and that at its files it is gone for a moment."""
    folder, stamp_of = build(model, "reference").folder, build_folder._stamp

    def gone(place: Path) -> dict[str, Any] | None:
        stamp = stamp_of(place)
        shutil.rmtree(place)
        return stamp

    monkeypatch.setattr(build_folder, "_stamp", gone)
    assert build(model, "reference").folder == folder
    assert (folder / "program.ir").is_file()


def test_several_threads_check_build_and_run(model: Path, tmp_path: Path) -> None:
    """One model, one build folder, one folder of runs: every thread gets its own results, and the process is as it
    was."""
    bad = tmp_path / "bad.yaml"
    bad.write_text(TINY.replace("x + step", "x + stop"), encoding="utf-8")
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    frozen, limit = gc.get_freeze_count(), gc.get_threshold()

    def work(number: int) -> tuple[Path, int]:
        assert threading.current_thread() is not threading.main_thread()
        assert check(model) == []
        assert check(bad) != []
        with pytest.raises(ModelError):
            build(bad, "reference")
        build(model, "reference")
        size = 1 + number % 3
        result = run(model, "reference", set={"n": size})
        assert result.status == "ok"
        return result.folder, result.counts["p"] - 5 * size

    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(work, range(8)))
    assert len({folder for folder, _ in done}) == 8
    assert all(left == 0 for _, left in done)
    assert all((folder / "plots" / "raster.png").exists() for folder, _ in done)
    assert sorted(p.name for p in (tmp_path / "build").iterdir()) == ["tiny"]
    assert all(not p.name.startswith(".") for p in (tmp_path / "runs").iterdir())
    assert gc.isenabled() and (gc.get_freeze_count(), gc.get_threshold()) == (frozen, limit)
    assert handlers == [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

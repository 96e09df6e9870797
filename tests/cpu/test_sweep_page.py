"""docs/sweep.md: every YAML block is right and every command runs; the live table."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from compiler.cli.app import app
from compiler.sweep import show
from compiler.sweep.cluster import Where
from compiler.sweep.plan import plan
from compiler.sweep.pool import Pool, Processes
from compiler.sweep.trial import Job, Trial, row_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/sweep.md").read_text(encoding="utf-8")
SWEPT = [t for t in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S) if t.startswith("sweep:")]
COMMANDS = [line.partition("#")[0].strip() for line in re.findall(r"^    (netloom .*)$", PAGE, re.M)]


def written(folder: Path, sweep: str) -> Path:
    text = re.sub(r"duration: [^,}\n]*", "duration: 20 ms", (ROOT / "models/cuba.yaml").read_text(encoding="utf-8"))
    assert "sweep:" not in text and "duration: 20 ms" in text
    path = folder / "model.yaml"
    path.write_text(f"{text}\n{sweep}", encoding="utf-8")
    return path


@pytest.mark.parametrize("text", SWEPT, ids=[t.split()[1].rstrip(":") for t in SWEPT])
def test_blocks(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, text)
    ran = CliRunner().invoke(app, ["sweep", "model.yaml"])
    assert ran.exit_code == 0 and re.search(r"\d+ trials \(\d+ ok\)", ran.output), ran.output
    assert ("best: rate.exc" in ran.output) is ("search:" in text)


@pytest.mark.slow
def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those for clusters, with processes in place of the cluster."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, SWEPT[0])
    begun: list[Where] = []

    def start(self: Where, job: Job, ahead: bool) -> Pool:
        begun.append(self)
        return Processes(job, 2)

    monkeypatch.setattr(Where, "start", start)
    assert len(COMMANDS) == 6
    for k, command in enumerate(COMMANDS):
        more = [] if "--dry-run" in command else ["--out", f"s{k}"]
        ran = CliRunner().invoke(app, [*shlex.split(command)[1:], *more])
        assert ran.exit_code == 0, (command, ran.output)
    assert begun == [
        Where("tcp://node1:8786", None, 32), Where(None, "slurm", 32), Where(None, "ssh:node1,node2", 16)
    ]  # fmt: skip


def test_the_live_table(tmp_path: Path) -> None:
    path = written(tmp_path, SWEPT[-1])
    planned = plan(path, None, None, {}, {})
    screen = io.StringIO()
    table = show.Table(Console(file=screen, force_terminal=True, width=120))
    table.start(planned, 1)
    trials = [Trial({"p": "0.02", "n_exc": str(n)}, None, f"key{n}") for n in (1, 2, 3)]
    for trial in trials:
        table.begun(trial)
    best = row_of(trials[0], "ok", 1.0, "") | {"rate.exc": 7.5}
    table.ended(trials[0], best, 2, best)
    table.ended(trials[1], row_of(trials[1], "failed", 1.0, "E0905: too large"), 3, best)
    shown = Console(width=120, file=io.StringIO())
    with shown.capture() as captured:
        shown.print(table.picture())
    text = captured.get()
    table.finish()
    for words in ("key1", "rate.exc 7.5", "E0905: too large", "runs 0:0", "n_exc=3", "3 of 6 trials, 1 failed", "left",
                  "1 under way", "best so far: rate.exc 7.5 with p=0.02, n_exc=1"):  # fmt: skip
        assert words in text, (words, text)
    assert "best so far" in screen.getvalue()


def test_lines_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(show.shown(True), show.Nothing) and isinstance(show.shown(False), show.Lines)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(show.shown(False), show.Table)
    monkeypatch.setattr(show, "EVERY", 0.0)
    lines = show.Lines()
    lines.start(plan(written(tmp_path, SWEPT[0]), None, None, {}, {}), 0)
    trial = Trial({"p": "0.02"}, None, "key")
    lines.ended(trial, row_of(trial, "ok", 1.0, "") | {"rate.exc": 7.5}, 1, None)
    assert re.fullmatch(r"\w+: 1 of 8 trials, 0:0\d left; p=0.02: rate.exc 7.5\n", capsys.readouterr().err)
    assert show.clock(75) == "1:15" and show.clock(3700) == "1:01:40"

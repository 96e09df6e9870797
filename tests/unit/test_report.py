"""Runs listed and compared, plots drawn again, reports: from real runs and a sweep."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import netloom
from compiler.cli.app import app
from compiler.core.diagnostics import RunError
from compiler.report.charts import heat_map, lines, parallel, ticks
from compiler.report.page import table
from compiler.report.runs import difference, find_runs, matching, open_run, ordered
from compiler.runtime.common.git import git_commit

MODEL = """language: 1
name: small
description: "<b>not a tag</b> & more"
params: {rate: {value: 20 Hz}, n: {value: 20, type: int}}
populations:
  a: {neuron: library/neurons/poisson, size: n, params: {rate: rate}}
  b: {neuron: library/neurons/lif_psc_exp, size: 3}
projections: {p: {from: a, to: b, connect: {all_to_all: {}}, deliver: {into: I_syn, weight: 10 pA}}}
simulate: {dt: 1 ms, duration: 100 ms, seed: 7}
record: [spikes: {from: [a, b]}, trace: {from: b, variables: [v], every: 1 ms}]
plots: [raster: {from: a}]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs of two settings, a training and a sweep."""
    from tests.cpu.test_model import NETWORK, samples

    root = tmp_path_factory.mktemp("runs")
    (root / "m.yaml").write_text(MODEL, encoding="utf-8")
    places = {"build_dir": root / "build"}
    netloom.run(root / "m.yaml", out=root / "runs" / "first", **places)
    netloom.run(root / "m.yaml", set={"rate": "80 Hz"}, seed=3, out=root / "runs" / "second", **places)
    netloom.load(NETWORK).fit(samples(), validation=0.25, out=root / "runs" / "trained")
    netloom.load(NETWORK).fit(samples(), validation=0.25, seed=9, out=root / "other" / "trained")
    netloom.sweep(root / "m.yaml", {"grid": {"n": [5, 10], "rate": ["20 Hz", "40 Hz"]}}, seeds=2, out=root / "sweep")
    return root


def command(*words: str | Path) -> str:
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == 0, result.output
    return result.output


class Checked(html.parser.HTMLParser):
    """Tags close in order; nothing is loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {n for n, _ in attrs}, "needs a network"
        self.seen.append(tag)
        if tag not in ("meta", "rect", "circle", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "circle", "path"):
            assert self.open.pop() == tag


def page(*folders: Path, out: Path) -> str:
    command("report", *folders, "--out", out)
    text = out.read_text(encoding="utf-8")
    parser = Checked()
    parser.feed(re.sub(r"<path([^>]*[^/])>(?!<title>)", r"<path\1/>", text))
    assert len(text) < 500_000 and "<script" not in text
    return text


def test_listing_filtering_sorting(folder: Path) -> None:
    runs = find_runs([folder / "runs"])
    assert {r.folder.name for r in runs} == {"first", "second", "trained"}
    assert [r.folder.name for r in matching(runs, ["rate.a>50"])] == ["second"]
    assert {r.folder.name for r in matching(runs, ["name=small", "status=ok"])} == {"first", "second"}
    assert [r.folder.name for r in matching(runs, ["rate=80 Hz"])] == ["second"]
    assert [r.folder.name for r in matching(runs, ["loss<100"])] == ["trained"]
    with pytest.raises(RunError, match="no condition"):
        matching(runs, ["loss"])
    with pytest.raises(RunError, match="no run has `rat"):
        matching(runs, ["rat.a>5"])
    with pytest.raises(RunError, match="no run has `los`"):
        ordered(runs, "-los")
    with pytest.raises(RunError, match="there is no folder"):
        find_runs([folder / "nowhere"])
    text = command("runs", folder / "runs", "--sort", "-rate.a")
    assert text.index("second") < text.index("first") < text.index("trained")
    listed = json.loads(command("runs", folder / "runs", "--format", "json"))
    assert len(listed) == 3 and all(r["status"] == "ok" for r in listed)


def test_differences(folder: Path) -> None:
    a, b = open_run(folder / "runs" / "first"), open_run(folder / "runs" / "second")
    found = difference(a, b)
    assert found.settings["seed"] == (7, 3) and found.settings["rate"] == (0.02, 0.08)
    assert found.results["rate.a"][0] != found.results["rate.a"][1] and found.weights == {}
    assert any(line.startswith("+") and "0.08" in line for line in found.model)
    same = difference(a, a)
    assert not (same.settings or same.results or same.model or same.weights)
    assert "nothing differs" in command("diff", a.folder, a.folder)
    text = command("diff", a.folder, b.folder)
    assert "rate.a" in text and "seed" in text


def test_distance_of_weights(folder: Path) -> None:
    a, b = folder / "runs" / "trained", folder / "other" / "trained"
    found = difference(open_run(a), open_run(b)).weights
    first, second = netloom.open(a).weights(), netloom.open(b).weights()
    for name, distance in found.items():
        x, y = first[name].astype(np.float64), second[name].astype(np.float64)
        assert distance == pytest.approx(np.linalg.norm(x - y) / np.linalg.norm(x))
    assert len(found) == len(first)


def test_an_opened_result_is_that_of_the_run(folder: Path) -> None:
    result = netloom.open(folder / "runs" / "first")
    times, ids = result.spikes("a")
    assert result.status == "ok" and len(times) == result.counts["a"] == len(ids)
    with pytest.raises(netloom.RunError, match="E0916"):
        netloom.open(folder)


def test_plots_are_drawn_again(folder: Path, tmp_path: Path) -> None:
    run = folder / "runs" / "first"
    before = (run / "plots" / "raster.svg").read_bytes()
    assert command("plot", run).split() == [str(run / "plots" / n) for n in ("raster.png", "raster.svg")]
    assert (run / "plots" / "raster.svg").read_bytes() == before
    command("plot", run, "--only", "raster", "--image", "pdf", "--out", tmp_path)
    assert (tmp_path / "raster.pdf").read_bytes().startswith(b"%PDF")
    refused = CliRunner().invoke(app, ["plot", str(run), "--only", "rasters"])
    assert refused.exit_code == 2


def test_report_of_a_run(folder: Path, tmp_path: Path) -> None:
    run = folder / "runs" / "first"
    text = page(run, out=tmp_path / "r.html")
    result = netloom.open(run)
    assert "&lt;b&gt;not a tag&lt;/b&gt; &amp; more" in text and "<b>" not in text
    assert f"{result.rates['a']:.4g}" in text and "20 neurons of poisson" in text and "all_to_all into I_syn" in text
    assert text.count("<svg") == 4, "the diagram, a raster, rates, traces"


def test_report_of_a_training(folder: Path, tmp_path: Path) -> None:
    text = page(folder / "runs" / "trained", out=tmp_path / "r.html")
    rows = netloom.open(folder / "runs" / "trained").history()
    for row in rows:
        assert f"training: {row['loss']:.4g} at {row['epoch']}" in text
        assert f"validation: {row['validation_accuracy']:.4g} at {row['epoch']}" in text
    assert "dense, relu" in text


def test_report_of_several(folder: Path, tmp_path: Path) -> None:
    text = page(folder / "runs" / "first", folder / "runs" / "second", out=tmp_path / "r.html")
    assert "2 runs" in text and "<h2>first</h2>" in text and "<h2>second</h2>" in text


def test_report_of_a_sweep(folder: Path, tmp_path: Path) -> None:
    text = page(folder / "sweep", out=tmp_path / "r.html")
    result = netloom.sweep(
        folder / "m.yaml", {"grid": {"n": [5, 10], "rate": ["20 Hz", "40 Hz"]}}, seeds=2, out=folder / "sweep"
    )
    mean = np.mean([r["rate.a"] for r in result.rows if (r["set.n"], r["set.rate"]) == ("10", "40 Hz")])
    assert f"rate 40 Hz, n 10: rate.a {mean:.4g}" in text and "8 trials, 8 ok" in text


def test_damaged_files_are_named(folder: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder / "runs" / "first", copy)
    (copy / "spikes.h5").write_bytes(b"no")
    (copy / "model.yaml").write_text("language: 2\n", encoding="utf-8")
    assert "the model cannot be read" in page(copy, out=tmp_path / "r.html")
    (copy / "model.yaml").write_text((folder / "runs" / "first" / "model.yaml").read_text(), encoding="utf-8")
    assert 'Spikes</h3><p class="note">cannot be read' in page(copy, out=tmp_path / "r.html")


def test_charts_take_any_numbers() -> None:
    nothing, one = np.zeros(0), np.array([1.0])
    bad = np.array([np.nan, np.inf, 1e300, -1e300])
    for x, y in ((nothing, nothing), (one, one), (np.arange(4.0), bad), (np.arange(9e3), np.arange(9e3))):
        assert lines({"<a>": (x, y)}, ("x", "y")).startswith("<svg") and "<a>" not in lines({"<a>": (x, y)}, ("x", "y"))
    assert "nan" in heat_map(["a"], ["b"], np.array([[np.nan]]), ("x", "y", "z"))
    assert parallel({"act": ["relu", "tanh"], "loss": [0.1, np.nan]}, "loss").startswith("<svg")
    assert ticks(0, 1) == [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0] and ticks(3, 3) == [3]


def test_the_commit_of_a_folder(tmp_path: Path) -> None:
    import subprocess

    def git(*words: str) -> str:
        options = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        return subprocess.run(
            ["git", *options, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()

    (tmp_path / "inner").mkdir()
    assert git_commit(tmp_path / "inner") is None
    git("init", "-q")
    assert git_commit(tmp_path / "inner") is None
    git("commit", "-q", "--allow-empty", "-m", "one")
    commit = git("rev-parse", "HEAD")
    assert git_commit(tmp_path / "inner") == commit
    git("pack-refs", "--all")
    assert git_commit(tmp_path / "inner") == commit
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    assert git_commit(tmp_path / "side") == commit
    git("checkout", "-q", "--detach")
    assert git_commit(tmp_path) == commit


def test_cells_of_no_number_are_text() -> None:
    """A damaged run.json may hold a map where a run writes a number."""
    shown = table([[{"a": 1}, [2], 1234, 0.5, None, True]])
    assert "<td>{&#x27;a&#x27;: 1}</td><td>[2]</td>" in shown
    assert '<td class="n">1,234</td>' in shown and "<td></td><td>True</td>" in shown

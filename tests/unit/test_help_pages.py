"""Help pages: every example runs; commands stand in groups; shells complete files, runs, targets and parameters."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from compiler.cli import app as cli_app
from compiler.cli.help import EXAMPLES, GROUPS


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(cli_app.app)
    return dict(group.commands)


def test_every_command_has_an_example_and_a_group() -> None:
    assert {n for _, names in GROUPS for n in names} <= commands().keys()
    with_examples = {e.split()[1] for e in EXAMPLES}
    for _, names in GROUPS:
        assert with_examples.issuperset(names)
    for example in EXAMPLES:
        assert f"\n  {example}\n" in f"{commands()[example.split()[1]].epilog}\n"


@pytest.mark.usefixtures("cc", "not_optimized")
def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES:
        monkeypatch.setattr(sys, "argv", shlex.split(example))
        code = cli_app.run_app()
        shown = capsys.readouterr()
        assert code == 0, (example, shown.err)
        assert shown.out, example


def completed(folder: Path, words: str) -> list[str]:
    """What bash is offered behind `words`."""
    root = Path(cli_app.__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-m", "compiler.cli"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(root),
            "_NETLOOM_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stderr == ""
    return found.stdout.split()


def test_completion(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "model.yaml").write_text("params: {n: 3, noise: 1 kHz, width: 2}\n")
    (tmp_path / "mine.csv").touch()
    (tmp_path / "runs" / "a-1").mkdir(parents=True)
    (tmp_path / "runs" / "a-1" / "run.json").write_text("{}")
    for words, wanted in (
        ("netloom run m", ["model.yaml", "models/"]),
        ("netloom run model.yaml --set n", ["n=", "noise="]),
        ("netloom run model.yaml --target re", ["reference"]),
        ("netloom evaluate runs/", ["runs/a-1"]),
        ("netloom run no.yaml --set n", []),
    ):
        assert completed(tmp_path, words) == wanted, words

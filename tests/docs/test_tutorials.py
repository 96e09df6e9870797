"""The tutorials, and the pages for users of other systems, are followed literally, from top to bottom, in an empty
folder (`make test-slow`). In every test run their models are checked and their Python is compiled. scripts/follow.py
has the rules."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import netloom
from scripts.follow import NAMED, alike, blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(p for folder in ("tutorials", "coming-from", "concepts") for p in (ROOT / "docs" / folder).glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_tutorial_is_followed(page: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.follow", str(page)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_files_of_a_tutorial(page: Path, tmp_path: Path) -> None:
    (tmp_path / "digits.npz").symlink_to(ROOT / "models" / "data" / "digits.npz")
    weights = tmp_path / "runs" / "mine" / "weights.safetensors"  # a run of a page writes it
    weights.parent.mkdir(parents=True)
    weights.touch()
    shown = list(blocks(page))
    for block, after in zip(shown, [*shown, None][1:], strict=True):
        if block.language == "python":
            ast.parse(block.text)
            if re.search(r'savez\(|, "w"\)', block.text):  # data that a model file names
                with contextlib.chdir(tmp_path):
                    exec(compile(block.text, "data", "exec"), {})
        if block.language != "yaml":
            continue
        named = NAMED.match(block.text)
        assert named, f"{page}:{block.line}: begins with no `# NAME.yaml`"
        with (tmp_path / named[1]).open("a" if named[2] else "w", encoding="utf-8") as file:
            file.write(block.text)
        wrong = after is not None and after.language == "sh" and f"netloom check {named[1]}\n" == after.text
        assert bool(netloom.check(tmp_path / named[1])) == wrong, f"{page}:{block.line}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("  cell  30.00 Hz  6 spikes", " cell 30.01 Hz   6 spikes", True),
        ("  cell  30.00 Hz  6 spikes", "  cell  33.00 Hz  6 spikes", False),
        ("results: runs/neuron-...", "results: runs/neuron-20260101T000000Z", True),
        ("results: runs/neuron-...", "results: runs/other-20260101T000000Z", False),
        ("2 75.5...", "2 75.5421875", True),
    ],
)
def test_lines_that_are_alike(shown: str, printed: str, same: bool) -> None:
    assert alike(shown, printed) == same
